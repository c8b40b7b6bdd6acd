// Derivatives of composites. One that brings its backward, as a second graph or by its registered name, stays
// whole; so does `remat`, whose way back computes the body again from the operands. Every other one is
// replaced by its body where a derivative passes through, and left alone elsewhere.

#include <algorithm>

#include "autodiff/activity.h"
#include "autodiff/copier.h"
#include "autodiff/rules.h"
#include "ir/composite_check.h"
#include "systole/autodiff.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"

namespace systole::autodiff {

namespace {

const ir::CompositeDef* with_backward(const Node& node) {
  const ir::CompositeDef* def = ir::definition_of(node);
  return def != nullptr && def->backward ? def : nullptr;
}

bool opens(const Node& node) {
  if (node.op == Op::kernel_call) return !node.graphs.empty();
  return node.op == Op::composite && node.graphs.size() == 1 && !is_remat(node) && !with_backward(node);
}

Flags used_inputs(const Graph& graph) {
  Flags used(static_cast<std::size_t>(graph.size()));
  for (const Node& node : graph.nodes())
    for (ir::ValueId v : node.operands) used[static_cast<std::size_t>(v.node)] = true;
  for (const ir::Output& o : graph.outputs()) used[static_cast<std::size_t>(o.value.node)] = true;
  Flags inputs;
  for (std::int32_t i : graph.inputs()) inputs.push_back(used[static_cast<std::size_t>(i)]);
  return inputs;
}

// A result whose cotangent the backward does not read is there for the backward alone. At the next order it
// is differentiated like any value, so the backward gets the opened body's, which cse merges with the
// composite's own.
Cotangents given_backward(const Adjoint& a) {
  const Graph& backward = *a.node.graphs[1];
  const Flags used = used_inputs(backward);
  Values arguments = a.x, opened, cotangents;
  for (std::size_t i = 0; i < a.y.size(); ++i) {
    Value result = a.y[i];
    if (is_float(result.dtype())) {
      const bool kept = !used[a.x.size() + a.y.size() + cotangents.size()];
      if (kept && used[a.x.size() + i]) {
        if (opened.empty()) opened = ir::inline_graph(a.graph, *a.node.graphs[0], a.x);
        result = opened[i];
      }
      cotangents.push_back(a.dy(i));
    }
    arguments.push_back(result);
  }
  arguments.insert(arguments.end(), cotangents.begin(), cotangents.end());
  const Values gradients = ir::inline_graph(a.graph, backward, arguments);
  Cotangents out(a.x.size());
  for (std::size_t i = 0, next = 0; i < out.size(); ++i)
    if (is_float(a.x[i].dtype())) out[i] = gradients[next++];
  return out;
}

// The barrier keeps the second computation apart from the first, which cse would merge, and lets it start
// only when the cotangents are there. It is a remat itself, for derivatives of higher order.
Cotangents remat_rule(const Adjoint& a) {
  const Graph& body = *a.node.graphs[0];
  const std::vector<int> wrt = positions(a.needed);
  const Graph derivative = vjp(body, wrt);
  Values operands = a.x;
  std::vector<ir::ValueId> seeds;  // of the cotangents that arrived
  std::size_t seed = a.x.size();
  for (std::size_t i = 0; i < a.y.size(); ++i) {
    if (!is_float(a.y[i].dtype())) continue;
    const ir::ValueId v{derivative.inputs()[seed++], 0};
    if (!a.cotangents[i]) continue;
    operands.push_back(*a.cotangents[i]);
    seeds.push_back(v);
  }
  const ir::GraphRef backward = derived_graph(body, "_backward", operands, [&](const Values& inputs) {
    const Values held = ops::barrier(inputs);
    Copier copy(derivative, held[0].graph());
    for (std::size_t i = 0; i < a.x.size(); ++i) copy.set({derivative.inputs()[i], 0}, held[i]);
    for (std::size_t i = 0; i < seeds.size(); ++i) copy.set(seeds[i], held[a.x.size() + i]);
    Values gradients;
    for (std::size_t i = body.outputs().size(); i < derivative.outputs().size(); ++i)
      gradients.push_back(copy.get(derivative.outputs()[i].value));
    return gradients;
  });
  const Values gradients = ops::remat(backward, operands);
  Cotangents out(a.x.size());
  for (std::size_t i = 0; i < wrt.size(); ++i) out[static_cast<std::size_t>(wrt[i])] = gradients[i];
  return out;
}

}  // namespace

bool is_remat(const Node& node) {
  return node.op == Op::composite && node.graphs.size() == 1 &&
         node.as<ir::CompositeAttrs>().name == ir::kRemat;
}

Graph opened(Graph graph, const Flags& inputs) {
  for (;;) {
    const std::vector<Flags> active = active_values(graph, inputs);
    const auto replaced = [&](std::int32_t i) {
      const Flags& results = active[static_cast<std::size_t>(i)];
      return opens(graph.node(i)) && std::find(results.begin(), results.end(), true) != results.end();
    };
    bool any = false;
    for (std::int32_t i = 0; i < graph.size() && !any; ++i) any = replaced(i);
    if (!any) return graph;
    const auto rule = [&](const ir::Rewrite& r) -> std::optional<Values> {
      if (!replaced(r.index)) return std::nullopt;
      return ir::inline_graph(r.graph, *r.node.graphs[0], r.operands);
    };
    graph = ir::rewrite(graph, rule, {.subgraphs = false});
  }
}

Cotangents composite_rule(const Adjoint& a) {
  if (a.node.graphs.size() == 2) return given_backward(a);
  if (is_remat(a.node)) return remat_rule(a);
  const ir::CompositeDef* def = with_backward(a.node);
  ir::AttrMap attrs = a.as<ir::CompositeAttrs>().attrs;
  attrs.insert(def->defaults.begin(), def->defaults.end());
  return def->backward(a.x, a.y, a.cotangents, attrs);
}

}  // namespace systole::autodiff
