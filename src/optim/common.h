#pragma once

// What optimisers share inside: checks with their errors, names with wildcards, and the dtype of an update.

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/nn/module.h"
#include "systole/optim/optimizer.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::optim {

inline constexpr double kInfinity = HUGE_VAL;

// Throws kInvalidArgument.
[[noreturn]] void refuse(std::string_view where, std::string message, std::string expected, std::string got);
void check_number(std::string_view where, std::string_view what, double value, double least, double below);
void check_apply(std::string_view where, const Tensor& apply);                // one bool
void check_parameters(std::string_view where, const Parameters& parameters);  // at least one
// A gradient for each parameter, of its shape, and not marked as that of another Variable.
void check_gradients(std::string_view where, const Parameters& parameters, std::span<const Tensor> grads);

// Whether a name fits a pattern in which '*' stands for any letters and '?' for one.
bool fits(std::string_view pattern, std::string_view name);
// For each parameter the first of the lists with a pattern that it fits, or lists.size(). Throws kNotFound
// for a pattern that no parameter fits.
std::vector<std::size_t> first_fit(std::string_view where, const Parameters& parameters,
                                   std::span<const std::vector<std::string>> lists);

// Small floats are updated in f32 and rounded once.
Tensor wide(const Tensor& x);
void write(Variable variable, const Tensor& value);

// 1 - beta^step, accurate for beta near 1.
Tensor bias_correction(double beta, const Tensor& step);
// beta · average + (1 - beta) · x
Tensor averaged(double beta, const Tensor& average, const Tensor& x);
// x + factor · y, or x itself.
Tensor plus_scaled(const Tensor& x, double factor, const Tensor& y);
// parameter · (1 - lr · weight_decay), or the parameter itself.
Tensor decayed(const Tensor& parameter, const Tensor& lr, double weight_decay);

}  // namespace systole::optim
