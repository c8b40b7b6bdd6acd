#include "autodiff/activity.h"

#include <algorithm>

namespace systole::autodiff {

namespace {

using ir::Node;
using ir::Op;

Flags node_activity(const Node& node, const Flags& operands) {
  switch (node.op) {
    case Op::scan: {
      const auto carries = static_cast<std::size_t>(node.as<ir::ScanAttrs>().carries);
      return active_outputs(*node.graphs[0], active_loop_inputs(*node.graphs[0], operands, carries));
    }
    case Op::while_loop: {
      const auto carries = static_cast<std::size_t>(node.as<ir::WhileAttrs>().carries);
      return active_outputs(*node.graphs[1], active_loop_inputs(*node.graphs[1], operands, carries));
    }
    case Op::cond: {
      const Flags inner(operands.begin() + 1, operands.end());
      Flags result = active_outputs(*node.graphs[0], inner);
      const Flags other = active_outputs(*node.graphs[1], inner);
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = result[i] || other[i];
      return result;
    }
    case Op::composite: return active_outputs(*node.graphs[0], operands);
    case Op::barrier: return operands;
    default:
      return Flags(node.types.size(), std::find(operands.begin(), operands.end(), true) != operands.end());
  }
}

}  // namespace

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

Flags active_loop_inputs(const ir::Graph& body, Flags operands, std::size_t carries) {
  // A carry that becomes active in one round is active in the next; each pass adds one at least.
  for (bool changed = true; changed;) {
    changed = false;
    const Flags out = active_outputs(body, operands);
    for (std::size_t i = 0; i < carries; ++i)
      if (out[i] && !operands[i]) operands[i] = changed = true;
  }
  return operands;
}

}  // namespace systole::autodiff
