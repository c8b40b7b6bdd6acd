// Metrics by name, as ops, and over batches.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/nearest.h"
#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "systole/train/metrics.h"
#include "train/samples.h"

namespace systole::metrics {

namespace {

// A value per sample from one per element: f32[n], or f64[n].
Tensor per_sample(Tensor values) {
  if (values.dtype() != DType::f64 && values.dtype() != DType::f32) values = values.to(DType::f32);
  if (values.rank() <= 1) return values;
  return mean(values.flatten(1), 1);
}

// The first of the largest scores, or `otherwise` where they decide nothing: the largest is not finite.
Tensor decided(const Tensor& scores, std::int64_t otherwise) {
  return where(is_finite(scores.max(-1)), argmax(scores, -1), otherwise);
}

// The target's labels without the class axis, as i32, or as they are where that would make classes of what is
// none: NaN, 0.7, 2^32. Labels in i64 are only compared, element by element; what is summed is never i64, for
// which devices are slow.
Tensor labels(const Tensor& target, const Layout& layout) {
  constexpr std::int64_t kNone = kUndecided + 1;  // equals no prediction
  if (layout.one_hot) return is_float(target.dtype()) ? decided(target, kNone) : argmax(target, -1);
  const Tensor all = target.reshape(layout.samples);
  return is_float(target.dtype()) || target.dtype() == DType::i64 ? all : all.to(DType::i32);
}

// Both as numbers of one shape; [n,1] is [n].
std::pair<Tensor, Tensor> numbers(std::string_view where, const Tensor& output, const Tensor& target) {
  const auto dims = [](const Tensor& x) {
    std::vector<Dim> dims(x.shape().begin(), x.shape().end());
    while (dims.size() > 1 && dims.back() == Dim(1)) dims.pop_back();
    return dims;
  };
  const std::vector<Dim> shape = dims(output);
  if (shape != dims(target))
    throw Error(ErrorKind::kShape, std::string(where), "outputs and targets are not of one shape",
                "targets " + output.shape().to_string(), target.shape().to_string());
  const DType dtype = output.dtype() == DType::f64 || target.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return {output.reshape(Shape(shape)).to(dtype), target.reshape(Shape(shape)).to(dtype)};
}

}  // namespace

Tensor predicted(const Tensor& output, const Options& options) {
  const Layout layout = layout_of("predicted", output.type());
  switch (layout.form) {
    case Form::labels: return output.to(DType::i32);
    case Form::binary: {
      const Tensor scores = output.reshape(layout.samples);
      return where(is_finite(scores), (scores > (options.from_logits ? 0.0 : 0.5)).to(DType::i32),
                   kUndecided);
    }
    case Form::classes: return decided(output, kUndecided);
  }
  throw Error(ErrorKind::kInternal, "predicted", "unknown form");
}

Tensor correct(const Tensor& output, const Tensor& target, const Options& options) {
  if (options.ignore_index)
    throw Error(ErrorKind::kUnsupported, "correct",
                "a mean over samples cannot leave some out: use accuracy() or by_name() with ignore_index");
  const Layout layout = layout_of("correct", output.type(), target.type());
  const Tensor truth = labels(target, layout);
  return per_sample((predicted(output, options).to(truth.dtype()) == truth).to(DType::f32));
}

Tensor top_k_correct(const Tensor& output, const Tensor& target, std::int64_t k) {
  if (k < 1)
    throw Error(ErrorKind::kInvalidArgument, "top_k_correct", "no k", "at least 1", std::to_string(k));
  const Layout layout = layout_of("top_k_correct", output.type(), target.type());
  if (layout.form != Form::classes)
    throw Error(ErrorKind::kShape, "top_k_correct", "no scores of classes", "[n,classes], floating-point",
                output.type().to_string());
  // The label is right when it is a class and fewer than k classes come before it: no sorting.
  const Tensor truth = labels(target, layout).unsqueeze(-1);                    // […,1]
  const Tensor classes = arange(layout.classes, DType::i32).to(truth.dtype());  // [classes]
  const Tensor is_label = classes == truth;
  const Tensor chosen = sum(where(is_label, output, 0.0), -1, true);
  const Tensor before = !(output < chosen || (output == chosen && classes <= truth));
  const Tensor counts = any(is_label, -1) && is_finite(chosen.squeeze(-1)) && is_finite(output.max(-1));
  return per_sample((sum(before, -1, {.dtype = DType::i32}) < k && counts).to(DType::f32));
}

Tensor squared_error(const Tensor& output, const Tensor& target) {
  const auto [a, b] = numbers("squared_error", output, target);
  const Tensor difference = a - b;
  return per_sample(difference * difference);
}

Tensor absolute_error(const Tensor& output, const Tensor& target) {
  const auto [a, b] = numbers("absolute_error", output, target);
  return per_sample(abs(a - b));
}

namespace {

// The k of "top5"; 0 for another name.
std::int64_t k_of(std::string_view name) {
  if (!name.starts_with("top")) return 0;
  std::int64_t k = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 3, end, k);
  return error == std::errc() && stop == end && k > 0 && name[3] != '0' ? k : 0;
}

struct Suffix {
  std::string_view text;
  Average average;
};
constexpr Suffix kSuffixes[] = {{"", Average::binary},
                                {"_micro", Average::micro},
                                {"_macro", Average::macro},
                                {"_weighted", Average::weighted}};

using OfDecisions = double (*)(const Numbers&, const Numbers&, const ScoreOptions&);
struct Decided {
  std::string_view name;
  OfDecisions function;
};
constexpr Decided kDecided[] = {{"precision", precision}, {"recall", recall}, {"f1", f1}};

using OfNumbers = double (*)(const Numbers&, const Numbers&);
struct Regression {
  std::string_view name;
  OfNumbers function;
  Tensor (*per_sample)(const Tensor&, const Tensor&);  // null when it is no mean
  bool higher_is_better;
};
constexpr Regression kRegressions[] = {{"mse", mse, squared_error, false},
                                       {"rmse", rmse, nullptr, false},
                                       {"mae", mae, absolute_error, false},
                                       {"r2", r2, nullptr, true}};

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> all{"accuracy", "top1", "top3", "top5", "top10"};
  for (const Decided& d : kDecided)
    for (const Suffix& s : kSuffixes) all.push_back(std::string(d.name) + std::string(s.text));
  all.insert(all.end(), {"auc", "auc_ovo", "average_precision", "log_loss"});
  for (const Regression& r : kRegressions) all.emplace_back(r.name);
  return all;
}

