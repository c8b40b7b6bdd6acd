#include "autodiff/activity.h"

#include <algorithm>
#include <utility>

#include "systole/ir/composite.h"

namespace systole::autodiff {

namespace {

using ir::Node;
using ir::Op;

Flags node_activity(const Node& node, const Flags& operands) {
  const auto any = [&] {
    return Flags(node.types.size(), std::find(operands.begin(), operands.end(), true) != operands.end());
  };
  const auto loop = [&](const ir::Graph& body, std::int64_t carries) {
    return loop_activity(body, operands, static_cast<std::size_t>(carries)).results;
  };
  switch (node.op) {
    case Op::scan: return loop(*node.graphs[0], node.as<ir::ScanAttrs>().carries);
    case Op::while_loop: return loop(*node.graphs[1], node.as<ir::WhileAttrs>().carries);
    case Op::cond: {
      const Flags inner(operands.begin() + 1, operands.end());
      Flags result = active_outputs(*node.graphs[0], inner);
      const Flags other = active_outputs(*node.graphs[1], inner);
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = result[i] || other[i];
      return result;
    }
    case Op::composite:
      if (node.as<ir::CompositeAttrs>().name == ir::kStopGradient) return Flags(node.types.size());
      if (node.graphs.size() == 2) return any();
      return active_outputs(*node.graphs[0], operands);
    case Op::barrier: return operands;
    default: return any();
  }
}

}  // namespace

std::vector<int> positions(const Flags& flags) {
  std::vector<int> out;
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i]) out.push_back(static_cast<int>(i));
  return out;
}

std::vector<Flags> active_values(const ir::Graph& graph, const Flags& inputs) {
  std::vector<Flags> active;
  std::size_t next_input = 0;
  for (const Node& node : graph.nodes()) {
    Flags results;
    if (node.op == Op::input) {
      results = {inputs[next_input++]};
    } else {
      Flags operands;
      for (ir::ValueId v : node.operands)
        operands.push_back(active[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
      results = node_activity(node, operands);
    }
    for (std::size_t i = 0; i < results.size(); ++i) results[i] = results[i] && is_float(node.types[i].dtype);
    active.push_back(std::move(results));
  }
  return active;
}

Flags active_outputs(const ir::Graph& graph, const Flags& inputs) {
  const std::vector<Flags> active = active_values(graph, inputs);
  Flags out;
  for (const ir::Output& o : graph.outputs())
    out.push_back(active[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.index)]);
  return out;
}

LoopActivity loop_activity(const ir::Graph& body, Flags operands, std::size_t carries) {
  // A carry that becomes active in one round is active in the next; each pass but the last adds one at least.
  for (;;) {
    Flags results = active_outputs(body, operands);
    bool changed = false;
    for (std::size_t i = 0; i < carries; ++i)
      if (results[i] && !operands[i]) operands[i] = changed = true;
    if (changed) continue;
    // Without a round a carry is what it was.
    for (std::size_t i = 0; i < carries; ++i) results[i] = operands[i];
    return {std::move(operands), std::move(results)};
  }
}

}  // namespace systole::autodiff
