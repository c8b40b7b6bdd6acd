#pragma once

#include "compile/program.h"

namespace systole::lower {

// Whether the step may write `output` where `memory` lies: every read of it (or of a view of it) is of the
// element that is written at that point, and no later pass over the points reads it again.
bool writes_in_place(const Step& step, const Program& program, BufferId memory, BufferId output);

}  // namespace systole::lower
