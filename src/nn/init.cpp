#include "systole/nn/init.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/parallel.h"
#include "nn/named.h"
#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/random.h"

namespace systole::nn::init {

Fans fans(const Shape& shape) {
  if (shape.rank() < 2)
    throw Error(ErrorKind::kShape, "init", "a weight of less than two axes has no fans", "[out, in, …]",
                shape.to_string());
  std::int64_t window = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) window *= shape[i].value();
  return {shape[1].value() * window, shape[0].value() * window};
}

void constant(Variable variable, double value) {
  variable.assign(Tensor(Literal::full(variable.type(), value)));
}
void zeros(Variable variable) { constant(variable, 0); }
void ones(Variable variable) { constant(variable, 1); }

void uniform(Variable variable, double low, double high) {
  variable.assign(random::uniform(random::next_key(), variable.shape(), low, high, variable.dtype()));
}

void normal(Variable variable, double mean, double stddev) {
  variable.assign(random::normal(random::next_key(), variable.shape(), mean, stddev, variable.dtype()));
}

void truncated_normal(Variable variable, double mean, double stddev, double low, double high) {
  variable.assign(random::truncated_normal(random::next_key(), variable.shape(), low, high, mean, stddev,
                                           variable.dtype()));
}

void variance_scaling(Variable variable, VarianceScaling options) {
  if (!(options.scale > 0))
    throw Error(ErrorKind::kInvalidArgument, "variance_scaling", "the scale", "more than 0",
                fmt::format("{}", options.scale));
  const Fans f = fans(variable.shape());
  const double in = static_cast<double>(f.in), out = static_cast<double>(f.out);
  const double fan = options.mode == Fan::in ? in : options.mode == Fan::out ? out : (in + out) / 2;
  const double deviation = std::sqrt(options.scale / std::max(fan, 1.0));
  switch (options.distribution) {
    case Distribution::uniform: {
      const double bound = std::sqrt(3.0) * deviation;
      return uniform(std::move(variable), -bound, bound);
    }
    case Distribution::normal: return normal(std::move(variable), 0, deviation);
    case Distribution::truncated_normal: {
      constexpr double kCut = 0.87962566103423978;  // the deviation of a normal number cut at ±2
      return truncated_normal(std::move(variable), 0, deviation / kCut);
    }
  }
  __builtin_unreachable();
}

namespace {

void scaled(Variable variable, double scale, Fan mode, Distribution distribution) {
  variance_scaling(std::move(variable), {scale, mode, distribution});
}
double square_gain(double a) { return 2 / (1 + a * a); }

}  // namespace

void xavier_uniform(Variable variable, double gain) {
  scaled(std::move(variable), gain * gain, Fan::average, Distribution::uniform);
}
void xavier_normal(Variable variable, double gain) {
  scaled(std::move(variable), gain * gain, Fan::average, Distribution::normal);
}
void glorot_uniform(Variable variable) {
  scaled(std::move(variable), 1, Fan::average, Distribution::uniform);
}
void glorot_normal(Variable variable) {
  scaled(std::move(variable), 1, Fan::average, Distribution::truncated_normal);
}
void kaiming_uniform(Variable variable, double a, Fan mode) {
  scaled(std::move(variable), square_gain(a), mode, Distribution::uniform);
}
void kaiming_normal(Variable variable, double a, Fan mode) {
  scaled(std::move(variable), square_gain(a), mode, Distribution::normal);
}
void he_uniform(Variable variable) { scaled(std::move(variable), 2, Fan::in, Distribution::uniform); }
void he_normal(Variable variable) { scaled(std::move(variable), 2, Fan::in, Distribution::truncated_normal); }
void lecun_uniform(Variable variable) { scaled(std::move(variable), 1, Fan::in, Distribution::uniform); }
void lecun_normal(Variable variable) {
  scaled(std::move(variable), 1, Fan::in, Distribution::truncated_normal);
}

