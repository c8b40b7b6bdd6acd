#pragma once

#include <optional>

#include "compile/fuse.h"

namespace systole::lower {

// The graph with cheap work repeated for every group that reads it, where that saves memory traffic: a large
// value that is made by a few operations from arrays that are stored anyway, and from values of rows, is not
// stored for others. `fusion` is that of the graph; the new graph is to be fused again. None when nothing is
// gained.
std::optional<ir::Graph> recomputed(const ir::Graph& graph, const Fusion& fusion, const Target& target);

}  // namespace systole::lower
