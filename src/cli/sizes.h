#pragma once

// The option --size NAME=NUMBER of commands that take a graph.

#include <string>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::cli {

// The graph with the sizes that were given; every symbol needs one, else it is a UsageError.
ir::Graph bound(const ir::Graph& graph, const std::vector<std::string>& sizes);

}  // namespace systole::cli
