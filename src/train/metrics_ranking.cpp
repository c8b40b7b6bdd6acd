// Metrics of scores: how samples are ordered by them, and how sure they are. Curves follow scikit-learn point
// by point; areas are sums of integers up to one last division.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/error.h"
#include "systole/train/metrics.h"
#include "train/samples.h"

namespace systole::metrics {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// How many of each kind have a score of at least each threshold, from the highest down.
struct Steps {
  std::vector<double> thresholds;
  std::vector<std::int64_t> positives, negatives;
  bool ordered = true;  // false when a sample is undecided: then there are no steps

  std::int64_t all_positives() const { return positives.empty() ? 0 : positives.back(); }
  std::int64_t all_negatives() const { return negatives.empty() ? 0 : negatives.back(); }
};

Steps steps(std::span<const double> scores, const std::vector<bool>& positive) {
  Steps found;
  found.ordered = std::none_of(scores.begin(), scores.end(), [](double s) { return std::isnan(s); });
  if (!found.ordered) return found;
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::int64_t positives = 0, negatives = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    (positive[order[i]] ? positives : negatives) += 1;
    if (i + 1 < order.size() && scores[order[i + 1]] == scores[order[i]]) continue;
    found.thresholds.push_back(scores[order[i]]);
    found.positives.push_back(positives);
    found.negatives.push_back(negatives);
  }
  return found;
}

// The area under the ROC curve by trapezia.
double area(const Steps& s) {
  const std::int64_t positives = s.all_positives(), negatives = s.all_negatives();
  if (!s.ordered || positives == 0 || negatives == 0) return kNaN;
  double twice = 0;  // exact up to 2^53
  std::int64_t p = 0, n = 0;
  for (std::size_t i = 0; i < s.positives.size(); ++i) {
    twice += static_cast<double>(s.negatives[i] - n) * static_cast<double>(s.positives[i] + p);
    p = s.positives[i];
    n = s.negatives[i];
  }
  return twice / 2 / (static_cast<double>(positives) * static_cast<double>(negatives));
}

double step_area(const Steps& s) {  // of precision over recall
  if (!s.ordered || s.thresholds.empty()) return kNaN;
  if (s.all_positives() == 0) return 0;
  double sum = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < s.positives.size(); ++i) {
    const double precision =
        static_cast<double>(s.positives[i]) / static_cast<double>(s.positives[i] + s.negatives[i]);
    sum += precision * static_cast<double>(s.positives[i] - before);
    before = s.positives[i];
  }
  return sum / static_cast<double>(s.all_positives());
}

std::vector<bool> is_class(const std::vector<std::int64_t>& truth, std::int64_t label) {
  std::vector<bool> found;
  for (const std::int64_t t : truth) found.push_back(t == label);
  return found;
}

// One score per sample that orders class 1 before class 0: the score itself, or, of two columns, the second
// against the first.
std::vector<double> binary_scores(std::string_view where, const Scores& s) {
  if (s.columns == 1) return s.values;
  if (s.columns != 2)
    throw Error(ErrorKind::kShape, std::string(where), "more than two classes", "[n], [n,1] or [n,2]",
                "[n," + std::to_string(s.columns) + "]");
  std::vector<double> found;
  for (std::size_t i = 0; i < s.values.size(); i += 2)
    found.push_back(s.from_logits ? s.values[i + 1] - s.values[i] : s.values[i + 1]);
  return found;
}

Steps binary_steps(std::string_view where, const Numbers& output, const Numbers& target,
                   const Options& options) {
  const Scores s = scores(where, output, target, options);
  Steps found = steps(binary_scores(where, s), is_class(s.truth, 1));
  if (!found.ordered)
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "scores that are not finite have no order",
                "finite scores", "those of sample " + std::to_string(s.undecided_at));
  return found;
}

// log Σ exp(row)
double log_sum_exp(std::span<const double> row) {
  const double top = *std::max_element(row.begin(), row.end());
  if (!std::isfinite(top)) return top;
  double sum = 0;
  for (const double x : row) sum += std::exp(x - top);
  return top + std::log(sum);
}

