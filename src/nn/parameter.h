#pragma once

// What the constructors of layers share.

#include <cstdint>

#include "systole/base/literal.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

Variable new_parameter(Shape shape);                 // f32 zeros
Variable new_buffer(Literal value);                  // not trainable
bool same_values(const Tensor& a, const Tensor& b);  // types and bits
// PyTorch's default for the weights and biases of linear maps: uniform in ±1/√fan.
void init_uniform_by_fan(Variable variable, std::int64_t fan);

}  // namespace systole::nn
