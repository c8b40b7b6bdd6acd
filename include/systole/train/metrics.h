#pragma once

// How good a model is: scikit-learn's numbers from a model's outputs.
//
//   metrics::accuracy(logits, labels);                             // [n,classes], [n]
//   metrics::f1(logits, labels, {.average = metrics::Average::macro});
//   std::cout << metrics::classification_report(logits, labels);
//
// The output comes first, the target second, as in losses (scikit-learn has them the other way round). What
// an output means is told by its form:
//   integers or bool […]              labels, already decided
//   floats [n] or [n,1]               a score of class 1: a logit (above 0 is class 1), or with
//                                     from_logits = false a probability (above 0.5)
//   floats [n,classes], [n,t,classes] a score per class; the largest decides
// Targets are labels of any dtype without the class axis, or one-hot rows of the output's shape. Axes before
// the classes are all samples: a text's tokens count one by one.
//
// A score that is not finite decides nothing. A sample with NaN among its scores, or whose largest score is
// infinite, is undecided: it is never right, and it is predicted as no class. -inf beside a finite score only
// rules a class out. Metrics that order samples by their scores (auc, log_loss) are then NaN.
//
// A Metric is one of these by name ("accuracy", "top5", "f1_macro", "auc", "mae") for a Trainer;
// an Accumulator is a Metric over batches.

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/base/shape.h"
#include "systole/tensor/tensor.h"

namespace systole::metrics {

// The label that predicted() gives an undecided sample. Among labels that are already decided it means the
// same.
inline constexpr std::int64_t kUndecided = std::numeric_limits<std::int32_t>::min();

// Numbers in host memory, from whatever holds them: a Tensor (evaluated), a Literal, a vector, braces.
class SYSTOLE_API Numbers {
 public:
  Numbers(const Tensor& values);
  Numbers(const Literal& values);
  template <class T>
    requires(std::is_arithmetic_v<T>)
  Numbers(const std::vector<T>& values)
      : Numbers(std::vector<double>(values.begin(), values.end()), std::is_floating_point_v<T>) {}
  template <class T>
    requires(std::is_arithmetic_v<T>)
  Numbers(std::initializer_list<T> values)
      : Numbers(std::vector<double>(values.begin(), values.end()), std::is_floating_point_v<T>) {}

  std::span<const double> values() const { return values_; }
  const Type& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  std::int64_t count() const { return static_cast<std::int64_t>(values_.size()); }
  bool floating() const { return is_float(type_.dtype); }

 private:
  Numbers(std::vector<double> values, bool floating);

  Type type_;
  std::vector<double> values_;
};

struct Options {
  bool from_logits = true;                        // else floating outputs are probabilities
  std::optional<std::int64_t> ignore_index = {};  // samples with this label do not count
};

SYSTOLE_API double accuracy(const Numbers& output, const Numbers& target, const Options& options = {});
// The label is among the k best scores; of equal scores the later class is the better one, as in
// scikit-learn.
SYSTOLE_API double top_k_accuracy(const Numbers& output, const Numbers& target, std::int64_t k = 5,
                                  const Options& options = {});

// How the classes' scores become one. binary: that of class `positive` alone, for labels of two classes;
// micro: of all decisions together; macro: the mean; weighted: the mean by the number of samples.
enum class Average { binary, micro, macro, weighted };

struct ScoreOptions {
  Average average = Average::binary;
  double zero_division = 0;   // the score of a class with nothing to divide by; NaN leaves it out of means
  std::int64_t positive = 1;  // of Average::binary
  std::vector<std::int64_t> labels = {};  // the classes that count; empty: all that occur
  bool from_logits = true;
  std::optional<std::int64_t> ignore_index = {};
};

SYSTOLE_API double precision(const Numbers& output, const Numbers& target, const ScoreOptions& options = {});
SYSTOLE_API double recall(const Numbers& output, const Numbers& target, const ScoreOptions& options = {});
SYSTOLE_API double f1(const Numbers& output, const Numbers& target, const ScoreOptions& options = {});

// The same per class (scikit-learn's average=None); `average` and `positive` are not used.
struct ClassScores {
  std::vector<std::int64_t> labels;  // ascending, or options.labels
  std::vector<double> precision, recall, f1;
  std::vector<std::int64_t> support;  // samples of the class
};
SYSTOLE_API ClassScores per_class(const Numbers& output, const Numbers& target,
                                  const ScoreOptions& options = {});
// scikit-learn's table of them. `names` by class, else the labels.
SYSTOLE_API std::string classification_report(const Numbers& output, const Numbers& target,
                                              const std::vector<std::string>& names = {}, int digits = 2,
                                              const ScoreOptions& options = {});

enum class Normalize { none, truth, predicted, all };  // each row, each column, the whole sums to 1

struct SYSTOLE_API ConfusionMatrix {
  std::vector<std::int64_t> labels;  // of rows and columns: ascending, or options.labels
  std::vector<std::int64_t> counts;  // row-major: the row is the truth, the column the prediction
  // Of each row, the undecided samples: they have no column, but they count in the row's share and in the
  // accuracy. Empty: there are none.
  std::vector<std::int64_t> undecided = {};

