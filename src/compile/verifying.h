#pragma once

#include <cstdint>
#include <string_view>

#include "systole/ir/graph.h"

namespace systole::passes {

// What passes may add to the constants of a graph, over all rounds. A graph of a few bytes a node could ask
// for 64 KiB at each.
inline constexpr std::int64_t kMaxFoldedBytes = 64 << 20;

// Whether what a pass makes is verified: in debug builds, and when SYSTOLE_VERIFY=1.
bool verify_wanted();

// What a step of the compiler made: verified when that is wanted, and in every build its composites are those
// that their names promise, since backends read their operands by position. Types need no second look: a
// Graph infers each when the node is added. Throws naming the step.
void check_made(const ir::Graph& graph, std::string_view step);

}  // namespace systole::passes
