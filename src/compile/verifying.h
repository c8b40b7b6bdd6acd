#pragma once

#include <cstdint>

namespace systole::passes {

// What passes may add to the constants of a graph, over all rounds. A graph of a few bytes a node could ask
// for 64 KiB at each.
inline constexpr std::int64_t kMaxFoldedBytes = 64 << 20;

// Whether what a pass makes is verified: in debug builds, and when SYSTOLE_VERIFY=1.
bool verify_wanted();

}  // namespace systole::passes
