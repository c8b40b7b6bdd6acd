// Rules of composites. A built-in one stays whole where it takes more examples as it is: by another leading
// axis, or as part of its own batch axis. One with a gradient of its own becomes a composite of its mapped
// body and backward graph. Of the rest, a registered name promises what the mapped body no longer does, so
// the body stands in its place; any other name is only a mark and stays.

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "autodiff/batch/batch.h"
#include "ir/composite_check.h"
#include "systole/ir/composite.h"

namespace systole::autodiff::batch {

namespace {

constexpr int kLead = -1;    // takes another leading axis
constexpr int kShared = -2;  // one for all examples

// How a composite takes the examples: per operand and result one of the above, or the axis they are folded
// into.
struct Form {
  std::string_view name;
  std::vector<int> operands, results;
};

const Form* find_form(std::string_view name) {
  static const Form kForms[] = {
      {"adam_update", {kLead, kLead, kLead, kLead, kShared, kShared}, {kLead, kLead, kLead}},
      {"adamw_update", {kLead, kLead, kLead, kLead, kShared, kShared}, {kLead, kLead, kLead}},
      {"attention", {0, 0, 0}, {0, 0}},
      {"attention_grad", {0, 0, 0, 0, 0, 0}, {0, 0, 0}},
      {"avg_pool", {0}, {0}},
      {"batch_norm_inference", {kLead, kShared, kShared, kShared, kShared}, {kLead}},
      {"cross_entropy", {kLead, kLead}, {kLead}},
      {"embedding", {kShared, kLead}, {kLead}},
      {"gelu", {kLead}, {kLead}},
      {"gru", {1, 0, kShared, kShared, kShared, kShared}, {1, 0}},
      {"layer_norm", {kLead, kShared, kShared}, {kLead}},
      {"log_softmax", {kLead}, {kLead}},
      {"lstm", {1, 0, 0, kShared, kShared, kShared, kShared}, {1, 0, 0}},
      {"max_pool", {0}, {0}},
      {"momentum_update", {kLead, kLead, kLead, kShared}, {kLead, kLead}},
      {"sgd_update", {kLead, kLead, kShared}, {kLead}},
      {"softmax", {kLead}, {kLead}},
      {ir::kStopGradient, {kLead}, {kLead}},
  };
  const auto* found =
      std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& f) { return f.name == name; });
  return found == std::end(kForms) ? nullptr : found;
}

bool fits(const Mapped& m, const Form& form) {
  if (m.node.graphs.size() > 1 || form.operands.size() != m.x.size() ||
      form.results.size() != m.node.types.size())
    return false;
  if (std::find(m.results.begin(), m.results.end(), false) != m.results.end()) return false;
  for (std::size_t i = 0; i < m.x.size(); ++i) {
    if (form.operands[i] == kShared && m.batched[i]) return false;
    // Two symbols have no product.
    if (form.operands[i] >= 0 && !m.size().is_static() &&
        !m.example(i)[static_cast<std::size_t>(form.operands[i])].is_static())
      return false;
  }
  return true;
}

Values whole(const Mapped& m, const Form& form) {
  const auto& a = m.as<ir::CompositeAttrs>();
  ir::AttrMap attrs = a.attrs;
  if (const auto axis = attrs.find("axis"); axis != attrs.end() && ir::get_int(attrs, "axis") >= 0)
    axis->second = ir::get_int(attrs, "axis") + 1;
  Values operands;
  for (std::size_t i = 0; i < m.x.size(); ++i) {
    if (form.operands[i] == kShared)
      operands.push_back(m.x[i]);
    else
      operands.push_back(form.operands[i] == kLead ? m.spread(i) : fold(m.spread(i), form.operands[i]));
  }
  Values results = ir::add_composite(a.name, operands, std::move(attrs));
  for (std::size_t i = 0; i < results.size(); ++i)
    if (form.results[i] >= 0)
      results[i] = unfold(results[i], m.node.types[i].shape, m.size(), form.results[i]);
  return results;
}

// The second graph of a composite whose definition has a backward function (docs/ir.md).
GraphRef backward_graph(const Node& node, const ir::CompositeDef& def) {
  const Graph& body = *node.graphs[0];
  auto graph = std::make_shared<Graph>(def.name + ".backward");
  Values operands, results;
  ir::MaybeValues cotangents(node.types.size());
  for (std::size_t i = 0; i < body.inputs().size(); ++i)
    operands.push_back(graph->input({}, body.input_type(i)));
  for (const Type& type : node.types) results.push_back(graph->input({}, type));
  for (std::size_t i = 0; i < node.types.size(); ++i)
    if (is_float(node.types[i].dtype)) cotangents[i] = graph->input({}, node.types[i]);
  const ir::MaybeValues given =
      def.backward(operands, results, cotangents, node.as<ir::CompositeAttrs>().attrs);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (is_float(operands[i].dtype()))
      graph->output(given[i] ? *given[i] : ops::full(*graph, operands[i].type(), 0));
  return graph;
}

// Every operand has the axis, so that a gradient is each example's own and the spreading sums them up.
Values with_own_gradient(const Mapped& m, const ir::CompositeDef* def) {
  std::vector<GraphRef> graphs = m.node.graphs;
  if (graphs.size() == 1) graphs.push_back(backward_graph(m.node, *def));
  for (GraphRef& g : graphs)
    g = m.mapper.subgraph(g, Flags(g->inputs().size(), true), Flags(g->outputs().size(), true));
  ir::CompositeAttrs attrs = m.as<ir::CompositeAttrs>();
  if (def != nullptr) attrs.name += ".mapped";
  return m.graph.add_multi(Op::composite, m.spread_all(), std::move(attrs), std::move(graphs));
}

}  // namespace

bool has_own_gradient(const Node& node) {
  if (node.op != Op::composite) return false;
  if (node.graphs.size() > 1) return true;
  const ir::CompositeDef* def = ir::definition_of(node);
  return def != nullptr && def->backward;
}

Values map_composite(const Mapped& m) {
  const std::string& name = m.as<ir::CompositeAttrs>().name;
  const ir::CompositeDef* def = ir::find_composite(name);
  const Form* form = find_form(name);
  if (form != nullptr && fits(m, *form) && ir::definition_of(m.node) != nullptr) return whole(m, *form);
  if (has_own_gradient(m.node)) return with_own_gradient(m, def);
  const GraphRef body = m.mapper.subgraph(m.node.graphs[0], m.batched, m.results);
  if (def == nullptr) return m.graph.add_multi(Op::composite, m.x, m.node.attrs, {body});
  return ir::inline_graph(m.graph, *body, m.x);
}

}  // namespace systole::autodiff::batch