Metric by_name(std::string_view name, const Options& options) {
  Metric metric{.name = std::string(name)};
  metric.of = Measured::classes;
  if (name == "accuracy") {
    metric.of_all = [options](const Numbers& o, const Numbers& t) { return accuracy(o, t, options); };
    if (options.ignore_index)
      metric.kept = [options](const Tensor& o) { return predicted(o, options); };
    else
      metric.per_sample = [options](const Tensor& o, const Tensor& t) { return correct(o, t, options); };
    return metric;
  }
  if (const std::int64_t k = k_of(name); k > 0) {
    metric.of_all = [k, options](const Numbers& o, const Numbers& t) {
      return top_k_accuracy(o, t, k, options);
    };
    if (!options.ignore_index)
      metric.per_sample = [k](const Tensor& o, const Tensor& t) { return top_k_correct(o, t, k); };
    return metric;
  }
  for (const Decided& d : kDecided)
    for (const Suffix& s : kSuffixes)
      if (name == std::string(d.name) + std::string(s.text)) {
        metric.kept = [options](const Tensor& o) { return predicted(o, options); };
        metric.of_all = [function = d.function, average = s.average, options](const Numbers& o,
                                                                              const Numbers& t) {
          return function(
              o, t,
              {.average = average, .from_logits = options.from_logits, .ignore_index = options.ignore_index});
        };
        return metric;
      }
  if (name == "auc" || name == "auc_ovo") {
    const MultiClass multi_class = name == "auc" ? MultiClass::ovr : MultiClass::ovo;
    metric.of_all = [multi_class, options](const Numbers& o, const Numbers& t) {
      return roc_auc(o, t, {.multi_class = multi_class, .from_logits = options.from_logits});
    };
    return metric;
  }
  if (name == "average_precision" || name == "log_loss") {
    const auto function = name == "log_loss" ? log_loss : average_precision;
    metric.higher_is_better = name != "log_loss";
    metric.of_all = [function, options](const Numbers& o, const Numbers& t) {
      return function(o, t, options);
    };
    return metric;
  }
  for (const Regression& r : kRegressions)
    if (name == r.name) {
      metric.of_all = r.function;
      metric.of = Measured::numbers;
      metric.higher_is_better = r.higher_is_better;
      if (r.per_sample != nullptr) metric.per_sample = r.per_sample;
      return metric;
    }
  throw unknown_name({}, "metric", name, names());
}

