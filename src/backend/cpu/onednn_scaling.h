#pragma once

// Work on the i32 result of an int8 product or convolution, as quantised layers have it:
//
//   convert to f32, then factors and summands (numbers, or rows of the columns), bounds, rounding,
//   and where whole numbers are left, convert to i8 or u8
//
// Each step is one of oneDNN's on the f32 that it makes of the sum, and rounds as ours does. The two differ
// in what is no number alone: the library's bounds lose it. Where factors and summands are of usual size none
// can arise; a run looks at them first.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compile/target.h"

namespace systole::cpu {

struct Scaling {
  enum class Kind { mul, div, add, sub, max, min, round };
  struct Step {
    Kind kind = Kind::round;
    std::int64_t input = -1;  // among the region's: f32, one or a row of the columns; -1: the number
    bool is_row = false;
    float number = 0;
  };
  std::vector<Step> steps;
  DType output = DType::i32;  // f32, i8, u8, or i32 as it is

  std::string text() const;  // "+mul+add+round+i8"
};

// The region's anchor gives i32 and has this many columns, last in its result. Empty when what follows is
// such work, or nothing, else why not.
std::string read_scaling(const lower::Region& region, std::int64_t columns, Scaling& out);

// Whether the arrays of the steps are of usual size, so that the library does what we do.
bool is_usual(const Scaling& scaling, std::int64_t columns, std::span<std::byte* const> inputs);

// The same work, by a loop.
void scale(const Scaling& scaling, std::int64_t columns, std::span<const std::int32_t> sums,
           std::span<std::byte* const> inputs, std::byte* out);

}  // namespace systole::cpu
