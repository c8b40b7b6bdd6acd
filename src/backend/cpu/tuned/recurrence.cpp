#include "backend/cpu/tuned/recurrence.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "backend/cpu/jit.h"
#include "backend/cpu/tuned/lstm_text.h"
#include "ops/composites/recurrent.h"
#include "systole/ir/rewriter.h"

namespace systole::cpu {

namespace {

using ir::Node;
using ir::Op;
using ir::ValueId;

constexpr std::int64_t kMostHidden = 512;  // r of a wider one is read from memory at each step anyway
constexpr std::size_t kGradOperands = 4;   // of lstm_grad before those of lstm: three gradients and y

bool is_named(const Node& node, std::string_view name) {
  return node.op == Op::composite && node.as<ir::CompositeAttrs>().name == name;
}

// Whether kernels are written for an lstm or lstm_grad like this.
bool is_suited(const ir::Graph& graph, const Node& node) {
  if (!is_named(node, "lstm") && !is_named(node, "lstm_grad")) return false;
  for (const ValueId v : node.operands) {
    const Type& type = graph.type(v);
    if (type.dtype != DType::f32 || !type.shape.is_static() || type.shape.count() == 0) return false;
  }
  const std::size_t first = is_named(node, "lstm") ? 0 : kGradOperands;
  return node.shardings.empty() && graph.type(node.operands[first + 1]).shape[1].value() <= kMostHidden;
}

// Whether `grad` is an lstm_grad of the lstm at `index`, of all that it was given.
bool belongs(const Node& grad, const ir::Graph& graph, std::int32_t index) {
  const Node& layer = graph.node(index);
  return is_named(grad, "lstm_grad") && is_named(layer, "lstm") &&
         grad.operands[kGradOperands - 1] == ValueId{index, 0} &&
         std::equal(grad.operands.begin() + kGradOperands, grad.operands.end(), layer.operands.begin(),
                    layer.operands.end());
}

bool has_lstm(const ir::Graph& graph, std::vector<const ir::Graph*>& seen) {
  if (std::find(seen.begin(), seen.end(), &graph) != seen.end()) return false;
  seen.push_back(&graph);
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return is_suited(graph, node) || std::any_of(node.graphs.begin(), node.graphs.end(),
                                                 [&](const ir::GraphRef& g) { return has_lstm(*g, seen); });
  });
}

// What loops kept, by the lstm in the graph that is rewritten.
using AllKept = std::map<std::pair<const ir::Graph*, std::int32_t>, ops::LstmKept>;

std::optional<ir::Values> by_loop(const ir::Rewrite& r, AllKept& all_kept) {
  if (!is_suited(r.old_graph, r.node)) return std::nullopt;
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

// Empty when the region is such a loop and nothing else, or why not.
std::string read_loop(const lower::Region& region, LstmLoop& out) {
  const ir::Graph& graph = region.graph;
  const Node& node = graph.node(region.anchor);
  out.is_grad = is_named(node, ops::kLstmLoopGrad);
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
  const Shape& steps = graph.type(node.operands[0]).shape;
  out.length = steps[0].value();
  out.batch = steps[1].value();
  out.hidden = graph.type(node.operands.back()).shape[1].value();
  return {};
}

}  // namespace

ir::Graph with_lstm_loops(const ir::Graph& graph) {
  std::vector<const ir::Graph*> seen;
  if (!has_lstm(graph, seen) || !makes_kernels()) return graph;
  AllKept kept;
  return ir::rewrite(graph, [&](const ir::Rewrite& r) { return by_loop(r, kept); });
}

bool is_recurrence(const Node& node) {
  return is_named(node, ops::kLstmLoop) || is_named(node, ops::kLstmLoopGrad);
}

Tuned make_recurrence(const lower::Region& region, const std::string& kernel_name) {
  Tuned made;
  LstmLoop loop;
  made.reason = read_loop(region, loop);
  if (!made.reason.empty()) return made;
  made.name = loop.is_grad ? "systole.lstm_grad" : "systole.lstm";
  made.workspace_bytes = lstm_workspace(loop);
  const auto rows = static_cast<double>(loop.length * loop.batch), hidden = static_cast<double>(loop.hidden);
  made.nanoseconds = rows * hidden * (0.1 * hidden + 3);
  codegen::Kernel packing, running;
  packing.name = kernel_name + "_pack";
  packing.source = lstm_pack_text(loop, packing.name);
  packing.items = lstm_pack_items(loop);
  running.name = kernel_name;
  running.source = lstm_loop_text(loop, running.name);
  running.items = loop.batch;
  running.helpers = {"s_tanh_f32"};
  if (!loop.is_grad) running.helpers.insert("s_exp_near_f32");
  for (codegen::Kernel* const kernel : {&packing, &running}) {
    kernel->scratch = true;
    made.kernels.push_back(std::move(*kernel));
  }
  return made;
}

}  // namespace systole::cpu
