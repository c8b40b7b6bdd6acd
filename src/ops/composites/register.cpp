// The registry of ir/ asks for the built-in composites once, when it is first used.

#include "ops/composites/definitions.h"

namespace systole::ir {

void register_builtin_composites(void (*add)(CompositeDef));

void register_builtin_composites(void (*add)(CompositeDef)) {
#define SYSTOLE_COMPOSITE(name) add(ops::name##_def());
#include "ops/composites/composites.def"
}

}  // namespace systole::ir
