// Metrics of numbers, and Numbers themselves.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/train/metrics.h"

namespace systole::metrics {

Numbers::Numbers(const Tensor& values) : Numbers(values.literal()) {}
Numbers::Numbers(const Literal& values) : type_(values.type()), values_(values.to_doubles()) {}
Numbers::Numbers(std::vector<double> values, bool floating)
    : type_{floating ? DType::f64 : DType::i64, {static_cast<std::int64_t>(values.size())}},
      values_(std::move(values)) {}

namespace {

// Rows are samples, columns the numbers predicted for each.
struct Columns {
  std::int64_t rows = 0, columns = 1;
};

Columns columns_of(std::string_view where, const Numbers& output, const Numbers& target) {
  const auto dims = [](const Numbers& x) {  // without ones at the end: [n,1] is [n]
    std::vector<Dim> dims(x.shape().begin(), x.shape().end());
    while (dims.size() > 1 && dims.back() == Dim(1)) dims.pop_back();
    return dims;
  };
  const std::vector<Dim> found = dims(output);
  if (found != dims(target))
    throw Error(ErrorKind::kShape, std::string(where), "outputs and targets are not of one shape",
                "targets " + output.shape().to_string(), target.shape().to_string());
  if (found.empty()) return {1, 1};
  const std::int64_t rows = found[0].value();
  return {rows, rows == 0 ? 1 : output.count() / rows};
}

// Of each column, the sum over the rows.
template <class F>
std::vector<double> column_sums(const Columns& size, F&& error) {
  std::vector<double> sums(static_cast<std::size_t>(size.columns));
  for (std::int64_t r = 0, i = 0; r < size.rows; ++r)
    for (std::int64_t c = 0; c < size.columns; ++c, ++i)
      sums[static_cast<std::size_t>(c)] += error(static_cast<std::size_t>(i));
  return sums;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

std::vector<double> squared_means(std::string_view where, const Numbers& output, const Numbers& target) {
  const Columns size = columns_of(where, output, target);
  std::vector<double> sums = column_sums(size, [&](std::size_t i) {
    const double difference = output.values()[i] - target.values()[i];
    return difference * difference;
  });
  for (double& s : sums) s /= static_cast<double>(size.rows);  // NaN without samples
  return sums;
}

}  // namespace

double mse(const Numbers& output, const Numbers& target) {
  return mean(squared_means("mse", output, target));
}

double rmse(const Numbers& output, const Numbers& target) {
  std::vector<double> errors = squared_means("rmse", output, target);
  for (double& e : errors) e = std::sqrt(e);
  return mean(errors);
}

double mae(const Numbers& output, const Numbers& target) {
  const Columns size = columns_of("mae", output, target);
  return mean(column_sums(size,
                          [&](std::size_t i) { return std::abs(output.values()[i] - target.values()[i]); })) /
         static_cast<double>(size.rows);
}

double r2(const Numbers& output, const Numbers& target) {
  const Columns size = columns_of("r2", output, target);
  if (size.rows < 2) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> errors = squared_means("r2", output, target);
  std::vector<double> means = column_sums(size, [&](std::size_t i) { return target.values()[i]; });
  for (double& m : means) m /= static_cast<double>(size.rows);
  std::vector<double> spreads = column_sums(size, [&](std::size_t i) {
    const double d = target.values()[i] - means[i % means.size()];
    return d * d;
  });
  std::vector<double> scores;
  for (std::size_t c = 0; c < errors.size(); ++c) {
    const double spread = spreads[c] / static_cast<double>(size.rows);
    // Of a constant target: 1 when it was met, else 0; NaN where an error is infinite.
    scores.push_back(spread != 0                ? 1 - errors[c] / spread
                     : errors[c] == 0           ? 1
                     : std::isfinite(errors[c]) ? 0
                                                : std::numeric_limits<double>::quiet_NaN());
  }
  return mean(scores);
}

}  // namespace systole::metrics
