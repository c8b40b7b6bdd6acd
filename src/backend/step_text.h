#pragma once

// A step in words, for timelines.

#include <cstdint>
#include <string>
#include <string_view>

#include "compile/program.h"

namespace systole::runtime {

std::string step_label(const lower::Step& step, std::string_view name);           // "k3 sub+exp+reduce"
std::int64_t step_bytes(const lower::Program& program, const lower::Step& step);  // that it has to move
std::string step_details(const lower::Program& program, const lower::Step& step, std::int64_t items);  // JSON

}  // namespace systole::runtime
