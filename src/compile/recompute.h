#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "compile/fuse.h"

namespace systole::lower {

// A graph with cheap work repeated for every group that reads it.
struct Recomputed {
  ir::Graph graph;
  std::set<std::int32_t> repeated;  // nodes of it that are made again for those that read them
};

// Repeats work where that saves memory traffic: a large value that is made by a few operations from arrays
// that are stored anyway, and from values of rows, is not stored for others. `fusion` is that of the graph;
// the new graph is to be fused again. None when nothing is gained.
std::optional<Recomputed> recomputed(const ir::Graph& graph, const Fusion& fusion, const Target& target);

}  // namespace systole::lower
