#pragma once

#include "systole/ir/graph.h"

namespace systole::recording {

// One object per structure: equal graphs give the same pointer as long as one of them lives, so that
// recorded work can be compared by address.
ir::GraphRef interned(ir::GraphRef graph);

}  // namespace systole::recording
