// Rows of the Jacobian by the way back, columns by central differences.

#include "systole/tensor/gradcheck.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "tensor/record.h"

namespace systole::recording {

namespace {

constexpr const char* kName = "gradcheck";

using Doubles = std::vector<double>;

Doubles values_of(const Tensor& x) { return x.literal().to_doubles(); }

Tensor with_values(const Tensor& like, const Doubles& values) {
  return tensor(values, like.shape(), like.dtype()).to(like.device().to_string());
}

// Element 5 of f32[2,3] is "[1, 2]".
std::string place(std::size_t element, const Shape& shape) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  auto rest = static_cast<std::int64_t>(element);
  for (std::size_t d = index.size(); d-- > 0;) {
    index[d] = rest % shape[d].value();
    rest /= shape[d].value();
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string argument_in_words(std::size_t tensor, std::span<const std::size_t> begins) {
  const auto argument =
      static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), tensor) - begins.begin() - 1);
  const bool is_alone = begins[argument + 1] - begins[argument] == 1;
  return fmt::format("argument {}{}", argument,
                     is_alone ? "" : fmt::format(", Tensor {}", tensor - begins[argument]));
}

// The gradient of one element of a result, by every argument.
struct Row {
  std::size_t result, element;
  std::vector<Doubles> gradients;
};

std::vector<Row> rows_of(const std::vector<Tensor>& results, const FlatPullback& pull) {
  std::vector<Row> rows;
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!is_float(results[r].dtype())) continue;
    const auto count = static_cast<std::size_t>(results[r].shape().count());
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Tensor> cotangents;
      for (const Tensor& x : results) cotangents.push_back(filled(x.type(), 0));
      Doubles one(count, 0.0);
      one[i] = 1;
      cotangents[r] = with_values(results[r], one);
      Row& row = rows.emplace_back(Row{r, i, {}});
      for (const Tensor& gradient : pull(cotangents)) row.gradients.push_back(values_of(gradient));
    }
  }
  return rows;
}

}  // namespace

void gradcheck(const tree::FlatFunction& fn, const Flat& arguments, std::span<const std::size_t> begins,
               const GradcheckOptions& options) {
  constexpr double kStandard = 1e-6;
  const double eps = options.eps > 0 ? options.eps : kStandard;
  bool has_floats = false;
  for (std::size_t k = 0; k < arguments.tensors.size(); ++k) {
    const DType dtype = checked(arguments.tensors[k], kName).type.dtype;
    has_floats = has_floats || is_float(dtype);
    if (is_float(dtype) && dtype != DType::f64 && !(options.eps > 0))
      throw Error(
          ErrorKind::kDType, kName,
          fmt::format("{}: differences of other floats than f64 tell little", argument_in_words(k, begins)),
          "f64, or an eps and tolerances for it", std::string(name(dtype)));
  }
  const auto [value, pull] = vjp(fn, arguments);
  const std::vector<Row> rows = rows_of(value.tensors, pull);
  const bool has_result = std::any_of(value.tensors.begin(), value.tensors.end(),
                                      [](const Tensor& x) { return is_float(x.dtype()); });
  if (!has_floats || !has_result)
    throw Error(ErrorKind::kInvalidArgument, kName, "there is nothing to differentiate",
                "a float argument and a float result");

  double worst = 0;
  std::size_t wrong = 0;
  std::string what, expected, got;
  for (std::size_t k = 0; k < arguments.tensors.size(); ++k) {
    const Tensor& x = arguments.tensors[k];
    if (!is_float(x.dtype())) continue;
    const Doubles here = values_of(x);
    for (std::size_t j = 0; j < here.size(); ++j) {
      double at = 0;  // where it was moved to, as the dtype rounds it
      const auto moved = [&](double step) {
        Doubles there = here;
        there[j] += step;
        Flat all = arguments;
        all.tensors[k] = with_values(x, there);
        at = values_of(all.tensors[k])[j];
        std::vector<Doubles> results;
        for (const Tensor& result : fn(all).tensors) results.push_back(values_of(result));
        return results;
      };
      const std::vector<Doubles> above = moved(eps);
      const double high = at;
      const std::vector<Doubles> below = moved(-eps);
      const double step = high - at;
      if (step == 0)
        throw Error(ErrorKind::kInvalidArgument, kName,
                    fmt::format("{}, element {}: {} rounds a step of eps away", argument_in_words(k, begins),
                                place(j, x.shape()), name(x.dtype())),
                    "a larger eps", fmt::format("{:g} at {:g}", eps, here[j]));
      for (const Row& row : rows) {
        const double difference = (above[row.result][row.element] - below[row.result][row.element]) / step;
        const double gradient = row.gradients[k][j];
        double excess = std::abs(gradient - difference) - options.atol - options.rtol * std::abs(difference);
        if (excess <= 0) continue;
        ++wrong;
        if (std::isnan(excess)) excess = std::numeric_limits<double>::infinity();
        if (excess <= worst) continue;
        worst = excess;
        what = fmt::format("{}, element {}, of result {}, element {}", argument_in_words(k, begins),
                           place(j, x.shape()), row.result,
                           place(row.element, value.tensors[row.result].shape()));
        expected = fmt::format("{:.9g} by differences", difference);
        got = fmt::format("{:.9g}", gradient);
      }
    }
  }
  if (wrong > 0)
    throw Error(ErrorKind::kInvalidArgument, kName,
                fmt::format("{} gradients are wrong; the worst is by {}", wrong, what), expected, got);
}

}  // namespace systole::recording
