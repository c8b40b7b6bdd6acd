#pragma once

#include "backend/cpu/tuned/tuned.h"

namespace systole::cpu {

Tuned make_attention(const lower::Region& region, const std::string& kernel_name);

}  // namespace systole::cpu
