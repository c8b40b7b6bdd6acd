// Line charts. The legend stands above the lines, so that it never hides one.

#include "systole/train/plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/file.h"
#include "systole/base/error.h"
#include "systole/io.h"
#include "train/axis.h"
#include "train/drawing.h"

namespace systole::training {

namespace {

using drawing::Anchor;
using drawing::Colour;
using drawing::Shapes;

constexpr Colour kColours[] = {{31, 119, 180},  {255, 127, 14}, {44, 160, 44},   {214, 39, 40},
                               {148, 103, 189}, {140, 86, 75},  {227, 119, 194}, {127, 127, 127},
                               {188, 189, 34},  {23, 190, 207}};
constexpr double kLargest = 1e300;  // sums and differences stay finite
constexpr double kLabel = 14, kTitle = 18, kNumber = 13;
constexpr std::size_t kMostMarks = 40;  // points of a line that are marked one by one

struct Area {
  double left, top, right, bottom;
};

// The points of a series that can be drawn, in pieces between gaps.
using Pieces = std::vector<std::vector<drawing::Point>>;

Pieces pieces_of(const Series& series, const ChartOptions& options) {
  if (!series.x.empty() && series.x.size() != series.y.size())
    throw Error(ErrorKind::kInvalidArgument, "chart",
                fmt::format("\"{}\" has not an x for every y", series.name), std::to_string(series.y.size()),
                std::to_string(series.x.size()));
  const auto shown = [](double value, bool logarithmic) {
    return std::isfinite(value) && std::abs(value) < kLargest && (!logarithmic || value > 1 / kLargest);
  };
  Pieces pieces(1);
  for (std::size_t i = 0; i < series.y.size(); ++i) {
    const double x = series.x.empty() ? static_cast<double>(i + 1) : series.x[i], y = series.y[i];
    if (shown(x, options.log_x) && shown(y, options.log_y))
      pieces.back().push_back({x, y});
    else if (!pieces.back().empty())
      pieces.emplace_back();
  }
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

// Whole pixels for what is straight: a thin line is sharp when its middle is that of a pixel.
double sharp(double at) { return std::floor(at) + 0.5; }

// Names with their colours, right-aligned lines from `top` down; how high they are.
double legend(Shapes* shapes, const std::vector<Series>& series, double left, double right, double top) {
  constexpr double kSwatch = 24, kGap = 7, kBetween = 20, kLine = 21;
  constexpr double kWide = 1.12;  // an SVG may be shown in a wider font
  double at = left, y = top;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::string name = drawing::shortened(series[i].name, kNumber, (right - left) / 2);
    const double width = kSwatch + kGap + kWide * drawing::text_width(name, kNumber);
    if (at > left && at + width > right) {
      at = left;
      y += kLine;
    }
    if (shapes != nullptr) {
      const Colour colour = kColours[i % std::size(kColours)];
      shapes->items.push_back(drawing::Line{{{at + 1, y + 10}, {at + kSwatch - 1, y + 10}}, colour, 2.5});
      shapes->items.push_back(
          drawing::Text{{at + kSwatch + kGap, y + 14.5}, name, kNumber, drawing::kInk, Anchor::start});
    }
    at += width + kBetween;
  }
  return y + kLine - top;
}

void draw_axes(Shapes& shapes, const Area& area, const Axis& x, const Axis& y) {
  using namespace drawing;
  for (const Tick& tick : y.ticks) {
    const double at = sharp(area.bottom + (area.top - area.bottom) * y.place(tick.value));
    shapes.items.push_back(Line{{{area.left, at}, {area.right, at}}, kGrid, 1});
    shapes.items.push_back(Text{{area.left - 9, at + 4.5}, tick.label, kNumber, kFaintInk, Anchor::end});
  }
  for (const Tick& tick : x.ticks) {
    const double at = sharp(area.left + (area.right - area.left) * x.place(tick.value));
    shapes.items.push_back(Line{{{at, area.top}, {at, area.bottom}}, kGrid, 1});
    if (!tick.label.empty())
      shapes.items.push_back(Line{{{at, area.bottom}, {at, area.bottom + 5}}, kSpine, 1});
    shapes.items.push_back(Text{{at, area.bottom + 20}, tick.label, kNumber, kFaintInk, Anchor::middle});
  }
  std::erase_if(shapes.items, [](const Item& item) {
    const auto* text = std::get_if<Text>(&item);
    return text != nullptr && text->text.empty();
  });
  const double left = sharp(area.left), bottom = sharp(area.bottom);
  shapes.items.push_back(Line{{{left, area.top}, {left, bottom}, {area.right, bottom}}, kSpine, 1});
}

// Points that fall on one pixel column are drawn as their range: a line of a million points looks the same
// and is drawn a thousand times faster.
std::vector<drawing::Point> thinned(const std::vector<drawing::Point>& points) {
  if (points.size() < 4000) return points;
  std::vector<drawing::Point> kept;
  for (std::size_t i = 0; i < points.size();) {
    std::size_t low = i, high = i, end = i;
    for (; end < points.size() && std::floor(points[end].x) == std::floor(points[i].x); ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    std::size_t marks[] = {i, low, high, end - 1};
    std::sort(std::begin(marks), std::end(marks));
    for (std::size_t m = 0; m < 4; ++m)
      if (m == 0 || marks[m] != marks[m - 1]) kept.push_back(points[marks[m]]);
    i = end;
  }
  return kept;
}

void check_size(std::string_view where, int width, int height) {
  constexpr int kLeast = 160, kMost = 10'000;
  if (width < kLeast || height < kLeast || width > kMost || height > kMost)
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "no size for a picture",
                fmt::format("{} to {} pixels", kLeast, kMost), fmt::format("{} x {}", width, height));
}

}  // namespace

std::string Figure::svg() const { return drawing::to_svg(*shapes_); }
Literal Figure::picture() const { return drawing::raster(*shapes_); }
int Figure::width() const { return shapes_->width; }
int Figure::height() const { return shapes_->height; }

void Figure::save(const std::filesystem::path& file) const {
  std::string extension = file.extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (extension == ".svg") {
    const std::string text = svg();
    write_file(file, std::as_bytes(std::span(text)));
  } else if (extension == ".png") {
    io::save_png(file, picture());
  } else {
    throw Error(ErrorKind::kInvalidArgument, file.string(), "no picture format", ".svg or .png",
                extension.empty() ? "no extension" : extension);
  }
}

Figure chart(const std::vector<Series>& series, const ChartOptions& options) {
  check_size("chart", options.width, options.height);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double left = kInfinity, right = -kInfinity, low = kInfinity, high = -kInfinity;
  bool integers = true;
  std::vector<Pieces> lines;
  for (const Series& s : series) {
    lines.push_back(pieces_of(s, options));
    for (const auto& piece : lines.back())
      for (const drawing::Point& p : piece) {
        left = std::min(left, p.x);
        right = std::max(right, p.x);
        low = std::min(low, p.y);
        high = std::max(high, p.y);
        integers = integers && p.x == std::floor(p.x);
      }
  }
  if (left > right)
    throw Error(ErrorKind::kInvalidArgument, "chart", "nothing to draw: no series has a finite point",
                options.log_x || options.log_y ? "values above 0 on a logarithmic axis" : "",
                fmt::format("{} series", series.size()));

  auto shapes = std::make_shared<Shapes>();
  shapes->width = options.width;
  shapes->height = options.height;
  const double width = options.width, height = options.height;
  double top = 22;
  if (!options.title.empty()) {
    shapes->items.push_back(drawing::Text{{width / 2, top + 16},
                                          drawing::shortened(options.title, kTitle, width - 60, true),
                                          kTitle,
                                          drawing::kInk,
                                          Anchor::middle,
                                          true});
    top += 36;
  }
  const bool named = series.size() > 1 || !series[0].name.empty();
  const Axis y = make_axis(low, high, {options.log_y, false, 0.05, std::max(2, options.height / 65)});
  double widest = 0;
  for (const Tick& tick : y.ticks) widest = std::max(widest, drawing::text_width(tick.label, kNumber));
  Area area{24 + widest + (options.y_label.empty() ? 0 : 26), top, width - 28,
            height - 40 - (options.x_label.empty() ? 0 : 24)};
  if (named) area.top += legend(shapes.get(), series, area.left, area.right, top) + 9;
  const bool whole = integers && right - left < 1e9;
  const Axis x = make_axis(left, right, {options.log_x, whole, 0.025, std::max(2, options.width / 90)});
  draw_axes(*shapes, area, x, y);
  if (!options.x_label.empty())
    shapes->items.push_back(drawing::Text{
        {(area.left + area.right) / 2, height - 14}, options.x_label, kLabel, drawing::kInk, Anchor::middle});
  if (!options.y_label.empty())
    shapes->items.push_back(drawing::Text{{26, (area.top + area.bottom) / 2},
                                          options.y_label,
                                          kLabel,
                                          drawing::kInk,
                                          Anchor::middle,
                                          false,
                                          -90});
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Colour colour = kColours[i % std::size(kColours)];
    std::size_t count = 0;
    for (const auto& piece : lines[i]) count += piece.size();
    for (const auto& piece : lines[i]) {
      std::vector<drawing::Point> points;
      for (const drawing::Point& p : piece)
        points.push_back({area.left + (area.right - area.left) * x.place(p.x),
                          area.bottom + (area.top - area.bottom) * y.place(p.y)});
      if (count <= kMostMarks || points.size() == 1)
        for (const drawing::Point& p : points) shapes->items.push_back(drawing::Disc{p, 3.6, colour});
      points = thinned(points);
      // Many points are noise more often than not: a thin line shows its shape.
      const double pen = count > 400 ? 1.3 : 2;
      if (points.size() > 1) shapes->items.push_back(drawing::Line{std::move(points), colour, pen});
    }
  }
  return Figure(std::move(shapes));
}

