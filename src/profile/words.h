#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

#include "systole/base/dtype.h"

namespace systole::profiling {

// Of products: those of f32 may be rounded to tf32.
inline std::string_view product_name(DType dtype, bool tf32) {
  return tf32 && dtype == DType::f32 ? "tf32" : name(dtype);
}

// Kinds of steps whose work is in the steps inside them: as timers have it, what remains is the host's, with
// what the profiler costs.
inline bool is_loop(std::string_view kind) {
  constexpr std::string_view kLoops[] = {"scan", "while", "cond"};
  return std::find(std::begin(kLoops), std::end(kLoops), kind) != std::end(kLoops);
}

}  // namespace systole::profiling