Metric mean_of(std::string name, std::function<Tensor(const Tensor&, const Tensor&)> per_sample,
               bool higher_is_better) {
  return {.name = std::move(name), .per_sample = std::move(per_sample), .higher_is_better = higher_is_better};
}

namespace {

// Batches one after the other.
Literal joined(std::string_view where, const std::vector<Literal>& parts) {
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape();
  std::int64_t rows = 0;
  for (const Literal& part : parts) {
    Shape same = part.shape();
    if (same.rank() == shape.rank() && !same.empty()) same[0] = shape[0];
    if (part.dtype() != parts[0].dtype() || same != shape || shape.empty())
      throw Error(ErrorKind::kShape, std::string(where), "batches of different types",
                  parts[0].type().to_string(), part.type().to_string());
    rows += part.shape()[0].value();
  }
  shape[0] = rows;
  Literal whole = Literal::uninitialized({parts[0].dtype(), shape});
  std::byte* at = whole.mutable_bytes();
  for (const Literal& part : parts) {
    if (part.byte_size() > 0) std::memcpy(at, part.bytes(), part.byte_size());
    at += part.byte_size();
  }
  return whole;
}

}  // namespace

void Accumulator::update(const Tensor& output, const Tensor& target) {
  if (metric_.streams()) {
    const Literal values = metric_.per_sample(output, target).literal();
    if (values.rank() == 0) {
      add_mean(values.to_doubles()[0], output.rank() == 0 ? 1 : output.size(0));
      return;
    }
    double sum = 0;
    for (const double v : values.to_doubles()) sum += v;
    if (values.count() > 0) add_mean(sum / static_cast<double>(values.count()), values.count());
    return;
  }
  outputs_.push_back((metric_.kept ? metric_.kept(output) : output).literal());
  targets_.push_back(target.literal());
  samples_ += output.rank() == 0 ? 1 : output.size(0);
}

void Accumulator::add_mean(double mean, std::int64_t samples) {
  if (!metric_.streams())
    throw Error(ErrorKind::kInvalidArgument, metric_.name,
                "this metric is no mean over samples: give outputs and targets to update()");
  if (samples <= 0) return;
  const double value = mean * static_cast<double>(samples), sum = sum_ + value;
  if (std::isfinite(sum))
    lost_ += std::abs(sum_) >= std::abs(value) ? (sum_ - sum) + value : (value - sum) + sum_;
  sum_ = sum;
  samples_ += samples;
}

double Accumulator::result() const {
  if (samples_ == 0) return std::numeric_limits<double>::quiet_NaN();
  if (metric_.streams()) return (sum_ + lost_) / static_cast<double>(samples_);
  return metric_.of_all(joined(metric_.name, outputs_), joined(metric_.name, targets_));
}

void Accumulator::reset() {
  sum_ = lost_ = 0;
  samples_ = 0;
  outputs_.clear();
  targets_.clear();
}

}  // namespace systole::metrics
