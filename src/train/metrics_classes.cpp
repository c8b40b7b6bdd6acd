// Metrics of decisions: which label was chosen, whatever its score.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "systole/base/error.h"
#include "systole/train/metrics.h"
#include "train/samples.h"

namespace systole::metrics {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Of one class, or of several together.
struct Counts {
  double right = 0, predicted = 0, truth = 0;
};

double divided(double a, double b, double zero_division) { return b == 0 ? zero_division : a / b; }

double precision_of(const Counts& c, double zero) { return divided(c.right, c.predicted, zero); }
double recall_of(const Counts& c, double zero) { return divided(c.right, c.truth, zero); }
double f1_of(const Counts& c, double zero) { return divided(2 * c.right, c.predicted + c.truth, zero); }

using Measure = double (*)(const Counts&, double);

Options plain(const ScoreOptions& options) { return {options.from_logits, options.ignore_index}; }

std::vector<std::int64_t> present(const Decisions& d) {
  std::set<std::int64_t> labels(d.predicted.begin(), d.predicted.end());
  labels.erase(kUndecided);
  labels.insert(d.truth.begin(), d.truth.end());
  return {labels.begin(), labels.end()};
}

struct Table {
  std::vector<std::int64_t> labels;
  std::vector<Counts> counts;
};

Table tabulate(std::string_view where, const Decisions& d, std::vector<std::int64_t> labels) {
  std::map<std::int64_t, std::size_t> place;
  for (const std::int64_t label : labels)
    if (!place.emplace(label, place.size()).second)
      throw Error(ErrorKind::kInvalidArgument, std::string(where), "a label is given twice", {},
                  std::to_string(label));
  Table table{std::move(labels), std::vector<Counts>(place.size())};
  for (std::size_t i = 0; i < d.truth.size(); ++i) {
    if (const auto at = place.find(d.truth[i]); at != place.end()) {
      ++table.counts[at->second].truth;
      if (d.truth[i] == d.predicted[i]) ++table.counts[at->second].right;
    }
    if (const auto at = place.find(d.predicted[i]); at != place.end()) ++table.counts[at->second].predicted;
  }
  return table;
}

Table tabulate(std::string_view where, const Decisions& d, const ScoreOptions& options) {
  return tabulate(where, d, options.labels.empty() ? present(d) : options.labels);
}

// The mean of scores that are not NaN, by weights; with weights of 0 only, the plain one.
double mean_of_scores(const std::vector<double>& scores, const std::vector<double>* weights) {
  double sum = 0, total = 0, plain_sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) continue;
    const double weight = weights == nullptr ? 1 : (*weights)[i];
    sum += weight * scores[i];
    total += weight;
    plain_sum += scores[i];
    ++count;
  }
  if (count == 0) return kNaN;
  return total == 0 ? plain_sum / static_cast<double>(count) : sum / total;
}

double averaged(const Table& table, Measure measure, Average average, double zero_division) {
  if (average == Average::micro) {
    Counts all;
    for (const Counts& c : table.counts) {
      all.right += c.right;
      all.predicted += c.predicted;
      all.truth += c.truth;
    }
    return measure(all, zero_division);
  }
  std::vector<double> scores, weights;
  for (const Counts& c : table.counts) {
    scores.push_back(measure(c, zero_division));
    weights.push_back(c.truth);
  }
  return mean_of_scores(scores, average == Average::weighted ? &weights : nullptr);
}

double score(std::string_view where, Measure measure, const Numbers& output, const Numbers& target,
             const ScoreOptions& options) {
  const Decisions d = decisions(where, output, target, plain(options));
  if (options.average != Average::binary)
    return averaged(tabulate(where, d, options), measure, options.average, options.zero_division);
  const std::vector<std::int64_t> labels = present(d);
  const bool there = std::find(labels.begin(), labels.end(), options.positive) != labels.end();
  if (labels.size() > 2 || (labels.size() == 2 && !there))
    throw Error(ErrorKind::kInvalidArgument, std::string(where),
                labels.size() > 2 ? "more than two classes: choose an average, macro, micro or weighted"
                                  : "the positive class does not occur",
                labels.size() > 2 ? "labels of two classes" : std::to_string(options.positive),
                fmt::format("labels {}", fmt::join(labels, ", ")));
  return measure(tabulate(where, d, std::vector{options.positive}).counts[0], options.zero_division);
}

