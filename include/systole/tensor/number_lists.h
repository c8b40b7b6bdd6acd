#pragma once

// How the lists and ranges of numbers that creation.h takes become Tensors.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/tensor/tensor.h"

namespace systole::creation {

template <class T>
concept Number = std::is_arithmetic_v<T>;

// Elements in memory, one after the other: a vector, an array, a span. The concepts of ranges come with
// <span>, which every compiler reads in a tenth of the time that <ranges> takes.
template <class R>
concept Memory = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                 requires { DTypeOf<std::ranges::range_value_t<R>>::value; };
template <class R>
concept Bits = std::same_as<std::remove_cvref_t<R>, std::vector<bool>>;  // packed

// A number in a list, as it was written.
class AnyNumber {
 public:
  template <Number T>
  AnyNumber(T value)
      : real_(static_cast<double>(value)),
        natural_(std::is_floating_point_v<T> ? DType::f32
                 : std::is_same_v<T, bool>   ? DType::boolean
                                             : DType::i32) {
    if constexpr (std::is_integral_v<T>) integer_ = static_cast<std::int64_t>(value);
  }
  double real() const { return real_; }
  std::int64_t integer() const { return integer_; }  // 0 for a floating-point number
  DType natural() const { return natural_; }

 private:
  double real_;
  std::int64_t integer_ = 0;
  DType natural_;
};

// A number, or a list of lists or numbers.
class SYSTOLE_API Numbers {
 public:
  template <Number T>
  Numbers(T value) : number_(value) {}
  Numbers(std::initializer_list<Numbers> items);
  Numbers(const Numbers&);
  Numbers(Numbers&&) noexcept;
  Numbers& operator=(const Numbers&);
  Numbers& operator=(Numbers&&) noexcept;
  ~Numbers();
  bool is_list() const { return items_.has_value(); }
  const std::vector<Numbers>& items() const { return *items_; }
  const AnyNumber& number() const { return number_; }

 private:
  AnyNumber number_ = 0;
  std::optional<std::vector<Numbers>> items_;
};

SYSTOLE_API Tensor from_numbers(const Numbers& numbers, std::optional<DType> dtype);
SYSTOLE_API Tensor range(double start, double stop, double step, DType dtype);
SYSTOLE_API Tensor range(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype);
SYSTOLE_API void check_count(std::size_t count, const Shape& shape);  // throws kShape

// A copy of the elements.
template <Memory R>
Literal copied(const R& values, Shape shape) {
  return Literal::of<std::ranges::range_value_t<R>>(std::move(shape), std::span(values));
}
template <Bits R>
Literal copied(const R& values, Shape shape) {
  Literal literal = Literal::uninitialized({DType::boolean, {static_cast<std::int64_t>(values.size())}});
  const auto copies = literal.mutable_values<bool>();
  for (std::size_t i = 0; i < values.size(); ++i) copies[i] = values[i];
  return literal.reshaped(std::move(shape));
}
template <class R>
Shape vector_shape(const R& values) {
  return {static_cast<std::int64_t>(std::ranges::size(values))};
}

}  // namespace systole::creation
