#pragma once

// For tests of what the compiler itself makes: in programs that include this the processor's library is not
// looked for, so that steps do not depend on whether it is there.

#include <stdlib.h>

namespace systole {

inline const bool kGeneratedOnly = ::setenv("SYSTOLE_ONEDNN", "0", 1) == 0;

}  // namespace systole
