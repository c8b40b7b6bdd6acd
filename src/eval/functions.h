#pragma once

// What each elementwise primitive of one or two operands computes, one line per op, named as in ops.def.
// `auto` is one of the wide domains (wide.h); a third parameter, where present, is the width of the elements
// in bits.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

#include "eval/wide.h"

namespace systole::eval::functions {

template <class W>
W negated(W x) {
  if constexpr (is_real<W>)
    return -x;
  else
    return wrapping(W{0}, x, std::minus<>());
}

template <class W>
W magnitude(W x) {
  if constexpr (is_real<W>)
    return std::fabs(x);
  else
    return x < 0 ? negated(x) : x;
}

template <class W>
bool is_negative(W x) {
  if constexpr (std::is_unsigned_v<W>)
    return false;
  else
    return x < 0;
}

template <class W>
bool is_minus_one(W x) {
  return std::is_signed_v<W> && x == static_cast<W>(-1);
}

// a / b toward zero: all bits set when b is 0, and no overflow for the smallest value by -1.
template <class W>
W quotient(W a, W b) {
  if constexpr (is_real<W>)
    return a / b;
  else if (b == 0)
    return static_cast<W>(-1);
  else if (is_minus_one(b))
    return negated(a);
  else
    return a / b;
}

template <class W>
W remainder(W a, W b) {
  if constexpr (is_real<W>)
    return std::fmod(a, b);
  else if (b == 0)
    return a;
  else if (is_minus_one(b))
    return 0;
  else
    return a % b;
}

// By squaring, modulo 2^64.
template <class W>
W power(W a, W b) {
  if constexpr (is_real<W>) {
    return std::pow(a, b);
  } else {
    if (is_negative(b)) {
      if (is_minus_one(a)) return b & 1 ? a : 1;
      return a == 1;
    }
    std::uint64_t result = 1, base = static_cast<std::uint64_t>(a);
    for (auto e = static_cast<std::uint64_t>(b); e != 0; e >>= 1, base *= base)
      if (e & 1) result *= base;
    return static_cast<W>(result);
  }
}

template <class W>
W sign_of(W x) {
  if constexpr (is_real<W>)
    return x == 0 || x != x ? x : std::copysign(1.0, x);
  else
    return (x > 0) - (x < 0);
}

// Each branch raises e to a non-positive power only.
inline double logistic_of(double x) {
  const double e = std::exp(-std::fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

// The bits of `a` shifted right by `b` when a has `width` bits and zeros enter.
template <class W>
W logical_right(W a, W b, int width) {
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - width);
  return is_negative(b) || b >= static_cast<W>(width)
             ? 0
             : static_cast<W>((static_cast<std::uint64_t>(a) & mask) >> b);
}

// A count of 64 or more empties every narrower width too, and so does one between the width and 64: the bits
// left over are cut when stored.
template <class W>
W left(W a, W b) {
  return is_negative(b) || b >= 64 ? 0 : static_cast<W>(static_cast<std::uint64_t>(a) << b);
}
template <class W>
W right(W a, W b) {
  if (is_negative(b) || b >= 64) return is_negative(a) ? static_cast<W>(-1) : 0;
  return a >> b;
}

inline constexpr auto abs = [](auto x) { return magnitude(x); };
inline constexpr auto neg = [](auto x) { return negated(x); };
inline constexpr auto sign = [](auto x) { return sign_of(x); };
inline constexpr auto exp = [](double x) { return std::exp(x); };
inline constexpr auto expm1 = [](double x) { return std::expm1(x); };
inline constexpr auto log = [](double x) { return std::log(x); };
inline constexpr auto log1p = [](double x) { return std::log1p(x); };
inline constexpr auto sqrt = [](double x) { return std::sqrt(x); };
inline constexpr auto rsqrt = [](double x) { return 1 / std::sqrt(x); };
inline constexpr auto cbrt = [](double x) { return std::cbrt(x); };
inline constexpr auto sin = [](double x) { return std::sin(x); };
inline constexpr auto cos = [](double x) { return std::cos(x); };
inline constexpr auto tan = [](double x) { return std::tan(x); };
inline constexpr auto tanh = [](double x) { return std::tanh(x); };
inline constexpr auto logistic = [](double x) { return logistic_of(x); };
inline constexpr auto erf = [](double x) { return std::erf(x); };
inline constexpr auto floor = [](double x) { return std::floor(x); };
inline constexpr auto ceil = [](double x) { return std::ceil(x); };
inline constexpr auto round = [](double x) { return std::nearbyint(x); };
inline constexpr auto is_finite = [](double x) { return std::isfinite(x); };
inline constexpr auto bitwise_not = [](auto x) { return ~x; };

inline constexpr auto add = [](auto a, auto b) { return wrapping(a, b, std::plus<>()); };
inline constexpr auto sub = [](auto a, auto b) { return wrapping(a, b, std::minus<>()); };
inline constexpr auto mul = [](auto a, auto b) { return wrapping(a, b, std::multiplies<>()); };
inline constexpr auto div = [](auto a, auto b) { return quotient(a, b); };
inline constexpr auto rem = [](auto a, auto b) { return remainder(a, b); };
inline constexpr auto pow = [](auto a, auto b) { return power(a, b); };
inline constexpr auto max = [](auto a, auto b) { return larger(a, b); };
inline constexpr auto min = [](auto a, auto b) { return smaller(a, b); };
inline constexpr auto atan2 = [](double a, double b) { return std::atan2(a, b); };
inline constexpr auto bitwise_and = [](auto a, auto b) { return a & b; };
inline constexpr auto bitwise_or = [](auto a, auto b) { return a | b; };
inline constexpr auto bitwise_xor = [](auto a, auto b) { return a ^ b; };
inline constexpr auto shift_left = [](auto a, auto b) { return left(a, b); };
inline constexpr auto shift_right = [](auto a, auto b) { return right(a, b); };
inline constexpr auto shift_right_logical = [](auto a, auto b, int width) {
  return logical_right(a, b, width);
};
inline constexpr auto equal = [](auto a, auto b) { return a == b; };
inline constexpr auto not_equal = [](auto a, auto b) { return a != b; };
inline constexpr auto less = [](auto a, auto b) { return a < b; };
inline constexpr auto less_equal = [](auto a, auto b) { return a <= b; };
inline constexpr auto greater = [](auto a, auto b) { return a > b; };
inline constexpr auto greater_equal = [](auto a, auto b) { return a >= b; };

}  // namespace systole::eval::functions