std::int64_t undecided(const Decisions& d) {
  return std::count(d.predicted.begin(), d.predicted.end(), kUndecided);
}

std::size_t width_of(std::string_view text) {  // in characters, not bytes
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

double accuracy(const Numbers& output, const Numbers& target, const Options& options) {
  const Decisions d = decisions("accuracy", output, target, options);
  if (d.truth.empty()) return kNaN;
  std::int64_t right = 0;
  for (std::size_t i = 0; i < d.truth.size(); ++i) right += d.truth[i] == d.predicted[i];
  return static_cast<double>(right) / static_cast<double>(d.truth.size());
}

double precision(const Numbers& output, const Numbers& target, const ScoreOptions& options) {
  return score("precision", precision_of, output, target, options);
}
double recall(const Numbers& output, const Numbers& target, const ScoreOptions& options) {
  return score("recall", recall_of, output, target, options);
}
double f1(const Numbers& output, const Numbers& target, const ScoreOptions& options) {
  return score("f1", f1_of, output, target, options);
}

ClassScores per_class(const Numbers& output, const Numbers& target, const ScoreOptions& options) {
  const Decisions d = decisions("per_class", output, target, plain(options));
  const Table table = tabulate("per_class", d, options);
  ClassScores scores{table.labels, {}, {}, {}, {}};
  for (const Counts& c : table.counts) {
    scores.precision.push_back(precision_of(c, options.zero_division));
    scores.recall.push_back(recall_of(c, options.zero_division));
    scores.f1.push_back(f1_of(c, options.zero_division));
    scores.support.push_back(static_cast<std::int64_t>(c.truth));
  }
  return scores;
}

std::string classification_report(const Numbers& output, const Numbers& target,
                                  const std::vector<std::string>& names, int digits,
                                  const ScoreOptions& options) {
  constexpr std::string_view kWhere = "classification_report";
  const Decisions d = decisions(kWhere, output, target, plain(options));
  const Table table = tabulate(kWhere, d, options);
  const auto name_of = [&](std::int64_t label) {
    if (names.empty()) return std::to_string(label);
    if (label < 0 || label >= static_cast<std::int64_t>(names.size()))
      throw Error(ErrorKind::kInvalidArgument, std::string(kWhere), "a class without a name",
                  fmt::format("labels of 0 to {}", names.size() - 1), std::to_string(label));
    return names[static_cast<std::size_t>(label)];
  };
  std::size_t width = std::max(std::string_view("weighted avg").size(), static_cast<std::size_t>(digits));
  for (const std::int64_t label : table.labels) width = std::max(width, width_of(name_of(label)));
  const auto heading = [&](std::string_view name) {
    return std::string(width - width_of(name), ' ') + std::string(name) + " ";
  };
  const auto number = [&](double value) {
    return std::isnan(value) ? std::string("       nan") : fmt::format(" {:>9.{}f}", value, digits);
  };
  std::string text =
      heading("") + fmt::format(" {:>9} {:>9} {:>9} {:>9}\n\n", "precision", "recall", "f1-score", "support");
  double support = 0;
  for (std::size_t i = 0; i < table.labels.size(); ++i) {
    const Counts& c = table.counts[i];
    support += c.truth;
    text += heading(name_of(table.labels[i]));
    for (const Measure measure : {precision_of, recall_of, f1_of})
      text += number(measure(c, options.zero_division));
    text += fmt::format(" {:>9}\n", static_cast<std::int64_t>(c.truth));
  }
  text += "\n";
  const std::string total = fmt::format(" {:>9}\n", static_cast<std::int64_t>(support));
  // Over all classes the micro average is the accuracy, where every sample is decided.
  const std::vector<std::int64_t> all = present(d);
  const std::int64_t lost = undecided(d);
  const bool is_accuracy =
      lost == 0 &&
      std::all_of(all.begin(), all.end(),
                  [&](std::int64_t label) {
                    return std::find(table.labels.begin(), table.labels.end(), label) != table.labels.end();
                  }) &&
      all.size() == table.labels.size();
  for (const auto& [average, name] :
       {std::pair(Average::micro, is_accuracy ? "accuracy" : "micro avg"),
        std::pair(Average::macro, "macro avg"), std::pair(Average::weighted, "weighted avg")}) {
    text += heading(name);
    for (const Measure measure : {precision_of, recall_of, f1_of})
      text += average == Average::micro && is_accuracy && measure != f1_of
                  ? std::string(10, ' ')
                  : number(averaged(table, measure, average, options.zero_division));
    text += total;
  }
  if (lost > 0)
    text += fmt::format("\nundecided: {} of {} samples have scores that are not finite\n", lost,
                        d.predicted.size());
  return text;
}

ConfusionMatrix confusion_matrix(const Numbers& output, const Numbers& target, const ScoreOptions& options) {
  const Decisions d = decisions("confusion_matrix", output, target, plain(options));
  ConfusionMatrix matrix{options.labels, {}};
  if (matrix.labels.empty() && d.classes > 0) {
    matrix.labels.resize(static_cast<std::size_t>(d.classes));
    std::iota(matrix.labels.begin(), matrix.labels.end(), 0);
  } else if (matrix.labels.empty()) {
    matrix.labels = present(d);
  }
  std::map<std::int64_t, std::size_t> place;
  for (const std::int64_t label : matrix.labels)
    if (!place.emplace(label, place.size()).second)
      throw Error(ErrorKind::kInvalidArgument, "confusion_matrix", "a label is given twice", {},
                  std::to_string(label));
  matrix.counts.resize(place.size() * place.size());
  for (std::size_t i = 0; i < d.truth.size(); ++i) {
    const auto row = place.find(d.truth[i]), column = place.find(d.predicted[i]);
    if (row == place.end()) continue;
    if (d.predicted[i] == kUndecided) {
      matrix.undecided.resize(place.size());
      ++matrix.undecided[row->second];
    } else if (column != place.end()) {
      ++matrix.counts[row->second * place.size() + column->second];
    }
  }
  return matrix;
}

std::int64_t ConfusionMatrix::at(std::int64_t truth, std::int64_t predicted) const {
  if (truth < 0 || truth >= classes() || predicted < 0 || predicted >= classes())
    throw Error(ErrorKind::kInvalidArgument, "confusion matrix", "no such place",
                fmt::format("below {}", classes()), fmt::format("{}, {}", truth, predicted));
  return counts[static_cast<std::size_t>(truth * classes() + predicted)];
}

std::vector<double> ConfusionMatrix::normalized(Normalize by) const {
  const std::size_t n = labels.size();
  std::vector<double> rows(n), columns(n), shares(counts.begin(), counts.end());
  double all = 0;
  for (std::size_t i = 0; i < n * n; ++i) {
    rows[i / n] += shares[i];
    columns[i % n] += shares[i];
    all += shares[i];
  }
  for (std::size_t row = 0; row < undecided.size(); ++row) {
    rows[row] += static_cast<double>(undecided[row]);
    all += static_cast<double>(undecided[row]);
  }
  if (by == Normalize::none) return shares;
  for (std::size_t i = 0; i < n * n; ++i) {
    const double sum = by == Normalize::truth       ? rows[i / n]
                       : by == Normalize::predicted ? columns[i % n]
                                                    : all;
    shares[i] = divided(shares[i], sum, 0);
  }
  return shares;
}

double ConfusionMatrix::accuracy() const {
  double right = 0;
  for (std::int64_t i = 0; i < classes(); ++i) right += static_cast<double>(at(i, i));
  const std::int64_t decided = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return divided(right, static_cast<double>(decided + undecided_samples()), kNaN);
}

std::int64_t ConfusionMatrix::undecided_samples() const {
  return std::accumulate(undecided.begin(), undecided.end(), std::int64_t{0});
}

void ConfusionMatrix::add(const ConfusionMatrix& other) {
  if (labels.empty()) {
    *this = other;
    return;
  }
  if (labels != other.labels)
    throw Error(ErrorKind::kInvalidArgument, "confusion matrix", "matrices of other labels",
                fmt::format("{}", fmt::join(labels, ", ")), fmt::format("{}", fmt::join(other.labels, ", ")));
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  if (other.undecided.empty()) return;
  undecided.resize(labels.size());
  for (std::size_t i = 0; i < undecided.size(); ++i) undecided[i] += other.undecided[i];
}

}  // namespace systole::metrics
