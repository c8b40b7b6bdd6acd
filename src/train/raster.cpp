// Shapes as pixels. A stroke covers a pixel by the distance of its middle from the stroke, and a shape's
// strokes together cover it once, so that corners and crossings are not darker.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "train/drawing.h"
#include "train/stroke_font.h"

namespace systole::training::drawing {

namespace {

constexpr double kBoldWidth = 1.06;  // thicker strokes need more room

double distance(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  const double t = length == 0 ? 0 : std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.0, 1.0);
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

class Canvas {
 public:
  explicit Canvas(const Shapes& shapes)
      : width_(shapes.width),
        height_(shapes.height),
        picture_(Literal::uninitialized({DType::u8, {shapes.height, shapes.width, 3}})),
        pixels_(picture_.mutable_values<std::uint8_t>()),
        cover_(static_cast<std::size_t>(shapes.width) * static_cast<std::size_t>(shapes.height)) {
    std::fill(pixels_.begin(), pixels_.end(), std::uint8_t{255});
  }

  void operator()(const Line& line) {
    stroke(line.points, line.width);
    paint(line.colour);
  }

  void operator()(const Disc& disc) {
    stroke({disc.centre}, 2 * disc.radius);
    paint(disc.fill);
  }

  void operator()(const Box& box) {
    const double right = box.x + box.width, bottom = box.y + box.height;
    const auto share = [](double low, double high, int at) {
      return std::clamp(std::min(high, at + 1.0) - std::max(low, static_cast<double>(at)), 0.0, 1.0);
    };
    grow(box.x, box.y, right, bottom);
    for (int y = top_; y < bottom_; ++y)
      for (int x = left_; x < right_; ++x) cover(x, y, share(box.x, right, x) * share(box.y, bottom, y));
    paint(box.fill);
  }

  void operator()(const Text& text) {
    const StrokeText letters = stroke_text(text.text);
    const double scale = text.size / kUnitsPerSize, wide = scale * (text.bold ? kBoldWidth : 1);
    const double start = text.anchor == Anchor::start    ? 0
                         : text.anchor == Anchor::middle ? -letters.width / 2
                                                         : -letters.width;
    const double angle = text.angle * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
    for (const std::vector<Point>& letter : letters.strokes) {
      std::vector<Point> points;
      for (const Point& p : letter) {
        const double x = (p.x + start) * wide, y = -p.y * scale;
        points.push_back({text.at.x + x * c - y * s, text.at.y + x * s + y * c});
      }
      const double pen = text.size * (text.bold ? 0.125 : 0.088);
      stroke(points, points.size() == 1 ? pen * 1.35 : pen);
    }
    paint(text.colour);
  }

  Literal finish() { return std::move(picture_); }

 private:
  // Adds a rectangle to what paint() looks at, and gives it as pixels.
  void grow(double left, double top, double right, double bottom) {
    const auto pixel = [](double at, int end) {
      return static_cast<int>(std::clamp(at, 0.0, static_cast<double>(end)));
    };
    left_ = pixel(std::floor(left), width_);
    top_ = pixel(std::floor(top), height_);
    right_ = pixel(std::ceil(right), width_);
    bottom_ = pixel(std::ceil(bottom), height_);
    all_left_ = std::min(all_left_, left_);
    all_top_ = std::min(all_top_, top_);
    all_right_ = std::max(all_right_, right_);
    all_bottom_ = std::max(all_bottom_, bottom_);
  }

  void cover(int x, int y, double share) {
    float& c =
        cover_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)];
    c = std::max(c, static_cast<float>(share));
  }

  void stroke(const std::vector<Point>& points, double width) {
    const double half = width / 2;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (i == 0 && points.size() > 1) continue;
      const Point a = points[i == 0 ? 0 : i - 1], b = points[i];
      grow(std::min(a.x, b.x) - half - 1, std::min(a.y, b.y) - half - 1, std::max(a.x, b.x) + half + 1,
           std::max(a.y, b.y) + half + 1);
      for (int y = top_; y < bottom_; ++y)
        for (int x = left_; x < right_; ++x) {
          // Thinner than a pixel, a stroke is fainter instead.
          const double inside = half + 0.5 - distance({x + 0.5, y + 0.5}, a, b);
          if (inside > 0) cover(x, y, std::min({inside, width, 1.0}));
        }
    }
  }

  void paint(Colour colour) {
    const std::uint8_t rgb[] = {colour.red, colour.green, colour.blue};
    for (int y = all_top_; y < all_bottom_; ++y)
      for (int x = all_left_; x < all_right_; ++x) {
        const std::size_t at =
            static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x);
        const float share = std::exchange(cover_[at], 0.0f);
        if (share <= 0) continue;
        for (std::size_t i = 0; i < 3; ++i) {
          const auto below = static_cast<float>(pixels_[3 * at + i]);
          pixels_[3 * at + i] =
              static_cast<std::uint8_t>(below + (static_cast<float>(rgb[i]) - below) * share + 0.5f);
        }
      }
    all_left_ = width_;
    all_top_ = height_;
    all_right_ = all_bottom_ = 0;
  }

  int width_, height_;
  Literal picture_;
  std::span<std::uint8_t> pixels_;
  std::vector<float> cover_;
  int left_ = 0, top_ = 0, right_ = 0, bottom_ = 0;
  int all_left_ = 1 << 30, all_top_ = 1 << 30, all_right_ = 0, all_bottom_ = 0;
};

}  // namespace

double text_width(std::string_view text, double size, bool bold) {
  return stroke_text(text).width * size / kUnitsPerSize * (bold ? kBoldWidth : 1);
}

std::string shortened(const std::string& text, double size, double width, bool bold) {
  if (text_width(text, size, bold) <= width) return text;
  std::string part = text;
  while (!part.empty() && text_width(part + "...", size, bold) > width) {
    unsigned char last = 0;  // a letter goes with all its bytes
    do {
      last = static_cast<unsigned char>(part.back());
      part.pop_back();
    } while (!part.empty() && (last & 0xc0) == 0x80);
  }
  return part + "...";
}

Literal raster(const Shapes& shapes) {
  Canvas canvas(shapes);
  for (const Item& item : shapes.items) std::visit(canvas, item);
  return canvas.finish();
}

}  // namespace systole::training::drawing
