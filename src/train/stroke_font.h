#pragma once

// A font of strokes for pictures without a font library: printable ASCII, in units of a twentieth of its size
// (capitals are 14 high, small letters 10, y up from the base line).

#include <string_view>
#include <vector>

#include "train/drawing.h"

namespace systole::training::drawing {

struct StrokeText {
  std::vector<std::vector<Point>> strokes;  // a stroke of one point is a dot
  double width = 0;                         // with the space after the last letter
};

inline constexpr double kUnitsPerSize = 20;

// UTF-8; what is not ASCII is drawn as a frame.
StrokeText stroke_text(std::string_view text);

}  // namespace systole::training::drawing
