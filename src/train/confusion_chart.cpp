// Confusion matrices as heat maps. Colours are shares of the row, whatever the numbers are: a rare class is
// as easy to judge as a common one.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "systole/base/error.h"
#include "systole/train/plot.h"
#include "train/drawing.h"

namespace systole::training {

namespace {

using drawing::Anchor;
using drawing::Colour;

constexpr Colour kScale[] = {{247, 251, 255}, {222, 235, 247}, {198, 219, 239},
                             {158, 202, 225}, {107, 174, 214}, {66, 146, 198},
                             {33, 113, 181},  {8, 81, 156},    {8, 48, 107}};

Colour shade(double share) {
  const double at = std::clamp(share, 0.0, 1.0) * (std::size(kScale) - 1);
  const std::size_t i = std::min(static_cast<std::size_t>(at), std::size(kScale) - 2);
  const auto mix = [t = at - static_cast<double>(i)](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround(a + (b - a) * t));
  };
  const Colour a = kScale[i], b = kScale[i + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

}  // namespace

Figure confusion_chart(const metrics::ConfusionMatrix& matrix, const ConfusionChartOptions& options) {
  using namespace drawing;
  const std::int64_t n = matrix.classes();
  if (n == 0) throw Error(ErrorKind::kInvalidArgument, "confusion_chart", "nothing to draw: no classes");
  std::vector<std::string> names;
  for (const std::int64_t label : matrix.labels) {
    const bool named = label >= 0 && label < static_cast<std::int64_t>(options.names.size());
    if (!options.names.empty() && !named)
      throw Error(ErrorKind::kInvalidArgument, "confusion_chart", "a class without a name",
                  fmt::format("labels of 0 to {}", options.names.size() - 1), std::to_string(label));
    names.push_back(named ? options.names[static_cast<std::size_t>(label)] : std::to_string(label));
  }
  constexpr double kSize = 13, kLabel = 14, kTitle = 18, kLongest = 130;
  double longest = 0;
  for (std::string& name : names) {
    name = shortened(name, kSize, kLongest);
    longest = std::max(longest, text_width(name, kSize));
  }
  const double left = 60 + longest, top = options.title.empty() ? 24 : 62, right = 96;
  const double wanted = n <= 3 ? 110 : n <= 12 ? 52 : std::clamp(560.0 / static_cast<double>(n), 4.0, 40.0);
  double side = wanted;
  if (options.width > 0) side = std::min(side * 100, (options.width - left - right) / static_cast<double>(n));
  const bool upright = longest + 8 > side;  // names that do not fit beside each other
  const double bottom = (upright ? longest + 14 : 26) + 30;
  if (options.height > 0)
    side = std::min(options.width > 0 ? side : side * 100,
                    (options.height - top - bottom) / static_cast<double>(n));
  side = std::floor(side);
  const double extent = side * static_cast<double>(n);
  auto shapes = std::make_shared<Shapes>();
  shapes->width = options.width > 0 ? options.width : static_cast<int>(std::ceil(left + extent + right));
  shapes->height = options.height > 0 ? options.height : static_cast<int>(std::ceil(top + extent + bottom));
  if (side < 2 || shapes->width > 10'000 || shapes->height > 10'000)
    throw Error(ErrorKind::kInvalidArgument, "confusion_chart", "no size for this many classes",
                "cells of 2 pixels at least, and 10000 pixels at most",
                fmt::format("{} classes in {} x {}", n, shapes->width, shapes->height));
  const double x0 = std::floor(left), y0 = std::floor(top);

  const std::vector<double> shares = matrix.normalized(metrics::Normalize::truth);
  const auto number = [&](std::size_t i) {
    return options.normalize ? fmt::format("{:.2f}", shares[i]) : std::to_string(matrix.counts[i]);
  };
  double widest = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) widest = std::max(widest, text_width(number(i), 10));
  const double size = std::min(15.0, std::floor(10 * (side - 6) / widest * 2) / 2);  // of the numbers
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t column = 0; column < n; ++column) {
      const auto i = static_cast<std::size_t>(row * n + column);
      const double x = x0 + side * static_cast<double>(column), y = y0 + side * static_cast<double>(row);
      shapes->items.push_back(Box{x, y, side, side, shade(shares[i])});
      if (size < 8 || side < 14) continue;
      const Colour ink = shares[i] > 0.5 ? kPaper : matrix.counts[i] == 0 ? Colour{170, 180, 192} : kInk;
      shapes->items.push_back(Text{
          {x + side / 2, y + side / 2 + size * 0.35}, number(i), size, ink, Anchor::middle, row == column});
    }
  const auto frame = [&](double x, double y, double width, double height) {
    const double l = x - 0.5, t = y - 0.5, r = x + width + 0.5, b = y + height + 0.5;
    shapes->items.push_back(Line{{{l, t}, {r, t}, {r, b}, {l, b}, {l, t}}, kSpine, 1});
  };
  frame(x0, y0, extent, extent);

  std::int64_t every = 1;  // names are left out where there is no room for all
  for (const std::int64_t step : {1, 2, 5, 10, 20, 50, 100, 200, 500})
    if (side * static_cast<double>(every = step) >= 15) break;
  for (std::int64_t i = 0; i < n; i += every) {
    const std::string& name = names[static_cast<std::size_t>(i)];
    const double middle = side * (static_cast<double>(i) + 0.5);
    shapes->items.push_back(Text{{x0 - 9, y0 + middle + 4.5}, name, kSize, kInk, Anchor::end});
    if (upright)
      shapes->items.push_back(
          Text{{x0 + middle + 4.5, y0 + extent + 10}, name, kSize, kInk, Anchor::end, false, -90});
    else
      shapes->items.push_back(Text{{x0 + middle, y0 + extent + 20}, name, kSize, kInk, Anchor::middle});
  }
  const std::int64_t undecided = matrix.undecided_samples();
  shapes->items.push_back(
      Text{{x0 + extent / 2, y0 + extent + bottom - 14},
           undecided == 0 ? "predicted" : fmt::format("predicted ({} undecided)", undecided),
           kLabel,
           kInk,
           Anchor::middle});
  shapes->items.push_back(Text{{26, y0 + extent / 2}, "true", kLabel, kInk, Anchor::middle, false, -90});
  if (!options.title.empty())
    shapes->items.push_back(Text{{x0 + extent / 2, 38},
                                 shortened(options.title, kTitle, 2 * (left + extent) - 100, true),
                                 kTitle,
                                 kInk,
                                 Anchor::middle,
                                 true});

  // The scale of colours.
  const double bar = x0 + extent + 22, thick = 14;
  const int steps = static_cast<int>(std::min(extent, 256.0));
  for (int i = 0; i < steps; ++i) {
    const double y = y0 + std::floor(extent * i / steps), end = y0 + std::floor(extent * (i + 1) / steps);
    shapes->items.push_back(Box{bar, y, thick, end - y, shade(1 - (i + 0.5) / steps)});
  }
  frame(bar, y0, thick, extent);
  for (const int percent : {0, 25, 50, 75, 100})
    if (extent > 120 || percent % 50 == 0)
      shapes->items.push_back(Text{{bar + thick + 7, y0 + extent * (1 - percent / 100.0) + 4.5},
                                   fmt::format("{} %", percent),
                                   12,
                                   kFaintInk,
                                   Anchor::start});
  return Figure(std::move(shapes));
}

}  // namespace systole::training
