#pragma once

// The evaluation of each op, as dispatch() calls it.

#include <memory>
#include <span>
#include <vector>

#include "eval/eval.h"
#include "eval/operands.h"
#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole::eval {

using Results = std::vector<Literal>;

class Plan;
using PlanRef = std::shared_ptr<const Plan>;

// What an op needs beside its operands.
struct Context {
  Group* group = nullptr;           // the devices to meet; null without a mesh
  std::span<const PlanRef> bodies;  // the node's sub-graphs, ready to run
};

// elementwise.cpp, select.cpp
void elementwise(const ir::Node& node, const Operands& x, Slot& result);  // those without attributes
void select(const ir::Node& node, const Operands& x, Slot& result);
void clamp(const ir::Node& node, const Operands& x, Slot& result);
void convert(const ir::Node& node, const Operands& x, Slot& result);
Literal bitcast(const ir::Node& node, const Operands& x);

// sources.cpp
Literal iota(const ir::Node& node);
Literal dimension(const ir::Node& node);
Literal random_bits(const ir::Node& node, const Operands& x);

// movement.cpp
Literal reshape(const ir::Node& node, const Operands& x);
Literal transpose(const ir::Node& node, const Operands& x);
Literal broadcast(const ir::Node& node, const Operands& x);
Literal slice(const ir::Node& node, const Operands& x);
Literal pad(const ir::Node& node, const Operands& x);
Literal concat(const ir::Node& node, const Operands& x);
Literal reverse(const ir::Node& node, const Operands& x);
Literal dynamic_slice(const ir::Node& node, const Operands& x);
Literal dynamic_update_slice(const ir::Node& node, const Operands& x);
// All `parts` joined along `axis`, in storage of its own.
Literal joined(std::span<const Literal* const> parts, std::int64_t axis);
// `count` elements of `axis` from `start`.
Literal part_of(const Literal& x, std::int64_t axis, std::int64_t start, std::int64_t count);

// gather_scatter.cpp
Literal gather(const ir::Node& node, const Operands& x);
Literal scatter(const ir::Node& node, const Operands& x);

// reduction.cpp
Literal reduce(const ir::Node& node, const Operands& x);
Literal arg_reduce(const ir::Node& node, const Operands& x);
Literal reduce_window(const ir::Node& node, const Operands& x);
Literal cumulative(const ir::Node& node, const Operands& x);

// sort.cpp
Results sort(const ir::Node& node, const Operands& x);
Results top_k(const ir::Node& node, const Operands& x);

// dot.cpp, convolution.cpp, linalg.cpp
Literal dot_general(const ir::Node& node, const Operands& x);
Literal convolution(const ir::Node& node, const Operands& x);
Literal cholesky(const ir::Node& node, const Operands& x);
Literal triangular_solve(const ir::Node& node, const Operands& x);

// control.cpp
Results scan(const ir::Node& node, const Operands& x, const Context& context);
Results while_loop(const ir::Node& node, const Operands& x, const Context& context);
Results cond(const Operands& x, const Context& context);
Results call(const Operands& x, const Context& context);  // the body of a composite or a kernel

// collective.cpp
Literal collective(const ir::Node& node, const Operands& x, Group* group);

// dispatch.cpp: the values of the node's results, into slots that stand side by side.
void dispatch(const ir::Node& node, const Operands& x, const Context& context, Slot* results);

}  // namespace systole::eval
