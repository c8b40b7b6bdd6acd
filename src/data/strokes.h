#pragma once

// How each digit is written: the strokes of its variants, as control points in a box of 100 by 100 (x to the
// right, y down). A stroke is a quadratic spline: it starts at its first point, ends at its last and passes
// through the middles between the others; a point given twice is a corner, or a pen that goes straight on.

#include <cstdint>
#include <span>

namespace systole::data {

struct Point {
  std::int32_t x = 0, y = 0;
};

using Stroke = std::span<const Point>;
using Glyph = std::span<const Stroke>;  // one way to write one digit

std::span<const Glyph> glyphs(int digit);

}  // namespace systole::data
