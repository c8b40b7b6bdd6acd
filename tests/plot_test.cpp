// Charts: ticks at round numbers, lines where the numbers say, text that stays inside XML, pixels that a
// person sees.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "error_check.h"
#include "scratch_folder.h"
#include "systole/train/plot.h"
#include "train/axis.h"
#include "train/drawing.h"
#include "train/stroke_font.h"

namespace systole {
namespace {

using training::Axis;
using training::make_axis;

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> found;
  for (const training::Tick& tick : axis.ticks)
    if (!tick.label.empty()) found.push_back(tick.label);
  return found;
}
using Labels = std::vector<std::string>;

TEST(Axis, TicksAreRoundNumbersWithTheDigitsTheyNeed) {
  EXPECT_EQ(labels(make_axis(0, 1, {})), (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(labels(make_axis(0.9, 1, {.most_ticks = 5})),
            (Labels{"0.900", "0.925", "0.950", "0.975", "1.000"}));
  EXPECT_EQ(labels(make_axis(1, 5, {.integers = true})), (Labels{"1", "2", "3", "4", "5"}));
  EXPECT_EQ(labels(make_axis(1, 1, {.integers = true})), (Labels{"1"}));
  EXPECT_EQ(labels(make_axis(-20, 20, {.margin = 0})),
            (Labels{"-20", "-15", "-10", "-5", "0", "5", "10", "15", "20"}));
  EXPECT_EQ(labels(make_axis(0.001, 10, {.logarithmic = true})), (Labels{"0.001", "0.01", "0.1", "1", "10"}));
  EXPECT_EQ(labels(make_axis(1, 30, {.logarithmic = true, .margin = 0})),
            (Labels{"1", "2", "5", "10", "20"}));
  EXPECT_DOUBLE_EQ(make_axis(1, 100, {.logarithmic = true, .margin = 0}).place(10), 0.5);
  EXPECT_DOUBLE_EQ(make_axis(2, 4, {.margin = 0}).place(3), 0.5);
}

TEST(Axis, ManyTicksAreNeverMadeAndEqualValuesHaveRoom) {
  for (const double value : {0.0, 1e-12, 3.0, -1e9, 1e299}) {
    const Axis axis = make_axis(value, value, {});
    EXPECT_LT(axis.low, value);
    EXPECT_GT(axis.high, value);
    EXPECT_GE(axis.ticks.size(), 1u) << value;
    EXPECT_LE(axis.ticks.size(), 12u) << value;
  }
  EXPECT_LE(make_axis(1e-200, 1e200, {.logarithmic = true}).ticks.size(), 12u);
  EXPECT_LE(make_axis(-1e299, 1e299, {}).ticks.size(), 12u);
}

TEST(Font, EveryLetterHasStrokesInsideItsWidth) {
  for (char c = '!'; c < 0x7f; ++c) {
    const training::drawing::StrokeText letter = training::drawing::stroke_text(std::string(1, c));
    EXPECT_FALSE(letter.strokes.empty()) << c;
    for (const auto& stroke : letter.strokes) {
      EXPECT_FALSE(stroke.empty()) << c;
      for (const training::drawing::Point& p : stroke) {
        EXPECT_GE(p.x, 0.5) << c;
        EXPECT_LE(p.x, letter.width - 0.5) << c;
        EXPECT_GE(p.y, -4.5) << c;
        EXPECT_LE(p.y, 15.6) << c;
      }
    }
  }
  EXPECT_GT(training::drawing::text_width("WWW", 13), training::drawing::text_width("iii", 13));
  EXPECT_EQ(training::drawing::shortened("short", 13, 500), "short");
  EXPECT_EQ(
      training::drawing::shortened("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 13, 30).find('\xa9'),
      1u);                                     // never half a letter
  training::drawing::stroke_text("\xff\xc3");  // wrong bytes are letters too
}

training::History history() {
  training::History h;
  for (int epoch = 0; epoch < 5; ++epoch)
    h.add({{"loss", 1.0 / (epoch + 1)}, {"val_loss", 1.2 / (epoch + 1)}, {"seconds", 1}});
  return h;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Chart, AHistoryShowsTrainingAndValidation) {
  const std::string svg = training::history_chart(history(), "loss").svg();
  for (const char* part : {">training<", ">validation<", ">Loss<", ">epoch<", "width=\"960\" height=\"600\""})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(count(svg, "<circle"), 10u);
  EXPECT_EQ(training::history_chart(history(), "seconds").svg().find(">training<"), std::string::npos);
  const std::string text = error_of(ErrorKind::kNotFound, [] { training::history_chart(history(), "los"); });
  EXPECT_NE(text.find("'loss'?"), std::string::npos) << text;
}

TEST(Chart, PointsThatAreNotFiniteAreGaps) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const std::string svg = training::chart({{"", {}, {1, 2, nan, 3, inf, 4, 5, 6}}}).svg();
  EXPECT_EQ(count(svg, "<circle"), 6u);
  EXPECT_EQ(count(svg, "stroke-width=\"2\""), 2u);  // the single point between gaps is no line
  EXPECT_EQ(count(training::chart({{"", {}, {1, 0, -1, 10}}}, {.log_y = true}).svg(), "<circle"), 2u);
  error_of(ErrorKind::kInvalidArgument, [&] { training::chart({{"", {}, {nan, inf}}}); });
  error_of(ErrorKind::kInvalidArgument, [] { training::chart({{"", {}, {-1}}}, {.log_y = true}); });
  error_of(ErrorKind::kInvalidArgument, [] { training::chart({}); });
  error_of(ErrorKind::kInvalidArgument, [] { training::chart({{"", {1, 2}, {1}}}); });
  error_of(ErrorKind::kInvalidArgument, [] { training::chart({{"", {}, {1}}}, {.width = 20}); });
}

TEST(Chart, TextIsEscaped) {
  const std::string svg = training::chart({{"a<b & c", {}, {1, 2}}}, {.title = "x\x01\xff</svg>"}).svg();
  EXPECT_NE(svg.find(">a&lt;b &amp; c<"), std::string::npos);
  EXPECT_NE(svg.find(">x ?&lt;/svg&gt;<"), std::string::npos);
}

// The colour of the series at the place of a point, paper in the corners.
TEST(Chart, PixelsShowTheLine) {
  const training::Figure figure = training::chart({{"", {}, {3, 3, 3}}});
  const Literal picture = figure.picture();
  ASSERT_EQ(picture.type(), (Type{DType::u8, {600, 960, 3}}));
  const auto pixels = picture.values<std::uint8_t>();
  std::size_t blue = 0;
  for (std::size_t i = 0; i < pixels.size(); i += 3)
    blue += pixels[i] == 31 && pixels[i + 1] == 119 && pixels[i + 2] == 180;
  EXPECT_GT(blue, 800u);
  EXPECT_LT(blue, 4000u);
  EXPECT_EQ(pixels[0], 255);
}

TEST(Chart, AMillionPointsAreThinned) {
  std::vector<double> y(1'000'000);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(i * 2654435761u % 1000u);
  EXPECT_LT(training::chart({{"", {}, y}}).svg().size(), 200'000u);
}

metrics::ConfusionMatrix matrix(std::int64_t classes) {
  metrics::ConfusionMatrix m;
  for (std::int64_t i = 0; i < classes; ++i) m.labels.push_back(i);
  for (std::int64_t i = 0; i < classes * classes; ++i)
    m.counts.push_back(i % (classes + 1) == 0 ? 90 : i % 7);
  return m;
}

TEST(ConfusionChart, ShowsCountsSharesAndNames) {
  const std::string svg = training::confusion_chart(matrix(3), {.names = {"cat", "dog", "a<b"}}).svg();
  for (const char* part : {">90<", ">cat<", ">a&lt;b<", ">predicted<", ">true<", ">Confusion matrix<"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  // The row of cat is 90, 1, 2: its share is 0.97 (by hand).
  EXPECT_NE(training::confusion_chart(matrix(3), {.normalize = true}).svg().find(">0.97<"),
            std::string::npos);
  EXPECT_EQ(training::confusion_chart(matrix(4), {.width = 500, .height = 480}).picture().type(),
            (Type{DType::u8, {480, 500, 3}}));
  EXPECT_EQ(training::confusion_chart(matrix(200)).svg().find(">3<"),
            std::string::npos);  // no room for numbers
  error_of(ErrorKind::kInvalidArgument, [] { training::confusion_chart({}); });
  error_of(ErrorKind::kInvalidArgument, [] { training::confusion_chart(matrix(3), {.names = {"cat"}}); });
  error_of(ErrorKind::kInvalidArgument,
           [] { training::confusion_chart(matrix(300), {.width = 300, .height = 300}); });
}

class PlotTest : public ScratchFolder {};

TEST_F(PlotTest, TheExtensionDecides) {
  const training::Figure figure =
      training::grid({training::history_chart(history(), "loss"), training::confusion_chart(matrix(2)),
                      training::chart({{"", {}, {1, 2}}})});
  EXPECT_EQ(figure.height(), 1200);
  const auto start = [&](const std::string& name) {
    std::ifstream file(folder_ / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {}).substr(0, 4);
  };
  figure.save(folder_ / "a.svg");
  EXPECT_EQ(start("a.svg"), "<svg");
  try {
    figure.save(folder_ / "a.PNG");
    EXPECT_EQ(start("a.PNG"), "\x89PNG");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUnsupported) << e.what();
  }
  const std::string text = error_of(ErrorKind::kInvalidArgument, [&] { figure.save(folder_ / "a.jpg"); });
  EXPECT_NE(text.find(".svg or .png"), std::string::npos) << text;
}

}  // namespace
}  // namespace systole
