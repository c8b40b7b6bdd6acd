#pragma once

// The definition of every built-in composite: softmax_def() and so on.

#include "systole/ir/composite.h"

namespace systole::ops {

#define SYSTOLE_COMPOSITE(name) ir::CompositeDef name##_def();
#include "ops/composites/composites.def"

}  // namespace systole::ops
