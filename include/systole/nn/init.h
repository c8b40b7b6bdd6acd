#pragma once

// Initialisers: each assigns new numbers to a Variable, drawn from random::next_key(). The fans of a weight
// are those of PyTorch's layouts: [out, in, …], the further axes being the window of a convolution.

#include <cstdint>

#include "systole/base/export.h"
#include "systole/tensor/variable.h"

namespace systole::nn::init {

SYSTOLE_API void zeros(Variable variable);
SYSTOLE_API void ones(Variable variable);
SYSTOLE_API void constant(Variable variable, double value);
SYSTOLE_API void uniform(Variable variable, double low = 0, double high = 1);
SYSTOLE_API void normal(Variable variable, double mean = 0, double stddev = 1);
SYSTOLE_API void truncated_normal(Variable variable, double mean = 0, double stddev = 1, double low = -2,
                                  double high = 2);  // bounds in units of stddev
// Keep the variance of what passes through: stddev = gain · √(2 / (fan_in + fan_out)).
SYSTOLE_API void xavier_uniform(Variable variable, double gain = 1);
SYSTOLE_API void xavier_normal(Variable variable, double gain = 1);
// Before a leaky ReLU of slope `a`: stddev = √(2 / ((1 + a²) · fan_in)).
SYSTOLE_API void kaiming_uniform(Variable variable, double a = 0);
SYSTOLE_API void kaiming_normal(Variable variable, double a = 0);

struct Fans {
  std::int64_t in, out;
};
SYSTOLE_API Fans fans(const Shape& shape);  // throws kShape for less than two axes

}  // namespace systole::nn::init
