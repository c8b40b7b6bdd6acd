// Drawing the digits. Everything is integer arithmetic, so that compilers and processors cannot disagree
// about a pixel: coordinates are 1/256 of a pixel, ratios and angles have 14 binary digits. A picture is made
// in three steps: the pen's way (control points moved by chance, then one affine map), the distance of every
// pixel from it, and ink by distance, with noise on top.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/strokes.h"
#include "systole/base/error.h"
#include "systole/data.h"

namespace systole::data {

namespace {

constexpr int kSide = 28;
constexpr std::int64_t kPixel = 256;    // of a coordinate
constexpr std::int64_t kOne = 1 << 14;  // of a ratio
constexpr int kPieces = 5;              // straight pieces per spline segment

// Numbers by chance: number n of image i under a seed is a hash of the three.
class Chance {
 public:
  Chance(std::uint64_t seed, std::int64_t image)
      : state_(mixed(seed * 0x9E3779B97F4A7C15u + mixed(static_cast<std::uint64_t>(image)))) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {  // both included
    const std::uint64_t choices = static_cast<std::uint64_t>(high - low + 1);
    return low + static_cast<std::int64_t>(((word() >> 32) * choices) >> 32);
  }
  std::int64_t around(std::int64_t middle, std::int64_t reach) {  // likelier near the middle
    return middle + (between(-reach, reach) + between(-reach, reach)) / 2;
  }
  std::uint64_t word() { return mixed(state_ += 0x9E3779B97F4A7C15u); }

 private:
  static std::uint64_t mixed(std::uint64_t x) {  // the finaliser of splitmix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  std::uint64_t state_;
};

struct Place {
  std::int64_t x = 0, y = 0;
};

// From the strokes' box to the picture: size, slant, rotation, shift.
class Hand {
 public:
  explicit Hand(Chance& chance) {
    const std::int64_t size = chance.around(kOne * 19 / 100, kOne * 5 / 100);  // pixels per unit of the box
    const std::int64_t width = size * chance.around(85, 25) / 100;
    const std::int64_t slant = chance.around(-kOne / 8, kOne * 7 / 16);
    // Half the angle's tangent gives sine and cosine without a table.
    const std::int64_t half = chance.around(0, kOne / 5);
    const std::int64_t norm = kOne * kOne + half * half;
    const std::int64_t cosine = (kOne * kOne - half * half) * kOne / norm;
    const std::int64_t sine = 2 * half * kOne * kOne / norm;
    const std::int64_t skew = slant * size / kOne;
    xx_ = cosine * width / kOne;
    xy_ = (cosine * skew - sine * size) / kOne;
    yx_ = sine * width / kOne;
    yy_ = (sine * skew + cosine * size) / kOne;
    shift_ = {chance.around(kSide * kPixel / 2, kPixel * 15 / 4),
              chance.around(kSide * kPixel / 2, kPixel * 15 / 4)};
  }

  Place operator()(const Place& p) const {  // units of the box, times kPixel, from its middle
    return {(xx_ * p.x + xy_ * p.y) / kOne + shift_.x, (yx_ * p.x + yy_ * p.y) / kOne + shift_.y};
  }

 private:
  std::int64_t xx_, xy_, yx_, yy_;
  Place shift_;
};

// The square of each pixel's distance from the pen's way.
class Trace {
 public:
  Trace() { squares_.fill(kFar * kFar); }

  void line(const Place& a, const Place& b) {
    const auto [left, right] = std::minmax(a.x, b.x);
    const auto [top, bottom] = std::minmax(a.y, b.y);
    for (std::int64_t row = first(top); row <= last(bottom); ++row)
      for (std::int64_t column = first(left); column <= last(right); ++column) {
        const Place p{column * kPixel + kPixel / 2, row * kPixel + kPixel / 2};
        std::int64_t& square = squares_[static_cast<std::size_t>(row * kSide + column)];
        square = std::min(square, square_distance(p, a, b));
      }
  }

  std::int64_t square(std::size_t pixel) const { return squares_[pixel]; }

 private:
  static constexpr std::int64_t kFar = 3 * kPixel;  // beyond the thickest pen
  static std::int64_t first(std::int64_t low) {
    return std::clamp<std::int64_t>((low - kFar) / kPixel, 0, kSide);
  }
  static std::int64_t last(std::int64_t high) {
    return std::clamp<std::int64_t>((high + kFar) / kPixel, -1, kSide - 1);
  }

