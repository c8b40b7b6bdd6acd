// The driver of the simplification rules: each node is offered to the rules of its op, and what a rule builds
// is offered again. The rules see the new graph, so a chain of any length collapses in one walk.

#include <array>
#include <vector>

#include "base/lasting.h"
#include "compile/simplify/rules.h"
#include "systole/compile/passes.h"
#include "systole/ir/rewriter.h"

namespace systole::passes {

namespace {

using RulesByOp = std::vector<std::vector<const Rule*>>;

const RulesByOp& rules_by_op() {
  static const RulesByOp& table = lasting<RulesByOp>([] {
    RulesByOp by_op(ir::all_ops().size());
    for (std::span<const Rule> rules : {elementwise_rules(), movement_rules(), control_rules()})
      for (const Rule& rule : rules) by_op[static_cast<std::size_t>(rule.op)].push_back(&rule);
    return by_op;
  }());
  return table;
}

Replacement apply_rules(const Match& match) {
  if (!match.node.shardings.empty()) return {};  // the replacement would lose them
  for (const Rule* rule : rules_by_op()[static_cast<std::size_t>(match.node.op)])
    if (Replacement result = rule->apply(match); !result.values.empty()) return result;
  return {};
}

std::optional<Values> simplify_node(const ir::Rewrite& rewrite) {
  std::int32_t known = rewrite.graph.size();
  Replacement result = apply_rules({rewrite.graph, rewrite.node, rewrite.operands});
  if (result.values.empty()) return std::nullopt;
  // A single new node at the end is what a rule of a single-result op made.
  while (result.values.size() == 1 && result.values[0].id().node >= known) {
    const ir::Node& made = maker(result.values[0]);
    if (made.types.size() != 1) break;
    Values operands;
    for (ir::ValueId id : made.operands) operands.push_back(rewrite.graph.value(id));
    known = rewrite.graph.size();
    Replacement next = apply_rules({rewrite.graph, made, operands});
    if (next.values.empty()) break;
    result = std::move(next);
  }
  return std::move(result.values);
}

}  // namespace

ir::Graph simplify(const ir::Graph& graph) { return ir::rewrite(graph, simplify_node); }

}  // namespace systole::passes
