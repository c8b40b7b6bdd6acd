#pragma once

// A step in words, for timelines.

#include <cstdint>
#include <string>
#include <string_view>

#include "compile/program.h"

namespace systole::runtime {

std::string step_label(const lower::Step& step, std::string_view name);           // "k3 sub+exp+reduce"
std::int64_t step_bytes(const lower::Program& program, const lower::Step& step);  // that it has to move
// JSON. tf32: products of f32 may be rounded to it.
std::string step_details(const lower::Program& program, const lower::Step& step, std::int64_t items,
                         bool tf32 = false);

}  // namespace systole::runtime
