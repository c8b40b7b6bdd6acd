#include "systole/nn/init.h"

#include <cmath>

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

namespace {

double xavier_deviation(const Variable& variable, double gain) {
  const Fans f = fans(variable.shape());
  return gain * std::sqrt(2.0 / static_cast<double>(f.in + f.out));
}

double kaiming_deviation(const Variable& variable, double a) {
  return std::sqrt(2 / ((1 + a * a) * static_cast<double>(fans(variable.shape()).in)));
}

// Uniform numbers of this deviation.
void spread(Variable variable, double deviation) {
  const double bound = std::sqrt(3.0) * deviation;
  uniform(std::move(variable), -bound, bound);
}

}  // namespace

void xavier_uniform(Variable variable, double gain) { spread(variable, xavier_deviation(variable, gain)); }
void xavier_normal(Variable variable, double gain) { normal(variable, 0, xavier_deviation(variable, gain)); }
void kaiming_uniform(Variable variable, double a) { spread(variable, kaiming_deviation(variable, a)); }
void kaiming_normal(Variable variable, double a) { normal(variable, 0, kaiming_deviation(variable, a)); }

}  // namespace systole::nn::init
