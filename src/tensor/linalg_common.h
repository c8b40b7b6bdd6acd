#pragma once

// What the solvers share.

#include <string_view>

#include "systole/tensor/tensor.h"

namespace systole::recording {

void check_square(const Tensor& a, std::string_view where);

// a·x = b with both in one dtype of at least 32 bits, one batch, and b a matrix.
struct System {
  Tensor a, b;
  DType dtype = DType::f32;  // of the result
  bool vector = false;       // b was a vector
  Tensor result(const Tensor& x) const;
};
System make_system(const Tensor& a, const Tensor& b, std::string_view where);

}  // namespace systole::recording
