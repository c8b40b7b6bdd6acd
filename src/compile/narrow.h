#pragma once

// Concats and sorts of few operands. What a C compiler takes for a kernel grows with the square of the arrays
// that it tells apart or moves together.

#include <cstddef>

#include "systole/ir/graph.h"

namespace systole::lower {

inline constexpr std::size_t kMostJoined = 32;  // operands that a kernel tells apart, or takes along

// The graph, its sub-graphs as they were, with each wider concat as concats of concats, and each wider sort
// as several of its first operand with some of the others.
ir::Graph with_narrow_nodes(const ir::Graph& graph);

}  // namespace systole::lower
