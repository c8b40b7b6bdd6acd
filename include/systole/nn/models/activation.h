#pragma once

// The activation of a transformer's dense layers.

#include <string_view>

#include "systole/base/export.h"
#include "systole/tensor/tensor.h"

namespace systole::nn::models {

enum class Activation { gelu, gelu_tanh, relu, silu, tanh };

SYSTOLE_API Tensor activate(Activation activation, const Tensor& x);
// "gelu", "gelu_tanh", "relu", "silu", "tanh"; kNotFound with the nearest for another.
SYSTOLE_API Activation activation_named(std::string_view name);
SYSTOLE_API std::string_view name_of(Activation activation);

}  // namespace systole::nn::models
