#pragma once

#include "backend/cpu/tuned/tuned.h"

namespace systole::cpu {

bool is_recurrence(const ir::Node& node);
Tuned make_recurrence(const lower::Region& region, const std::string& kernel_name);

}  // namespace systole::cpu
