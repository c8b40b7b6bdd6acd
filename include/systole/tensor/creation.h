#pragma once

// Making Tensors: from numbers in the program, from memory, and from rules. A list of floating-point numbers
// is f32, of integers i32, of bools bool, unless a dtype is given; vectors and spans keep their element type.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/tensor/number_lists.h"
#include "systole/tensor/shape_of.h"
#include "systole/tensor/tensor.h"

namespace systole {

// From numbers in the program: tensor(2.5), tensor({1, 2, 3}), tensor({{1.0, 2.0}, {3.0, 4.0}}, DType::f64).
// Lists may nest as deep as they like; where they mix kinds of numbers, floating-point ones win over integers
// and those over bools.
template <creation::Number T>
Tensor tensor(T value, std::optional<DType> dtype = {}) {
  return creation::from_numbers(value, dtype);
}
inline Tensor tensor(std::initializer_list<creation::Numbers> values, std::optional<DType> dtype = {}) {
  return creation::from_numbers(values, dtype);
}

// A copy of memory: of a vector, an array or a span, in its elements' dtype or converted (as to() does it).
// Without a shape the result is a vector.
template <class R>
  requires creation::Memory<const R&> || creation::Bits<R>
Tensor tensor(const R& values, Shape shape, std::optional<DType> dtype = {}) {
  const Tensor x(creation::copied(values, std::move(shape)));
  return dtype ? x.to(*dtype) : x;
}
template <class R>
  requires creation::Memory<const R&> || creation::Bits<R>
Tensor tensor(const R& values, std::optional<DType> dtype = {}) {
  return tensor(values, creation::vector_shape(values), dtype);
}

// Memory used in place, not copied, until a device with memory of its own computes with it: it must stay as
// it is until the last Tensor that needs it is gone. A vector or array that ends with the statement does not
// compile.
template <creation::Memory R>
  requires std::ranges::borrowed_range<R>
Tensor from_span(R&& values, Shape shape) {
  creation::check_count(std::ranges::size(values), shape);
  return Tensor(
      Literal::view({dtype_of<std::ranges::range_value_t<R>>, std::move(shape)}, std::ranges::data(values)));
}
template <creation::Memory R>
  requires std::ranges::borrowed_range<R>
Tensor from_span(R&& values) {
  return from_span(values, creation::vector_shape(values));
}
template <creation::Memory R>
  requires(!std::ranges::borrowed_range<R>)
Tensor from_span(R&& values, Shape shape = {}) = delete;
// The same for a pointer; `deleter` is called with it, once, when nothing needs it any more.
SYSTOLE_API Tensor from_pointer(void* data, Type type, std::function<void(void*)> deleter);

// Filled.
SYSTOLE_API Tensor zeros(Shape shape, DType dtype = DType::f32);
SYSTOLE_API Tensor ones(Shape shape, DType dtype = DType::f32);
SYSTOLE_API Tensor full(Shape shape, const Tensor& value, std::optional<DType> dtype = {});
template <SizeRange R>
Tensor zeros(const R& sizes, DType dtype = DType::f32) {
  return zeros(shape_of(sizes), dtype);
}
template <SizeRange R>
Tensor ones(const R& sizes, DType dtype = DType::f32) {
  return ones(shape_of(sizes), dtype);
}
template <SizeRange R>
Tensor full(const R& sizes, const Tensor& value, std::optional<DType> dtype = {}) {
  return full(shape_of(sizes), value, dtype);
}
SYSTOLE_API Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = {});
SYSTOLE_API Tensor ones_like(const Tensor& x, std::optional<DType> dtype = {});
SYSTOLE_API Tensor full_like(const Tensor& x, const Tensor& value, std::optional<DType> dtype = {});

// start, start + step, … before stop. Integers give i32, floating-point numbers f32.
template <creation::Number A, creation::Number B, creation::Number C = int>
Tensor arange(A start, B stop, C step = 1, std::optional<DType> dtype = {}) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B> && std::is_integral_v<C>)
    return creation::range(static_cast<std::int64_t>(start), static_cast<std::int64_t>(stop),
                           static_cast<std::int64_t>(step), dtype.value_or(DType::i32));
  else
    return creation::range(static_cast<double>(start), static_cast<double>(stop), static_cast<double>(step),
                           dtype.value_or(DType::f32));
}
template <creation::Number A, creation::Number B>
Tensor arange(A start, B stop, DType dtype) {
  return arange(start, stop, 1, dtype);
}
template <creation::Number A>
Tensor arange(A stop, std::optional<DType> dtype = {}) {
  return arange(A{0}, stop, 1, dtype);
}
// `count` numbers from start to stop, both included.
SYSTOLE_API Tensor linspace(double start, double stop, std::int64_t count, DType dtype = DType::f32);
// One axis of each grid runs through each vector: the "ij" order of axes.
SYSTOLE_API std::vector<Tensor> meshgrid(std::span<const Tensor> vectors);
SYSTOLE_API std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors);

// Matrices. `k` counts diagonals above the main one.
SYSTOLE_API Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {}, DType dtype = DType::f32);
SYSTOLE_API Tensor tri(std::int64_t rows, std::optional<std::int64_t> columns = {}, std::int64_t k = 0,
                       DType dtype = DType::f32);                  // 1 on and below diagonal k
SYSTOLE_API Tensor tril(const Tensor& x, std::int64_t k = 0);      // the last two axes; 0 above diagonal k
SYSTOLE_API Tensor triu(const Tensor& x, std::int64_t k = 0);      // 0 below diagonal k
SYSTOLE_API Tensor diagonal(const Tensor& x, std::int64_t k = 0);  // of the last two axes, as the last axis
SYSTOLE_API Tensor diag(const Tensor& x, std::int64_t k = 0);  // a vector as a matrix, a matrix's diagonal

}  // namespace systole
