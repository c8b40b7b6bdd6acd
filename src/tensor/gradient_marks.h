#pragma once

// Which Variable a gradient belongs to. value_and_grad marks what it returns, so that an optimiser refuses
// the gradients of another network whose parameters have equal shapes. What is computed from a gradient
// (clipped, averaged) is another Tensor and has no mark; a gradient that a LossScale divides keeps its own.

#include <span>
#include <string>

#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::recording {

// `leaves` are the values that the gradients were computed from: one that is a gradient itself is not marked.
void mark_gradient(const Tensor& gradient, const Variable& variable, std::span<const Tensor> leaves);

// Marks `to`, which was just computed, as `from` is.
void copy_gradient_mark(const Tensor& from, const Tensor& to);

// The Variable that the gradient is marked with, where that is not this one.
struct OtherVariable {
  bool exists = false;
  std::string name;
  bool replaces = false;  // it took the place of this Variable by nn::cast
};
OtherVariable other_variable(const Tensor& gradient, const Variable& variable);

}  // namespace systole::recording
