#pragma once

// Comparison of a result with what it must be. Exact results agree in every bit, but that NaN equals NaN and
// that ops which take either zero may give either. Others differ by at most c·eps·scale plus the smallest
// denormal; NaN and infinity must match, and a value beyond the dtype's range may have become infinite (NaN
// in f8e4m3fn).
//
// A device that flushes denormals may, element by element, give what the graph gives for arguments without
// them, under the same tolerance, and zero where the result is a denormal.

#include <optional>
#include <string>

#include "fixture.h"

namespace systole::conformance {

struct Rule {
  double tolerance;  // c
  bool zeros_are_equal = false;
  bool nans_are_equal = true;
  std::optional<Literal> flushed =
      {};  // of a device that flushes: the result for arguments without denormals
};

// Empty when `got` is of `type`, the type of the graph's output, and as expected; else the first differences:
// index, dtype, want, got, allowed.
std::string compare(const Literal& got, const Type& type, const Expected& expected, const Rule& rule);

// The smallest positive value of a float type.
double smallest_denormal(DType dtype);

// The array with zeros, of the same sign, for what a flushing device takes as zero.
Literal without_denormals(const Literal& value);

}  // namespace systole::conformance