Figure history_chart(const History& history, std::string_view column, ChartOptions options) {
  std::string name(column);
  std::vector<Series> series{{history.has("val_" + name) ? "training" : "", {}, history[name]}};
  if (history.has("val_" + name)) series.push_back({"validation", {}, history["val_" + name]});
  std::replace(name.begin(), name.end(), '_', ' ');
  if (options.y_label.empty()) options.y_label = name;
  if (options.x_label.empty()) options.x_label = "epoch";
  if (options.title.empty()) {
    options.title = name;
    if (options.title[0] >= 'a' && options.title[0] <= 'z')
      options.title[0] = static_cast<char>(options.title[0] - 'a' + 'A');
  }
  return chart(series, options);
}

Figure grid(const std::vector<Figure>& figures, int columns) {
  if (figures.empty() || columns < 1)
    throw Error(ErrorKind::kInvalidArgument, "grid", "no figures", "at least one, in at least one column");
  auto shapes = std::make_shared<Shapes>();
  int x = 0, y = 0, row = 0;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (i % static_cast<std::size_t>(columns) == 0) {
      x = 0;
      y += row;
      row = 0;
    }
    for (drawing::Item item : figures[i].shapes().items) {
      const auto move = [&](drawing::Point& p) {
        p.x += x;
        p.y += y;
      };
      if (auto* line = std::get_if<drawing::Line>(&item))
        for (drawing::Point& p : line->points) move(p);
      if (auto* text = std::get_if<drawing::Text>(&item)) move(text->at);
      if (auto* disc = std::get_if<drawing::Disc>(&item)) move(disc->centre);
      if (auto* box = std::get_if<drawing::Box>(&item)) {
        box->x += x;
        box->y += y;
      }
      shapes->items.push_back(std::move(item));
    }
    x += figures[i].width();
    row = std::max(row, figures[i].height());
    shapes->width = std::max(shapes->width, x);
    shapes->height = y + row;
  }
  return Figure(std::move(shapes));
}

}  // namespace systole::training
