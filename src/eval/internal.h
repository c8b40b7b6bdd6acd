#pragma once

// The evaluation of each op, as eval.cpp calls it. Operands belong to the callee: an op that overwrites part
// of one moves it out of the list, and its storage is copied only when someone else still holds it.

#include <vector>

#include "eval/eval.h"
#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole::eval {

using Operands = std::vector<Literal>;
using Results = std::vector<Literal>;

// elementwise.cpp
Literal elementwise(const ir::Node& node, const Operands& x);  // those of ops.def without attributes
Literal select(const ir::Node& node, const Operands& x);
Literal clamp(const ir::Node& node, const Operands& x);
Literal convert(const ir::Node& node, const Operands& x);
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
Literal dynamic_update_slice(const ir::Node& node, Operands& x);
// All `parts` joined along `axis`, in storage of its own.
Literal joined(std::span<const Literal> parts, std::int64_t axis);
// `count` elements of `axis` from `start`.
Literal part_of(const Literal& x, std::int64_t axis, std::int64_t start, std::int64_t count);

// gather_scatter.cpp
Literal gather(const ir::Node& node, const Operands& x);
Literal scatter(const ir::Node& node, Operands& x);

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
Results scan(const ir::Node& node, Operands x, Group* group);
Results while_loop(const ir::Node& node, Operands x, Group* group);
Results cond(const ir::Node& node, Operands x, Group* group);

// collective.cpp
Literal collective(const ir::Node& node, const Operands& x, Group* group);

// eval.cpp
Results evaluate_node(const ir::Node& node, Operands operands, Group* group);

}  // namespace systole::eval
