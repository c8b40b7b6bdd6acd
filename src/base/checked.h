#pragma once

// Sums and products of sizes that throw where 64 bits do not hold them.

#include <cstdint>
#include <string>
#include <string_view>

#include "systole/base/error.h"

namespace systole {

[[noreturn]] inline void size_overflows(std::string_view where, std::string_view what) {
  throw Error(ErrorKind::kLimit, std::string(where), std::string(what) + " does not fit 64 bits");
}

inline std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view where,
                                std::string_view what) {
  std::int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) size_overflows(where, what);
  return sum;
}

inline std::int64_t checked_mul(std::int64_t a, std::int64_t b, std::string_view where,
                                std::string_view what) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) size_overflows(where, what);
  return product;
}

}  // namespace systole
