#pragma once

// What outputs and targets mean, for metrics: labels and scores as metrics.h tells them by their form.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "systole/train/metrics.h"

namespace systole::metrics {

enum class Form { labels, binary, classes };  // as in the prologue of metrics.h

// Shared by the functions on the host and by those of ops.
struct Layout {
  Form form = Form::labels;
  Shape samples;             // the axes before the classes
  std::int64_t classes = 0;  // of Form::classes; 2 when binary; else 0
  bool one_hot = false;      // the target has the class axis too
};
Layout layout_of(std::string_view where, const Type& output);
Layout layout_of(std::string_view where, const Type& output, const Type& target);

// Whether the scores of one sample decide for a class; see metrics.h.
bool decides(std::span<const double> scores);

// Labels of samples that count; kUndecided may be among the predicted ones.
struct Decisions {
  std::vector<std::int64_t> predicted, truth;
  std::int64_t classes = 0;  // as Layout::classes
};
Decisions decisions(std::string_view where, const Numbers& output, const Numbers& target,
                    const Options& options);

// Scores of samples that count, [truth.size(), classes]; a binary score has one column. All scores of an
// undecided sample are NaN.
struct Scores {
  std::vector<double> values;
  std::vector<std::int64_t> truth;
  std::int64_t columns = 1;
  std::int64_t undecided_at = -1;  // the first undecided sample, counted with those that are ignored
  bool from_logits = true;
};
Scores scores(std::string_view where, const Numbers& output, const Numbers& target, const Options& options);

}  // namespace systole::metrics
