#pragma once

// A picture as a list of shapes, drawn in order: written as SVG, or rastered with a font of strokes. Units
// are pixels, x to the right and y down; pixel (0, 0) has its middle at (0.5, 0.5).

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "systole/base/literal.h"

namespace systole::training::drawing {

struct Colour {
  std::uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Colour&) const = default;
};

inline constexpr Colour kPaper{255, 255, 255}, kInk{38, 43, 51}, kFaintInk{96, 103, 115},
    kGrid{230, 233, 238}, kSpine{168, 174, 184};

struct Point {
  double x = 0, y = 0;
};

struct Line {  // with round ends and corners
  std::vector<Point> points;
  Colour colour;
  double width = 1;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  Colour fill;
};

struct Disc {
  Point centre;
  double radius = 1;
  Colour fill;
};

enum class Anchor { start, middle, end };

struct Text {
  Point at;  // on the base line, at the anchor
  std::string text;
  double size = 13;  // of the font, in pixels
  Colour colour = kInk;
  Anchor anchor = Anchor::start;
  bool bold = false;
  double angle = 0;  // in degrees; -90 is read from below
};

using Item = std::variant<Line, Box, Disc, Text>;

struct Shapes {
  int width = 0, height = 0;
  std::vector<Item> items;
};

// How wide a text is about, whatever font an SVG is shown with.
double text_width(std::string_view text, double size, bool bold = false);
// The text up to a width, with dots for what is left out.
std::string shortened(const std::string& text, double size, double width, bool bold = false);

std::string to_svg(const Shapes& shapes);
Literal raster(const Shapes& shapes);  // u8[height,width,3]

}  // namespace systole::training::drawing