namespace {

std::vector<double> normal_numbers(std::int64_t count) {
  return random::normal(random::next_key(), {count}, 0, 1, DType::f64).to_vector<double>();
}

// Numbers of the host, in the Variable's dtype and on its device.
void assign(Variable variable, const std::vector<double>& values) {
  variable.assign(tensor(values, variable.shape(), variable.dtype()));
}

double dot(const double* a, const double* b, std::size_t length) {
  double sums[8] = {};  // independent, so that they fill a vector
  std::size_t i = 0;
  for (; i + 8 <= length; i += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < length; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void take_out(const double* unit, double* row, std::size_t length) {
  const double along = dot(unit, row, length);
  for (std::size_t k = 0; k < length; ++k) row[k] -= along * unit[k];
}

// Makes the rows orthonormal, by Gram and Schmidt: what a row has of those before it is taken out, twice,
// since the first time leaves what rounding left. Blocks of rows share a walk over the rows before them,
// which is what takes the time. Random rows are as good as never dependent; one that is becomes zeros.
void orthonormalize(std::vector<double>& rows, std::size_t count, std::size_t length) {
  constexpr std::size_t kBlock = 16;
  struct Work {
    double* rows;
    std::size_t done, length;
  };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t block = std::min(kBlock, count - begin);
    const Work work{rows.data(), begin, length};
    for (int round = 0; round < 2; ++round) {
      parallel_for(
          static_cast<std::int64_t>(block), begin * length > 65536 ? thread_count() : 1,
          [](const void* context, std::int64_t from, std::int64_t to) {
            const Work& w = *static_cast<const Work*>(context);
            for (std::size_t j = 0; j < w.done; ++j)
              for (std::int64_t i = from; i < to; ++i)
                take_out(w.rows + j * w.length, w.rows + (w.done + static_cast<std::size_t>(i)) * w.length,
                         w.length);
          },
          &work);
      for (std::size_t i = begin; i < begin + block; ++i) {
        double* row = &rows[i * length];
        for (std::size_t j = begin; j < i; ++j) take_out(&rows[j * length], row, length);
        const double size = std::sqrt(dot(row, row, length));
        for (std::size_t k = 0; k < length; ++k) row[k] = size > 0 ? row[k] / size : 0;
      }
    }
  }
}

void check_rank(const char* where, const Variable& variable, bool fits, const char* wanted) {
  if (!fits)
    throw Error(ErrorKind::kShape, where, "the variable's axes", wanted, variable.type().to_string());
}

}  // namespace

void orthogonal(Variable variable, double gain) {
  check_rank("orthogonal", variable, variable.rank() >= 2, "two or more");
  if (variable.size() == 0) return;
  const auto rows = static_cast<std::size_t>(variable.size(0));
  const std::size_t columns = static_cast<std::size_t>(variable.size()) / rows;
  const std::size_t few = std::min(rows, columns), many = std::max(rows, columns);
  std::vector<double> basis = normal_numbers(variable.size());  // [few, many]
  orthonormalize(basis, few, many);
  std::vector<double> values(basis.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      values[i * columns + j] = gain * (rows <= columns ? basis[i * many + j] : basis[j * many + i]);
  assign(std::move(variable), values);
}

void eye(Variable variable, double gain) {
  check_rank("eye", variable, variable.rank() == 2, "two");
  std::vector<double> values(static_cast<std::size_t>(variable.size()));
  for (std::int64_t i = 0; i < std::min(variable.size(0), variable.size(1)); ++i)
    values[static_cast<std::size_t>(i * variable.size(1) + i)] = gain;
  assign(std::move(variable), values);
}

void dirac(Variable variable, std::int64_t groups) {
  check_rank("dirac", variable, variable.rank() >= 3 && variable.rank() <= 5, "three, four or five");
  if (groups < 1 || variable.size(0) % groups != 0)
    throw Error(ErrorKind::kInvalidArgument, "dirac", "the output channels do not divide into the groups",
                fmt::format("a multiple of {}", groups), std::to_string(variable.size(0)));
  std::vector<double> values(static_cast<std::size_t>(variable.size()));
  std::int64_t window = 1, middle = 0;
  for (std::int64_t axis = 2; axis < variable.rank(); ++axis) {
    window *= variable.size(axis);
    middle = middle * variable.size(axis) + variable.size(axis) / 2;
  }
  const std::int64_t share = variable.size(0) / groups, in = variable.size(1);
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t i = 0; i < std::min(share, in); ++i)
      values[static_cast<std::size_t>(((g * share + i) * in + i) * window + middle)] = 1;
  assign(std::move(variable), values);
}

void sparse(Variable variable, double sparsity, double stddev) {
  check_rank("sparse", variable, variable.rank() == 2, "two");
  if (!(sparsity >= 0 && sparsity <= 1))
    throw Error(ErrorKind::kInvalidArgument, "sparse", "the share of zeros", "in [0, 1]",
                fmt::format("{}", sparsity));
  const std::int64_t rows = variable.size(0), columns = variable.size(1);
  std::vector<double> values = normal_numbers(variable.size());
  for (double& value : values) value *= stddev;
  const auto zeros = static_cast<std::size_t>(std::ceil(sparsity * static_cast<double>(rows)));
  for (std::int64_t j = 0; j < columns; ++j) {
    const std::vector<std::int32_t> order =
        random::permutation(random::next_key(), rows).to_vector<std::int32_t>();
    for (std::size_t k = 0; k < zeros; ++k) values[static_cast<std::size_t>(order[k] * columns + j)] = 0;
  }
  assign(std::move(variable), values);
}

double gain(std::string_view nonlinearity, double slope) {
  struct Entry {
    std::string_view name;
    double gain;
  };
  const double leaky = std::sqrt(square_gain(slope));
  const Entry table[] = {
      {"linear", 1},     {"identity", 1},          {"conv1d", 1},         {"conv2d", 1}, {"sigmoid", 1},
      {"tanh", 5.0 / 3}, {"relu", std::sqrt(2.0)}, {"leaky_relu", leaky}, {"selu", 0.75}};
  return named<Entry>(table, nonlinearity, "nonlinearity").gain;
}

namespace {

struct Entry {
  std::string_view name;
  void (*assign)(Variable variable);
};

// PyTorch's, then Keras's.
constexpr Entry kInitialisers[] = {
    {"zeros", zeros},
    {"ones", ones},
    {"uniform", [](Variable v) { uniform(std::move(v)); }},
    {"normal", [](Variable v) { normal(std::move(v)); }},
    {"trunc_normal", [](Variable v) { truncated_normal(std::move(v)); }},
    {"xavier_uniform", [](Variable v) { xavier_uniform(std::move(v)); }},
    {"xavier_normal", [](Variable v) { xavier_normal(std::move(v)); }},
    {"kaiming_uniform", [](Variable v) { kaiming_uniform(std::move(v)); }},
    {"kaiming_normal", [](Variable v) { kaiming_normal(std::move(v)); }},
    {"orthogonal", [](Variable v) { orthogonal(std::move(v)); }},
    {"eye", [](Variable v) { eye(std::move(v)); }},
    {"dirac", [](Variable v) { dirac(std::move(v)); }},
    {"sparse", [](Variable v) { sparse(std::move(v), 0.1); }},
    {"random_uniform", [](Variable v) { uniform(std::move(v), -0.05, 0.05); }},
    {"random_normal", [](Variable v) { normal(std::move(v), 0, 0.05); }},
    {"truncated_normal", [](Variable v) { truncated_normal(std::move(v), 0, 0.05); }},
    {"glorot_uniform", glorot_uniform},
    {"glorot_normal", glorot_normal},
    {"he_uniform", he_uniform},
    {"he_normal", he_normal},
    {"lecun_uniform", lecun_uniform},
    {"lecun_normal", lecun_normal},
    {"variance_scaling", [](Variable v) { variance_scaling(std::move(v)); }},
    {"identity", [](Variable v) { eye(std::move(v)); }},
};

}  // namespace

void by_name(std::string_view name, Variable variable) {
  named<Entry>(kInitialisers, name, "initialiser").assign(std::move(variable));
}

std::vector<std::string> names() { return names_of<Entry>(kInitialisers); }

}  // namespace systole::nn::init
