#pragma once

#include "systole/ir/graph.h"

namespace systole::lower {

// Sums and products that meet in one place again and again are rounded once: a scatter into small floats
// works on f32.
ir::Graph widened(const ir::Graph& graph);

}  // namespace systole::lower
