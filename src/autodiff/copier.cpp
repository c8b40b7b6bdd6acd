#include "autodiff/copier.h"

#include <vector>

#include "autodiff/rules.h"
#include "systole/ir/rewriter.h"

namespace systole::autodiff {

Value Copier::get(ir::ValueId wanted) {
  std::vector<std::int32_t> pending;
  if (!mapped_.contains(key(wanted))) pending.push_back(wanted.node);
  while (!pending.empty()) {
    const std::int32_t n = pending.back();
    const Node& node = from_.node(n);
    if (copied_.contains(n)) {
      pending.pop_back();
      continue;
    }
    const std::size_t before = pending.size();
    for (ir::ValueId o : node.operands)
      if (!mapped_.contains(key(o))) pending.push_back(o.node);
    if (pending.size() > before) continue;
    pending.pop_back();
    copied_.insert(n);
    Values operands;
    for (ir::ValueId o : node.operands) operands.push_back(mapped_.at(key(o)));
    const Values results = node.op == Op::input ? Values{zeros(into_, node.types[0])}
                                                : ir::copy_node(into_, node, operands, node.graphs);
    for (std::size_t r = 0; r < results.size(); ++r)
      mapped_.try_emplace(key({n, static_cast<std::int32_t>(r)}), results[r]);
  }
  return mapped_.at(key(wanted));
}

}  // namespace systole::autodiff
