#pragma once

// Pictures of a run: line charts and confusion matrices, as .svg or .png by the name of the file.
//
//   training::history_chart(history, "loss").save("run/loss.svg");   // training and validation
//   training::confusion_chart(metrics::confusion_matrix(logits, labels)).save("run/confusion.png");
//   training::chart({{"SGD", steps, losses}, {"Adam", steps, others}},
//                {.title = "Loss", .x_label = "step", .log_y = true}).save("compare.png");
//
// Nothing but this library is needed: text in a .png is drawn with strokes of its own.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/train/history.h"
#include "systole/train/metrics.h"

namespace systole::training {

namespace drawing {
struct Shapes;
}

// A finished picture.
class SYSTOLE_API Figure {
 public:
  explicit Figure(std::shared_ptr<const drawing::Shapes> shapes) : shapes_(std::move(shapes)) {}

  // By extension: .svg or .png (kUnsupported when the library was built without libpng). Another one is
  // kInvalidArgument.
  void save(const std::filesystem::path& file) const;
  std::string svg() const;
  Literal picture() const;  // u8[height,width,3]
  int width() const;
  int height() const;
  const drawing::Shapes& shapes() const { return *shapes_; }  // of the library's own use

 private:
  std::shared_ptr<const drawing::Shapes> shapes_;
};

// A line. Without x, the points are 1, 2, 3 …; a point that is not finite is a gap.
struct Series {
  std::string name;
  std::vector<double> x = {}, y = {};
};

struct ChartOptions {
  std::string title = {}, x_label = {}, y_label = {};
  bool log_x = false, log_y = false;  // points that are not above 0 are left out
  int width = 960, height = 600;
};
// Throws kInvalidArgument when there is nothing to draw.
SYSTOLE_API Figure chart(const std::vector<Series>& series, const ChartOptions& options = {});

// A column of a history and its validation ("loss" and "val_loss"), over the epochs.
SYSTOLE_API Figure history_chart(const History& history, std::string_view column, ChartOptions options = {});

struct ConfusionChartOptions {
  std::string title = "Confusion matrix";
  std::vector<std::string> names = {};  // by class; empty: the labels
  bool normalize = false;               // shares of each row in place of counts
  int width = 0, height = 0;            // 0: as the number of classes asks for
};
SYSTOLE_API Figure confusion_chart(const metrics::ConfusionMatrix& matrix,
                                   const ConfusionChartOptions& options = {});

// Figures next to each other, in rows of `columns`.
SYSTOLE_API Figure grid(const std::vector<Figure>& figures, int columns = 2);

}  // namespace systole::training
