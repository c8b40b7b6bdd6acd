#pragma once

// How much evaluating a node costs, so that the compiler evaluates only what is cheap, and how much a graph
// does, so that launches can be made of a good size.

#include <cstdint>

#include "systole/ir/graph.h"

namespace systole::passes {

// Whether the node's elementary operations, loops multiplied out, stay within `limit`. False for what has no
// bound (while_loop) or no meaning on the host alone (collectives, kernels without a body).
bool within_work(const ir::Node& node, std::span<const Type> operands, std::int64_t limit);

// The elementary operations of a whole graph, what has no bound left out.
std::int64_t graph_work(const ir::Graph& graph);

}  // namespace systole::passes