// Logits become probabilities: the classes of two samples are compared.
void to_probabilities(Scores& s) {
  if (!s.from_logits) return;
  const std::size_t columns = static_cast<std::size_t>(s.columns);
  for (std::size_t at = 0; at < s.values.size(); at += columns) {
    const std::span<double> row(s.values.data() + at, columns);
    const double total = log_sum_exp(row);
    for (double& x : row) x = std::exp(x - total);
  }
}

std::vector<double> column(const Scores& s, std::int64_t c) {
  std::vector<double> found;
  for (std::size_t at = static_cast<std::size_t>(c); at < s.values.size();
       at += static_cast<std::size_t>(s.columns))
    found.push_back(s.values[at]);
  return found;
}

double one_against_rest(const Scores& s, Average average) {
  if (average == Average::micro) {  // every score of every class is a sample
    std::vector<bool> positive;
    for (const std::int64_t t : s.truth)
      for (std::int64_t c = 0; c < s.columns; ++c) positive.push_back(t == c);
    return area(steps(s.values, positive));
  }
  double sum = 0, total = 0;
  for (std::int64_t c = 0; c < s.columns; ++c) {
    const Steps found = steps(column(s, c), is_class(s.truth, c));
    const double weight = average == Average::weighted ? static_cast<double>(found.all_positives()) : 1;
    sum += weight * area(found);
    total += weight;
  }
  return sum / total;
}

double one_against_one(const Scores& s, Average average) {
  double sum = 0, total = 0;
  for (std::int64_t a = 0; a < s.columns; ++a)
    for (std::int64_t b = a + 1; b < s.columns; ++b) {
      std::vector<double> of_a, of_b;
      std::vector<bool> is_a, is_b;
      for (std::size_t i = 0; i < s.truth.size(); ++i) {
        if (s.truth[i] != a && s.truth[i] != b) continue;
        const double* row = s.values.data() + i * static_cast<std::size_t>(s.columns);
        of_a.push_back(row[a]);
        of_b.push_back(row[b]);
        is_a.push_back(s.truth[i] == a);
        is_b.push_back(s.truth[i] == b);
      }
      const double weight = average == Average::weighted ? static_cast<double>(of_a.size()) : 1;
      sum += weight * (area(steps(of_a, is_a)) + area(steps(of_b, is_b))) / 2;
      total += weight;
    }
  return sum / total;
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-52;
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    default: return 0x1p-23;
  }
}

}  // namespace

double top_k_accuracy(const Numbers& output, const Numbers& target, std::int64_t k, const Options& options) {
  if (k < 1)
    throw Error(ErrorKind::kInvalidArgument, "top_k_accuracy", "no k", "at least 1", std::to_string(k));
  const Layout layout = layout_of("top_k_accuracy", output.type(), target.type());
  if (layout.form == Form::binary && k == 1) return accuracy(output, target, options);
  const Scores s = scores("top_k_accuracy", output, target, options);
  if (s.truth.empty()) return kNaN;
  std::int64_t right = 0;
  for (std::size_t i = 0; i < s.truth.size(); ++i) {
    const double* row = s.values.data() + i * static_cast<std::size_t>(s.columns);
    const std::int64_t label = s.truth[i];
    if (layout.form == Form::binary) {  // both classes are among the best two
      right += std::isfinite(row[0]);
      continue;
    }
    if (!std::isfinite(row[label])) continue;
    std::int64_t before = 0;
    for (std::int64_t c = 0; c < s.columns; ++c)
      before += !(row[c] < row[label] || (row[c] == row[label] && c <= label));
    right += before < k;
  }
  return static_cast<double>(right) / static_cast<double>(s.truth.size());
}

