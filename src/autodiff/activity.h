#pragma once

// Which values lead from the inputs asked for, through floats, to somewhere: only these get cotangents.

#include <vector>

#include "systole/ir/graph.h"

namespace systole::autodiff {

using Flags = std::vector<bool>;
std::vector<int> positions(const Flags& flags);  // of what is true

// Per node and result of `graph`, given which inputs are active.
std::vector<Flags> active_values(const ir::Graph& graph, const Flags& inputs);
Flags active_outputs(const ir::Graph& graph, const Flags& inputs);

// Which inputs of a loop's body are active in some round, given which operands of the loop are, and which
// results of the loop.
struct LoopActivity {
  Flags inputs, results;
};
LoopActivity loop_activity(const ir::Graph& body, Flags operands, std::size_t carries);

}  // namespace systole::autodiff
