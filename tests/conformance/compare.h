#pragma once

// Comparison of a result with what it must be. Exact results agree in every bit, but that NaN equals NaN and
// that ops which take either zero may give either. Others differ by at most c·eps·scale plus the smallest
// denormal; NaN and infinity must match, and a value beyond the dtype's range may have become infinite (NaN
// in f8e4m3fn).

#include <string>

#include "fixture.h"

namespace systole::conformance {

struct Rule {
  double tolerance;  // c
  bool zeros_are_equal = false;
  bool nans_are_equal = true;
};

// Empty when `got` is of `type`, the type of the graph's output, and as expected; else the first differences:
// index, dtype, want, got, allowed.
std::string compare(const Literal& got, const Type& type, const Expected& expected, const Rule& rule);

// The smallest positive value of a float type.
double smallest_denormal(DType dtype);

}  // namespace systole::conformance