  static std::int64_t square_distance(const Place& p, const Place& a, const Place& b) {
    const Place along{b.x - a.x, b.y - a.y}, to{p.x - a.x, p.y - a.y};
    const std::int64_t length = along.x * along.x + along.y * along.y;
    const std::int64_t projection = along.x * to.x + along.y * to.y;
    if (projection <= 0) return to.x * to.x + to.y * to.y;
    if (projection >= length) return (p.x - b.x) * (p.x - b.x) + (p.y - b.y) * (p.y - b.y);
    const std::int64_t across = along.x * to.y - along.y * to.x;
    return across * across / length;
  }

  std::array<std::int64_t, kSide * kSide> squares_;
};

Place middle(const Place& a, const Place& b) { return {(a.x + b.x) / 2, (a.y + b.y) / 2}; }

// One spline segment from `a` to `c`, drawn towards `b` in between.
void curve(Trace& trace, const Place& a, const Place& b, const Place& c) {
  constexpr std::int64_t n = kPieces;
  Place from = a;
  for (std::int64_t i = 1; i <= n; ++i) {
    const std::int64_t j = n - i;
    const Place to{(j * j * a.x + 2 * i * j * b.x + i * i * c.x) / (n * n),
                   (j * j * a.y + 2 * i * j * b.y + i * i * c.y) / (n * n)};
    trace.line(from, to);
    from = to;
  }
}

void draw(Trace& trace, Stroke stroke, const Hand& hand, std::int64_t wobble, Chance& chance) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < stroke.size(); ++i) {
    const bool corner = i > 0 && stroke[i].x == stroke[i - 1].x && stroke[i].y == stroke[i - 1].y;
    if (corner) {
      places.push_back(places.back());
      continue;
    }
    places.push_back(hand({(stroke[i].x - 50) * kPixel + chance.around(0, wobble),
                           (stroke[i].y - 50) * kPixel + chance.around(0, wobble)}));
  }
  if (places.size() == 2) return trace.line(places[0], places[1]);
  Place from = places[0];
  for (std::size_t i = 1; i + 1 < places.size(); ++i) {
    const Place to = i + 2 == places.size() ? places[i + 1] : middle(places[i], places[i + 1]);
    curve(trace, from, places[i], to);
    from = to;
  }
}

std::int64_t root(std::int64_t square) {  // rounded down, by bits
  std::int64_t result = 0;
  for (std::int64_t bit = std::int64_t{1} << 10; bit != 0; bit >>= 1)
    if ((result + bit) * (result + bit) <= square) result += bit;
  return result;
}

void draw_digit(int digit, Chance& chance, std::span<std::uint8_t> pixels) {
  const std::span<const Glyph> variants = glyphs(digit);
  const Glyph glyph = variants[static_cast<std::size_t>(chance.between(0, std::ssize(variants) - 1))];
  const Hand hand(chance);
  const std::int64_t wobble = chance.between(2 * kPixel, 10 * kPixel);
  Trace trace;
  for (const Stroke& stroke : glyph) draw(trace, stroke, hand, wobble, chance);

  const std::int64_t radius = chance.around(kPixel * 11 / 10, kPixel * 7 / 10);
  const std::int64_t edge = chance.between(kPixel / 2, kPixel);  // how gradually ink ends
  const std::int64_t strength = chance.between(180, 255);
  const std::int64_t noise = chance.between(5, 40);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const std::int64_t inside = radius + edge / 2 - root(trace.square(i));
    const std::int64_t ink = strength * std::clamp<std::int64_t>(inside, 0, edge) / edge;
    pixels[i] = static_cast<std::uint8_t>(std::clamp<std::int64_t>(ink + chance.around(0, noise), 0, 255));
  }
}

}  // namespace

Digits digits(std::int64_t count, std::uint64_t seed) {
  if (count < 0)
    throw Error(ErrorKind::kInvalidArgument, "data::digits", "wrong count", "0 or more",
                fmt::format("{}", count));
  Digits made{Literal::uninitialized({DType::u8, {count, kSide, kSide}}),
              Literal::uninitialized({DType::i32, {count}})};
  const std::span<std::uint8_t> images = made.images.mutable_values<std::uint8_t>();
  const std::span<std::int32_t> labels = made.labels.mutable_values<std::int32_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    Chance chance(seed, i);
    const int digit = static_cast<int>(chance.between(0, 9));
    labels[static_cast<std::size_t>(i)] = digit;
    draw_digit(digit, chance, images.subspan(static_cast<std::size_t>(i) * kSide * kSide, kSide * kSide));
  }
  return made;
}

}  // namespace systole::data
