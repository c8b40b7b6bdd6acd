#include "eval/plan.h"

#include <optional>
#include <utility>

namespace systole::eval {

Plan::Plan(const ir::Graph& graph) : graph_(graph) {
  std::int32_t slots = 0;
  first_slot_.reserve(static_cast<std::size_t>(graph.size()));
  for (const ir::Node& node : graph.nodes()) {
    first_slot_.push_back(slots);
    slots += static_cast<std::int32_t>(node.types.size());
  }
  last_use_.assign(static_cast<std::size_t>(slots), kUnused);
  for (std::int32_t i = 0; i < graph.size(); ++i)
    for (ir::ValueId v : graph.node(i).operands) last_use_[static_cast<std::size_t>(slot(v))] = i;
  for (const ir::Output& output : graph.outputs())
    last_use_[static_cast<std::size_t>(slot(output.value))] = kOutput;
}

Results Plan::run(Operands arguments, Group* group) const {
  std::vector<std::optional<Literal>> values(last_use_.size());
  const auto keep = [&](std::int32_t at, Literal value) {
    if (last_use_[static_cast<std::size_t>(at)] != kUnused)
      values[static_cast<std::size_t>(at)] = std::move(value);
  };
  for (std::size_t i = 0; i < arguments.size(); ++i)
    keep(slot({graph_.inputs()[i], 0}), std::move(arguments[i]));
  arguments.clear();

  for (std::int32_t i = 0; i < graph_.size(); ++i) {
    const ir::Node& node = graph_.node(i);
    if (node.op == ir::Op::input) continue;
    Operands operands;
    operands.reserve(node.operands.size());
    for (std::size_t k = 0; k < node.operands.size(); ++k) {
      const auto at = static_cast<std::size_t>(slot(node.operands[k]));
      bool last = last_use_[at] == i;
      for (std::size_t later = k + 1; last && later < node.operands.size(); ++later)
        last = !(node.operands[later] == node.operands[k]);
      operands.push_back(last ? std::move(*values[at]) : *values[at]);
      if (last) values[at].reset();
    }
    Results results = evaluate_node(node, std::move(operands), group);
    for (std::size_t k = 0; k < results.size(); ++k)
      keep(slot({i, static_cast<std::int32_t>(k)}), std::move(results[k]));
  }

  Results results;
  results.reserve(graph_.outputs().size());
  for (const ir::Output& output : graph_.outputs())
    results.push_back(*values[static_cast<std::size_t>(slot(output.value))]);
  return results;
}

}  // namespace systole::eval
