#pragma once

// Initialisers: each assigns new numbers to a Variable, drawn from random::next_key(). The fans of a weight
// are those of PyTorch's layouts: [out, in, …], the further axes being the window of a convolution.
//
//   init::orthogonal(lstm.weight);
//   init::by_name("he_normal", conv.weight);
//
// PyTorch's and Keras's initialisers differ under similar names: kaiming_normal and xavier_normal are
// PyTorch's, plain normal numbers; he_normal, glorot_normal and lecun_normal are Keras's, cut at two
// deviations and widened so that the variance is the one meant.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

enum class Fan { in, out, average };
enum class Distribution { uniform, normal, truncated_normal };
// Numbers of variance scale / fan, which all that follow are cases of.
struct VarianceScaling {
  double scale = 1;
  Fan mode = Fan::in;
  Distribution distribution = Distribution::truncated_normal;
};
SYSTOLE_API void variance_scaling(Variable variable, VarianceScaling options = {});

// Keep the variance of what passes through: stddev = gain · √(2 / (fan_in + fan_out)).
SYSTOLE_API void xavier_uniform(Variable variable, double gain = 1);
SYSTOLE_API void xavier_normal(Variable variable, double gain = 1);
SYSTOLE_API void glorot_uniform(Variable variable);
SYSTOLE_API void glorot_normal(Variable variable);
// Before a leaky ReLU of slope `a`: stddev = √(2 / ((1 + a²) · fan)).
SYSTOLE_API void kaiming_uniform(Variable variable, double a = 0, Fan mode = Fan::in);
SYSTOLE_API void kaiming_normal(Variable variable, double a = 0, Fan mode = Fan::in);
SYSTOLE_API void he_uniform(Variable variable);
SYSTOLE_API void he_normal(Variable variable);
// stddev = √(1 / fan_in), for SELU.
SYSTOLE_API void lecun_uniform(Variable variable);
SYSTOLE_API void lecun_normal(Variable variable);

// Rows, or columns where there are fewer, that are orthogonal and of length `gain`; the axes after the first
// count as one.
SYSTOLE_API void orthogonal(Variable variable, double gain = 1);
// Ones on the diagonal of a matrix.
SYSTOLE_API void eye(Variable variable, double gain = 1);
// A convolution that gives its input back: a one in the middle of the window from channel i to channel i, in
// each of the groups.
SYSTOLE_API void dirac(Variable variable, std::int64_t groups = 1);
// A matrix of normal numbers with a share of `sparsity` zeros in each column.
SYSTOLE_API void sparse(Variable variable, double sparsity, double stddev = 0.01);

// By the name that the function has in PyTorch ("kaiming_uniform", with or without its "_") or in Keras
// ("HeNormal", "he_normal"), with its defaults there: "normal" has a deviation of 1, "random_normal" of 0.05.
// An unknown one throws kNotFound with the nearest.
SYSTOLE_API void by_name(std::string_view name, Variable variable);
SYSTOLE_API std::vector<std::string> names();

// PyTorch's gain for what follows the layer: "linear", "sigmoid", "tanh", "relu", "leaky_relu" with its
// slope, "selu".
SYSTOLE_API double gain(std::string_view nonlinearity, double slope = 0.01);

struct Fans {
  std::int64_t in, out;
};
SYSTOLE_API Fans fans(const Shape& shape);  // throws kShape for less than two axes

}  // namespace systole::nn::init
