#include "backend/patterns/recurrence.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ops/composites/recurrent.h"
#include "systole/ir/rewriter.h"

namespace systole::patterns {

namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;

constexpr std::size_t kGradOperands = 4;  // of lstm_grad before those of lstm: three gradients and y
constexpr std::size_t kLoopOperands = 5, kLoopGradOperands = 6;

bool is_named(const Node& node, std::string_view name) {
  return node.op == Op::composite && node.as<ir::CompositeAttrs>().name == name;
}

// Whether kernels are written for an lstm or lstm_grad like this.
bool is_suited(const ir::Graph& graph, const Node& node, const SuitsLstm& suits) {
  if (!is_named(node, "lstm") && !is_named(node, "lstm_grad")) return false;
  for (const ValueId v : node.operands) {
    const Type& type = graph.type(v);
    if (type.dtype != DType::f32 || !type.shape.is_static() || type.shape.count() == 0) return false;
  }
  const std::size_t first = is_named(node, "lstm") ? 0 : kGradOperands;
  const Shape &x = graph.type(node.operands[first]).shape,
              &state = graph.type(node.operands[first + 1]).shape;
  return node.shardings.empty() && suits({.length = x[0].value(),
                                          .batch = state[0].value(),
                                          .hidden = state[1].value(),
                                          .is_grad = first > 0});
}

// Whether `grad` is an lstm_grad of the lstm at `index`, of all that it was given.
bool belongs(const Node& grad, const ir::Graph& graph, std::int32_t index) {
  const Node& layer = graph.node(index);
  return is_named(grad, "lstm_grad") && is_named(layer, "lstm") &&
         grad.operands[kGradOperands - 1] == ValueId{index, 0} &&
         std::equal(grad.operands.begin() + kGradOperands, grad.operands.end(), layer.operands.begin(),
                    layer.operands.end());
}

bool has_lstm(const ir::Graph& graph, const SuitsLstm& suits, std::vector<const ir::Graph*>& seen) {
  if (std::find(seen.begin(), seen.end(), &graph) != seen.end()) return false;
  seen.push_back(&graph);
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return is_suited(graph, node, suits) ||
           std::any_of(node.graphs.begin(), node.graphs.end(),
                       [&](const ir::GraphRef& g) { return has_lstm(*g, suits, seen); });
  });
}

// Empty when operands and results have the shapes of a loop of these sizes, or why not.
std::string loop_types(const LstmLoop& loop, const ir::Graph& graph, const Node& node) {
  const std::int64_t t = loop.length, b = loop.batch, h = loop.hidden;
  const Shape state{b, h}, steps{t, b, h}, kept{t + 1, b, h}, gates{t, b, 4 * h}, r{4 * h, h};
  const std::vector<Shape> operands = loop.is_grad ? std::vector<Shape>{steps, state, state, gates, kept, r}
                                                   : std::vector<Shape>{gates, {4 * h}, state, state, r};
  const std::vector<Shape> results = loop.is_grad ? std::vector<Shape>{state, state, gates}
                                     : loop.keeps ? std::vector<Shape>{kept, state, state, gates, kept}
                                                  : std::vector<Shape>{steps, state, state};
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (graph.type(node.operands[i]).shape != operands[i])
      return fmt::format("operand {} is not of the shape {}", i, operands[i].to_string());
  if (node.types.size() != results.size()) return fmt::format("{} results", node.types.size());
  for (std::size_t i = 0; i < results.size(); ++i)
    if (node.types[i] != Type{DType::f32, results[i]})
      return fmt::format("result {} is not of the shape {}", i, results[i].to_string());
  return {};
}

// What loops kept, by the lstm in the graph that is rewritten.
using AllKept = std::map<std::pair<const ir::Graph*, std::int32_t>, ops::LstmKept>;

std::optional<ir::Values> by_loop(const ir::Rewrite& r, const SuitsLstm& suits, AllKept& all_kept) {
  if (!is_suited(r.old_graph, r.node, suits)) return std::nullopt;
  if (is_named(r.node, "lstm")) {
    const auto& nodes = r.old_graph.nodes();
    const bool keeps = std::any_of(nodes.begin(), nodes.end(),
                                   [&](const Node& node) { return belongs(node, r.old_graph, r.index); });
    return ops::lstm_by_loop(r.operands, keeps ? &all_kept[{&r.old_graph, r.index}] : nullptr);
  }
  const std::int32_t layer = r.node.operands[kGradOperands - 1].node;
  if (belongs(r.node, r.old_graph, layer))
    return ops::lstm_grad_by_loop(r.operands, all_kept.at({&r.old_graph, layer}));
  ops::LstmKept again;
  ops::lstm_by_loop(ir::Values(r.operands.begin() + kGradOperands, r.operands.end()), &again);
  return ops::lstm_grad_by_loop(r.operands, again);
}

}  // namespace

// Empty when the region is such a loop and nothing else, or why not. The sizes come from the operands that
// have them, and all types must be those of ops/composites/recurrent.cpp: kernels read by position.
std::string read_lstm_loop(const lower::Region& region, LstmLoop& out) {
  const ir::Graph& graph = region.graph;
  const Node& node = graph.node(region.anchor);
  out.is_grad = is_named(node, ops::kLstmLoopGrad);
  if (node.operands.size() != (out.is_grad ? kLoopGradOperands : kLoopOperands))
    return fmt::format("{} operands", node.operands.size());
  out.keeps = !out.is_grad && node.types.size() == 5;
  out.inputs = graph.inputs().size();
  for (const ValueId v : node.operands) {
    const Type& type = graph.type(v);
    if (type.dtype != DType::f32) return fmt::format("{}: only f32", systole::name(type.dtype));
    if (!type.shape.is_static() || type.shape.count() == 0)
      return "a sequence that is empty or of any length";
    const auto found = std::find(graph.inputs().begin(), graph.inputs().end(), v.node);
    if (found == graph.inputs().end()) return "an operand is computed on the way";
    out.operands.push_back(static_cast<std::size_t>(found - graph.inputs().begin()));
  }
  if (graph.outputs().size() != node.types.size() ||
      graph.size() != static_cast<std::int32_t>(graph.inputs().size()) + 1)
    return "no work on the result";
  const Shape &steps = graph.type(node.operands[0]).shape, &r = graph.type(node.operands.back()).shape;
  if (steps.rank() != 3 || r.rank() != 2) return "operands of other ranks";
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  out.length = steps[0].value();
  out.batch = steps[1].value();
  out.hidden = r[1].value();
  if (out.length > kMost || out.hidden > kMost) return "sizes beyond all memory";
  return loop_types(out, graph, node);
}

ir::Graph with_lstm_loops(const ir::Graph& graph, const SuitsLstm& suits) {
  std::vector<const ir::Graph*> seen;
  if (!has_lstm(graph, suits, seen)) return graph;
  AllKept kept;
  return ir::rewrite(graph, [&](const ir::Rewrite& r) { return by_loop(r, suits, kept); });
}

bool is_lstm_loop(const Node& node) {
  return is_named(node, ops::kLstmLoop) || is_named(node, ops::kLstmLoopGrad);
}

}  // namespace systole::patterns
