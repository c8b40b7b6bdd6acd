// Builders of loops, branches and kernel calls: they join the operand lists in the order the op keeps them.

#include <initializer_list>
#include <utility>

#include "ops/common.h"
#include "systole/ir/composite.h"

namespace systole::ops {

namespace {

Values joined(std::initializer_list<ValueList> lists) {
  Values all;
  for (const ValueList& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

Values scan(GraphRef body, ValueList carries, ValueList xs, ValueList constants, Dim length, bool reverse) {
  const Values operands = joined({carries, xs, constants});
  ir::ScanAttrs attrs;
  attrs.length = length;
  attrs.carries = static_cast<std::int64_t>(carries.size());
  attrs.xs = static_cast<std::int64_t>(xs.size());
  attrs.reverse = reverse;
  return graph_of("scan", operands).add_multi(ir::Op::scan, operands, attrs, {std::move(body)});
}

Values while_loop(GraphRef condition, GraphRef body, ValueList carries, ValueList constants) {
  const Values operands = joined({carries, constants});
  return graph_of("while_loop", operands)
      .add_multi(ir::Op::while_loop, operands, ir::WhileAttrs{static_cast<std::int64_t>(carries.size())},
                 {std::move(condition), std::move(body)});
}

Values cond(Value predicate, GraphRef on_true, GraphRef on_false, ValueList operands) {
  const Values all = joined({ValueList(predicate), operands});
  return graph_of("cond", all).add_multi(ir::Op::cond, all, {}, {std::move(on_true), std::move(on_false)});
}

Values remat(GraphRef body, ValueList operands) {
  return graph_of("remat", operands)
      .add_multi(ir::Op::composite, operands, ir::CompositeAttrs{std::string(ir::kRemat), {}},
                 {std::move(body)});
}

Values barrier(ValueList values) { return graph_of("barrier", values).add_multi(ir::Op::barrier, values); }

Values kernel_call(Graph& graph, ValueList operands, ir::KernelAttrs attrs, GraphRef body) {
  std::vector<GraphRef> graphs;
  if (body != nullptr) graphs.push_back(std::move(body));
  return graph.add_multi(ir::Op::kernel_call, operands, std::move(attrs), std::move(graphs));
}

}  // namespace systole::ops
