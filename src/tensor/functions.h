#pragma once

// What the function library shares: axes, broadcasting and the recording of movement ops on Tensors.

#include <span>
#include <string>
#include <string_view>

#include "ops/common.h"
#include "systole/ir/attrs.h"
#include "systole/tensor/tensor.h"
#include "tensor/record.h"

namespace systole::recording {

// The axes of a reduction, sorted.
Ints reduced_axes(const Axes& axes, const Tensor& x, std::string_view where);

// numpy's rule; throws kShape naming `where` and all types.
Shape joint_shape(std::span<const Tensor> tensors, std::string_view where);
Tensor stretched(const Tensor& x, const Shape& shape);  // x must broadcast to it

Tensor reshaped(const Tensor& x, Shape shape);
Tensor transposed(const Tensor& x, Ints permutation);
Tensor iota(Type type, std::int64_t axis);
Tensor reduced(const Tensor& x, ir::Combine kind, const Axes& axes, bool keep, std::string_view where);

// All of them in the dtype they share.
std::vector<Tensor> promoted(std::span<const Tensor> tensors, std::string_view where);

// Bools count as i32 where numbers are added.
Tensor as_number(const Tensor& x);
// x != 0.
Tensor as_bool(const Tensor& x);

// The types, for messages: "f32[2] and f32[3]".
std::string show_types(std::span<const Tensor> tensors);

}  // namespace systole::recording
