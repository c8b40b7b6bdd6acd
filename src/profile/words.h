#pragma once

#include <string_view>

#include "systole/base/dtype.h"

namespace systole::profiling {

// Of products: those of f32 may be rounded to tf32.
inline std::string_view product_name(DType dtype, bool tf32) {
  return tf32 && dtype == DType::f32 ? "tf32" : name(dtype);
}

}  // namespace systole::profiling
