// Which values get the new axis. A node has it on all results when an operand has it, but for control flow
// and composites, which are looked into.

#include <algorithm>

#include "autodiff/batch/batch.h"

namespace systole::autodiff::batch {

namespace {

bool any(const Flags& flags) { return std::find(flags.begin(), flags.end(), true) != flags.end(); }

Flags either(Flags a, const Flags& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i] || b[i];
  return a;
}

}  // namespace

const std::vector<Flags>& Mapper::values(const Graph& graph, const Flags& inputs) {
  const auto key = std::make_pair(&graph, inputs);
  if (const auto found = flows_.find(key); found != flows_.end()) return found->second;
  std::vector<Flags> flow;
  flow.reserve(static_cast<std::size_t>(graph.size()));
  std::size_t next_input = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::input) {
      flow.push_back({inputs[next_input++]});
      continue;
    }
    Flags operands;
    for (ir::ValueId v : node.operands)
      operands.push_back(flow[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
    flow.push_back(results(node, operands));
  }
  return flows_.emplace(key, std::move(flow)).first->second;
}

Flags Mapper::outputs(const Graph& graph, const Flags& inputs) {
  const std::vector<Flags>& flow = values(graph, inputs);
  Flags out;
  for (const ir::Output& o : graph.outputs())
    out.push_back(flow[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.index)]);
  return out;
}

Flags Mapper::results(const Node& node, const Flags& operands) {
  if (!any(operands)) return Flags(node.types.size());
  if (node.op == Op::barrier) return operands;
  if (node.op == Op::scan) {
    const auto carries = static_cast<std::size_t>(node.as<ir::ScanAttrs>().carries);
    const Flags inputs = loop_inputs(*node.graphs[0], operands, carries);
    Flags out = outputs(*node.graphs[0], inputs);
    std::copy_n(inputs.begin(), carries, out.begin());
    return out;
  }
  if (node.op == Op::while_loop) {
    const Flags inputs = while_inputs(node, operands).inputs;
    return Flags(inputs.begin(), inputs.begin() + node.as<ir::WhileAttrs>().carries);
  }
  if (node.op == Op::cond && !operands[0]) {
    const Flags inner(operands.begin() + 1, operands.end());
    return either(outputs(*node.graphs[0], inner), outputs(*node.graphs[1], inner));
  }
  // One with a gradient of its own is given the axis on every operand.
  const bool has_body = node.op == Op::composite || (node.op == Op::kernel_call && !node.graphs.empty());
  if (has_body && !has_own_gradient(node)) return outputs(*node.graphs[0], operands);
  return Flags(node.types.size(), true);
}

Flags Mapper::loop_inputs(const Graph& body, Flags operands, std::size_t carries) {
  for (bool changed = true; changed;) {
    changed = false;
    const Flags out = outputs(body, operands);
    for (std::size_t i = 0; i < carries; ++i)
      if (out[i] && !operands[i]) operands[i] = changed = true;
  }
  return operands;
}

Mapper::While Mapper::while_inputs(const Node& node, const Flags& operands) {
  const auto carries = node.as<ir::WhileAttrs>().carries;
  Flags inputs = loop_inputs(*node.graphs[1], operands, static_cast<std::size_t>(carries));
  const bool predicate = outputs(*node.graphs[0], inputs)[0];
  if (predicate) std::fill_n(inputs.begin(), carries, true);
  return {std::move(inputs), predicate};
}

}  // namespace systole::autodiff::batch
