#pragma once

#include "compile/target.h"

namespace systole::cpu {

const lower::Target& target();  // what make_module compiles for

}  // namespace systole::cpu