  std::int64_t classes() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t at(std::int64_t truth, std::int64_t predicted) const;  // by position
  std::vector<double> normalized(Normalize by) const;                 // 0 where the sum is 0
  double accuracy() const;
  std::int64_t undecided_samples() const;
  void add(const ConfusionMatrix& other);  // of the same labels
};
// Class scores give all their classes; labels give those that occur, or options.labels.
SYSTOLE_API ConfusionMatrix confusion_matrix(const Numbers& output, const Numbers& target,
                                             const ScoreOptions& options = {});

// Scores of two classes, and all thresholds at which something changes.
struct RocCurve {
  std::vector<double> false_positive_rate, true_positive_rate, thresholds;  // thresholds fall from infinity
};
SYSTOLE_API RocCurve roc_curve(const Numbers& output, const Numbers& target, bool drop_intermediate = true,
                               const Options& options = {});
struct PrecisionRecallCurve {
  std::vector<double> precision, recall;  // one more than thresholds: the last is (1, 0)
  std::vector<double> thresholds;         // rising
};
SYSTOLE_API PrecisionRecallCurve precision_recall_curve(const Numbers& output, const Numbers& target,
                                                        const Options& options = {});

// Several classes: each against the rest, or each pair.
enum class MultiClass { ovr, ovo };
struct AucOptions {
  MultiClass multi_class = MultiClass::ovr;
  Average average = Average::macro;  // macro or weighted; micro with ovr
  bool from_logits = true;
};
// The area under the ROC curve, equal scores as halves; NaN when a class has no sample or a sample is
// undecided.
SYSTOLE_API double roc_auc(const Numbers& output, const Numbers& target, const AucOptions& options = {});
SYSTOLE_API double average_precision(const Numbers& output, const Numbers& target,
                                     const Options& options = {});
SYSTOLE_API double log_loss(const Numbers& output, const Numbers& target, const Options& options = {});

// Of numbers, [n] or [n,outputs]; a mean over the outputs. r2 of fewer than two samples is NaN.
SYSTOLE_API double mse(const Numbers& output, const Numbers& target);
SYSTOLE_API double rmse(const Numbers& output, const Numbers& target);
SYSTOLE_API double mae(const Numbers& output, const Numbers& target);
SYSTOLE_API double r2(const Numbers& output, const Numbers& target);

// As ops, to stand in a compiled step. predicted: the labels that an output decides for, i32 without the
// class axis, kUndecided where the scores are not finite. The others are a value per sample, f32[n] (f64 of
// f64 outputs); further axes are averaged.
SYSTOLE_API Tensor predicted(const Tensor& output, const Options& options = {});
SYSTOLE_API Tensor correct(const Tensor& output, const Tensor& target, const Options& options = {});
SYSTOLE_API Tensor top_k_correct(const Tensor& output, const Tensor& target, std::int64_t k);
SYSTOLE_API Tensor squared_error(const Tensor& output, const Tensor& target);
SYSTOLE_API Tensor absolute_error(const Tensor& output, const Tensor& target);

enum class Measured { anything, classes, numbers };  // what the targets of a metric are

struct Metric {
  std::string name;
  // f32[n], a value per sample whose mean is the metric (a scalar is taken as the batch's mean); empty when
  // all samples are needed at once, as for auc. It may stand in a compiled step.
  std::function<Tensor(const Tensor& output, const Tensor& target)> per_sample = {};
  // What of an output is kept until all samples are there; empty: the whole output.
  std::function<Tensor(const Tensor& output)> kept = {};
  // The metric of all samples, from what was kept.
  std::function<double(const Numbers& output, const Numbers& target)> of_all = {};
  bool higher_is_better = true;
  Measured of = Measured::anything;

  bool streams() const { return static_cast<bool>(per_sample); }
};

// accuracy, topK (top5), precision, recall, f1 (of two classes, or _micro, _macro, _weighted), auc, auc_ovo,
// average_precision, mse, rmse, mae, r2, log_loss. Throws kNotFound with the nearest name.
SYSTOLE_API Metric by_name(std::string_view name, const Options& options = {});
SYSTOLE_API std::vector<std::string> names();
// A metric of your own, as a mean of values per sample.
SYSTOLE_API Metric mean_of(std::string name,
                           std::function<Tensor(const Tensor& output, const Tensor& target)> per_sample,
                           bool higher_is_better);

// A metric over batches. A mean keeps a sum and a count; the others keep outputs and targets until reset().
class SYSTOLE_API Accumulator {
 public:
  explicit Accumulator(Metric metric) : metric_(std::move(metric)) {}
  explicit Accumulator(std::string_view name) : metric_(by_name(name)) {}

  void update(const Tensor& output, const Tensor& target);
  // Samples of a metric that streams, whose mean a compiled step gave already.
  void add_mean(double mean, std::int64_t samples);
  double result() const;  // NaN before the first sample
  void reset();

  const Metric& metric() const { return metric_; }
  std::int64_t samples() const { return samples_; }

 private:
  Metric metric_;
  double sum_ = 0, lost_ = 0;  // Neumaier's sum
  std::int64_t samples_ = 0;
  std::vector<Literal> outputs_, targets_;
};

}  // namespace systole::metrics