RocCurve roc_curve(const Numbers& output, const Numbers& target, bool drop_intermediate,
                   const Options& options) {
  const Steps s = binary_steps("roc_curve", output, target, options);
  const std::size_t count = s.thresholds.size();
  const auto straight = [](const std::vector<std::int64_t>& x, std::size_t i) {
    return x[i + 1] - x[i] == x[i] - x[i - 1];
  };
  const auto rate = [](std::int64_t part, std::int64_t all) {
    return all == 0 ? kNaN : static_cast<double>(part) / static_cast<double>(all);
  };
  RocCurve curve;
  curve.false_positive_rate.push_back(rate(0, s.all_negatives()));
  curve.true_positive_rate.push_back(rate(0, s.all_positives()));
  curve.thresholds.push_back(kInfinity);
  for (std::size_t i = 0; i < count; ++i) {
    const bool between = drop_intermediate && i > 0 && i + 1 < count;
    if (between && straight(s.positives, i) && straight(s.negatives, i)) continue;
    curve.false_positive_rate.push_back(rate(s.negatives[i], s.all_negatives()));
    curve.true_positive_rate.push_back(rate(s.positives[i], s.all_positives()));
    curve.thresholds.push_back(s.thresholds[i]);
  }
  return curve;
}

PrecisionRecallCurve precision_recall_curve(const Numbers& output, const Numbers& target,
                                            const Options& options) {
  const Steps s = binary_steps("precision_recall_curve", output, target, options);
  PrecisionRecallCurve curve;
  for (std::size_t i = s.thresholds.size(); i-- > 0;) {
    const double right = static_cast<double>(s.positives[i]);
    curve.precision.push_back(right / static_cast<double>(s.positives[i] + s.negatives[i]));
    curve.recall.push_back(s.all_positives() == 0 ? 1 : right / static_cast<double>(s.all_positives()));
    curve.thresholds.push_back(s.thresholds[i]);
  }
  curve.precision.push_back(1);
  curve.recall.push_back(0);
  return curve;
}

double roc_auc(const Numbers& output, const Numbers& target, const AucOptions& options) {
  Scores s = scores("roc_auc", output, target, {.from_logits = options.from_logits});
  if (s.columns <= 2) return area(steps(binary_scores("roc_auc", s), is_class(s.truth, 1)));
  const bool pairs = options.multi_class == MultiClass::ovo;
  if (options.average == Average::binary || (pairs && options.average == Average::micro))
    throw Error(ErrorKind::kInvalidArgument, "roc_auc", "no such average of more than two classes",
                pairs ? "macro or weighted" : "macro, weighted or micro",
                options.average == Average::binary ? "binary" : "micro");
  to_probabilities(s);
  return pairs ? one_against_one(s, options.average) : one_against_rest(s, options.average);
}

double average_precision(const Numbers& output, const Numbers& target, const Options& options) {
  Scores s = scores("average_precision", output, target, options);
  if (s.columns <= 2) return step_area(steps(binary_scores("average_precision", s), is_class(s.truth, 1)));
  to_probabilities(s);
  double sum = 0;
  for (std::int64_t c = 0; c < s.columns; ++c) sum += step_area(steps(column(s, c), is_class(s.truth, c)));
  return sum / static_cast<double>(s.columns);
}

double log_loss(const Numbers& output, const Numbers& target, const Options& options) {
  const Scores s = scores("log_loss", output, target, options);
  if (s.truth.empty()) return kNaN;
  const double epsilon = epsilon_of(output.type().dtype);
  const std::size_t columns = static_cast<std::size_t>(s.columns);
  double sum = 0;
  for (std::size_t i = 0; i < s.truth.size(); ++i) {
    const std::span<const double> row(s.values.data() + i * columns, columns);
    const std::size_t label = static_cast<std::size_t>(s.truth[i]);
    if (options.from_logits) {
      if (columns > 1) {
        sum += log_sum_exp(row) - row[label];
      } else {  // log(1 + exp(-x)) of the right class, without overflow
        const double x = label == 1 ? row[0] : -row[0];
        sum += std::log1p(std::exp(-std::abs(x))) + std::max(-x, 0.0);
      }
    } else {
      const double p = columns > 1 ? row[label] : label == 1 ? row[0] : 1 - row[0];
      sum -= std::log(std::isnan(p) ? p : std::clamp(p, epsilon, 1 - epsilon));
    }
  }
  return sum / static_cast<double>(s.truth.size());
}

}  // namespace systole::metrics
