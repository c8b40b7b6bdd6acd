#pragma once

// Arithmetic, comparison and reductions. Two operands are promoted to a common dtype and broadcast like
// numpy's; a number takes the dtype of the Tensor beside it (u8 + 1 is u8, i32 * 2.5 is f32, bf16 * 2.0 is
// bf16). Functions of real numbers (exp, sqrt, …) take integers and bools as f32.
//
// Axes may be negative: sum(x, -1), sum(x, {0, 2}). Left out, or {}, they are all axes; an empty list made at
// run time is none. With `keep` the reduced axes stay with size 1. The axes of max and min stand in braces:
// max(x, {1}) reduces axis 1, max(x, 1) is the larger of each element and 1; amax and amin take any axes.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>

#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/tensor/axes.h"
#include "systole/tensor/tensor.h"

namespace systole {

class Variable;

// Every elementwise primitive (docs/ir.md) by its name: abs(x), exp(x), …, add(a, b), max(a, b), …
#define SYSTOLE_UNARY(name, ...) SYSTOLE_API Tensor name(const Tensor& x);
#define SYSTOLE_BINARY(name, ...) SYSTOLE_API Tensor name(const Tensor& a, const Tensor& b);
#include "systole/ir/ops.def"

// Arithmetic. `/` divides truly: two integers give f32. floor_divide and % (mod) round down as in Python;
// div and rem truncate as in C++.
SYSTOLE_API Tensor operator-(const Tensor& x);
SYSTOLE_API Tensor operator+(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator-(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator*(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator/(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator%(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor floor_divide(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor mod(const Tensor& a, const Tensor& b);

// Comparison, elementwise: the result is a bool Tensor. allclose() is a single answer.
SYSTOLE_API Tensor operator==(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator!=(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator<(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator<=(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator>(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator>=(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);
SYSTOLE_API bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8);

// Logic on truth (x != 0), both sides always computed; then on bits. >> keeps the sign of signed integers.
SYSTOLE_API Tensor operator!(const Tensor& x);
SYSTOLE_API Tensor operator&&(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator||(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator~(const Tensor& x);
SYSTOLE_API Tensor operator&(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator|(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator^(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator<<(const Tensor& a, const Tensor& b);
SYSTOLE_API Tensor operator>>(const Tensor& a, const Tensor& b);

// These change what the handle refers to; other handles keep the old value.
inline Tensor& operator+=(Tensor& a, const Tensor& b) { return a = a + b; }
inline Tensor& operator-=(Tensor& a, const Tensor& b) { return a = a - b; }
inline Tensor& operator*=(Tensor& a, const Tensor& b) { return a = a * b; }
inline Tensor& operator/=(Tensor& a, const Tensor& b) { return a = a / b; }
inline Tensor& operator%=(Tensor& a, const Tensor& b) { return a = a % b; }
inline Tensor& operator&=(Tensor& a, const Tensor& b) { return a = a & b; }
inline Tensor& operator|=(Tensor& a, const Tensor& b) { return a = a | b; }
inline Tensor& operator^=(Tensor& a, const Tensor& b) { return a = a ^ b; }
inline Tensor& operator<<=(Tensor& a, const Tensor& b) { return a = a << b; }
inline Tensor& operator>>=(Tensor& a, const Tensor& b) { return a = a >> b; }

// Choice and limits.
SYSTOLE_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);  // a where true, else b
SYSTOLE_API Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high);  // min(max(x, low), high)
inline Tensor maximum(const Tensor& a, const Tensor& b) { return max(a, b); }
inline Tensor minimum(const Tensor& a, const Tensor& b) { return min(a, b); }
// Beside `using namespace std`, two Variables would be compared by std::max. Two numbers are its business.
SYSTOLE_API Tensor max(const Variable& a, const Variable& b);
SYSTOLE_API Tensor min(const Variable& a, const Variable& b);
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
Tensor max(A a, B b) = delete;
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
Tensor min(A a, B b) = delete;

// More functions of one or two Tensors.
SYSTOLE_API Tensor square(const Tensor& x);
SYSTOLE_API Tensor reciprocal(const Tensor& x);
SYSTOLE_API Tensor pow(const Tensor& x, double exponent);  // a product or a root where that is cheaper
SYSTOLE_API Tensor integer_pow(const Tensor& x, std::int64_t exponent);  // integers stay integers
template <std::integral T>
Tensor pow(const Tensor& x, T exponent) {
  return integer_pow(x, static_cast<std::int64_t>(exponent));
}
SYSTOLE_API Tensor exp2(const Tensor& x);
SYSTOLE_API Tensor log2(const Tensor& x);
SYSTOLE_API Tensor log10(const Tensor& x);
SYSTOLE_API Tensor logaddexp(const Tensor& a, const Tensor& b);  // log(exp(a) + exp(b)), without overflow
SYSTOLE_API Tensor sinh(const Tensor& x);
SYSTOLE_API Tensor cosh(const Tensor& x);
SYSTOLE_API Tensor asin(const Tensor& x);
SYSTOLE_API Tensor acos(const Tensor& x);
SYSTOLE_API Tensor atan(const Tensor& x);
SYSTOLE_API Tensor trunc(const Tensor& x);  // toward zero
SYSTOLE_API Tensor isnan(const Tensor& x);
SYSTOLE_API Tensor isinf(const Tensor& x);

// Reductions. Sums and products of integers and bools are i64 or u64 unless SumOptions says otherwise; the
// mean of integers is f32.
SYSTOLE_API Tensor sum(const Tensor& x, const Axes& axes = {}, Flag keep = false);
SYSTOLE_API Tensor sum(const Tensor& x, const Axes& axes, SumOptions options);
SYSTOLE_API Tensor prod(const Tensor& x, const Axes& axes = {}, Flag keep = false);
SYSTOLE_API Tensor prod(const Tensor& x, const Axes& axes, SumOptions options);
SYSTOLE_API Tensor mean(const Tensor& x, const Axes& axes = {}, Flag keep = false);
SYSTOLE_API Tensor amax(const Tensor& x, const Axes& axes = {}, Flag keep = false);
SYSTOLE_API Tensor amin(const Tensor& x, const Axes& axes = {}, Flag keep = false);
SYSTOLE_API Tensor max(const Tensor& x);
SYSTOLE_API Tensor max(const Tensor& x, Ints axes, Flag keep = false);
SYSTOLE_API Tensor max(const Tensor& x, std::initializer_list<std::int64_t> axes, Flag keep = false);
SYSTOLE_API Tensor min(const Tensor& x);
SYSTOLE_API Tensor min(const Tensor& x, Ints axes, Flag keep = false);
SYSTOLE_API Tensor min(const Tensor& x, std::initializer_list<std::int64_t> axes, Flag keep = false);
// The mean squared distance from the mean, divided by the count less `correction`: 0 as in numpy (the biased
// variance), 1 as in PyTorch. stddev is its root; the name std would be the standard library's.
struct VarOptions {
  double correction = 0;
  bool keep = false;
};
SYSTOLE_API Tensor var(const Tensor& x, const Axes& axes = {}, VarOptions options = {});
SYSTOLE_API Tensor stddev(const Tensor& x, const Axes& axes = {}, VarOptions options = {});
// (Σ|x|^order)^(1/order); the largest |x| when the order is infinity, the smallest when it is -infinity.
struct NormOptions {
  double order = 2;
  bool keep = false;
};
SYSTOLE_API Tensor norm(const Tensor& x, const Axes& axes = {}, NormOptions options = {});
SYSTOLE_API Tensor logsumexp(const Tensor& x, const Axes& axes = {}, Flag keep = false);  // without overflow
// Truth. Beside `using namespace std`, `any` could be std::any: any_true is the same.
SYSTOLE_API Tensor any(const Tensor& x, const Axes& axes = {}, Flag keep = false);
inline Tensor any_true(const Tensor& x, const Axes& axes = {}, Flag keep = false) {
  return any(x, axes, keep);
}
// all(x, axes, keep): whether every element is true. In an index, `all` is the whole axis: x[{all, 0}].
struct SYSTOLE_API All {
  Tensor operator()(const Tensor& x, const Axes& axes = {}, Flag keep = false) const;
};
inline constexpr All all;
inline Tensor all_true(const Tensor& x, const Axes& axes = {}, Flag keep = false) {
  return all(x, axes, keep);
}
// The i32 index of the largest or smallest element, the first of equals; of all elements in order without an
// axis.
SYSTOLE_API Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {}, Flag keep = false);
SYSTOLE_API Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {}, Flag keep = false);

// Running sums and products, as wide as sum and prod, and sorting.
SYSTOLE_API Tensor cumsum(const Tensor& x, std::int64_t axis, Flag reverse = false);
SYSTOLE_API Tensor cumsum(const Tensor& x, std::int64_t axis, RunningOptions options);
SYSTOLE_API Tensor cumprod(const Tensor& x, std::int64_t axis, Flag reverse = false);
SYSTOLE_API Tensor cumprod(const Tensor& x, std::int64_t axis, RunningOptions options);
SYSTOLE_API Tensor sort(const Tensor& x, std::int64_t axis = -1, Flag descending = false);     // stable
SYSTOLE_API Tensor argsort(const Tensor& x, std::int64_t axis = -1, Flag descending = false);  // i32
// The k largest of the last axis in descending order, and their i32 indices.
SYSTOLE_API std::pair<Tensor, Tensor> top_k(const Tensor& x, std::int64_t k);

}  // namespace systole
