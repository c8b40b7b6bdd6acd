// Elementwise functions. Those of ops.def come from there, one line each; they and the operators are the
// short way into the recorder, everything else is made of them.

#include "systole/tensor/math.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "systole/base/error.h"
#include "systole/tensor/variable.h"
#include "tensor/functions.h"
#include "tensor/record.h"

namespace systole {

using namespace recording;
using ir::Op;

namespace {

bool is_float_tensor(const Tensor& x) { return x.defined() && is_float(x.dtype()); }

// Functions of real numbers on whatever was given; integers are whole already.
template <Op op>
Tensor real_function(const Tensor& x) {
  if (is_float_tensor(x)) [[likely]]
    return unary(op, x);
  if constexpr (op == Op::floor || op == Op::ceil || op == Op::round)
    if (is_integer(checked(x, ir::name(op)).type.dtype)) return x;
  return unary(op, as_float(x));
}

Tensor real_function(Op op, const Tensor& a, const Tensor& b) {
  if (is_float_tensor(a) || is_float_tensor(b)) return binary(op, a, b);
  return binary(op, as_float(a), as_float(b));
}

Tensor number(const Tensor& like, double value) { return constant_like(like, value); }

}  // namespace

#define SYSTOLE_UNARY(name, dtypes, ...) \
  Tensor name(const Tensor& x) {         \
    if constexpr ((dtypes) == kFloats)   \
      return real_function<Op::name>(x); \
    else                                 \
      return unary(Op::name, x);         \
  }
#define SYSTOLE_BINARY(name, dtypes, ...)         \
  Tensor name(const Tensor& a, const Tensor& b) { \
    if constexpr ((dtypes) == kFloats)            \
      return real_function(Op::name, a, b);       \
    else                                          \
      return binary(Op::name, a, b);              \
  }
#include "systole/ir/ops.def"

Tensor operator-(const Tensor& x) { return unary(Op::neg, x); }
Tensor operator+(const Tensor& a, const Tensor& b) { return binary(Op::add, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return binary(Op::sub, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary(Op::mul, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return real_function(Op::div, a, b); }
Tensor operator%(const Tensor& a, const Tensor& b) { return mod(a, b); }

Tensor operator==(const Tensor& a, const Tensor& b) { return binary(Op::equal, a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return binary(Op::not_equal, a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return binary(Op::less, a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return binary(Op::less_equal, a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return binary(Op::greater, a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return binary(Op::greater_equal, a, b); }

Tensor operator!(const Tensor& x) { return unary(Op::bitwise_not, as_bool(x)); }
Tensor operator&&(const Tensor& a, const Tensor& b) {
  return binary(Op::bitwise_and, as_bool(a), as_bool(b));
}
Tensor operator||(const Tensor& a, const Tensor& b) { return binary(Op::bitwise_or, as_bool(a), as_bool(b)); }
Tensor operator~(const Tensor& x) { return unary(Op::bitwise_not, x); }
Tensor operator&(const Tensor& a, const Tensor& b) { return binary(Op::bitwise_and, a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return binary(Op::bitwise_or, a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) { return binary(Op::bitwise_xor, a, b); }
Tensor operator<<(const Tensor& a, const Tensor& b) { return binary(Op::shift_left, a, b); }
Tensor operator>>(const Tensor& a, const Tensor& b) { return binary(Op::shift_right, a, b); }

namespace {

struct Division {
  Tensor a, b, remainder;
  Tensor differs;  // the remainder is not 0 and has another sign than the divisor
};

Division divide(const Tensor& dividend, const Tensor& divisor, std::string_view where) {
  const Tensor both[] = {dividend, divisor};
  const std::vector<Tensor> x = promoted(both, where);
  Division d{x[0], x[1], binary(Op::rem, x[0], x[1]), {}};
  if (is_unsigned_integer(d.a.dtype())) return d;
  const Tensor zero = number(d.a, 0);
  d.differs = (d.remainder != zero) & ((d.remainder < zero) != (d.b < zero));
  return d;
}

}  // namespace

Tensor mod(const Tensor& a, const Tensor& b) {
  const Division d = divide(a, b, "mod");
  if (!d.differs.defined()) return d.remainder;
  return where(d.differs, d.remainder + d.b, d.remainder);
}

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  const Division d = divide(a, b, "floor_divide");
  if (!d.differs.defined()) return binary(Op::div, d.a, d.b);
  if (is_integer(d.a.dtype())) return binary(Op::div, d.a, d.b) - as_dtype(d.differs, d.a.dtype());
  // floor(a / b) is one too large where the quotient rounds up to a whole number: take the remainder first.
  const Tensor remainder = where(d.differs, d.remainder + d.b, d.remainder);
  return where(d.b == number(d.b, 0), d.a / d.b, round((d.a - remainder) / d.b));
}

Tensor isclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  const Tensor x = as_float(a), y = as_float(b);
  const Tensor near = abs(x - y) <= Tensor(atol) + Tensor(rtol) * abs(y);
  return (x == y) | (near & is_finite(y));
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  return all(isclose(a, b, rtol, atol)).item<bool>();
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Tensor branches[] = {a, b};
  const std::vector<Tensor> x = promoted(branches, "where");
  if (checked(condition, "where").type.dtype != DType::boolean)
    throw Error(ErrorKind::kDType, "where", "the condition is not bool; compare first", "bool",
                condition.type().to_string());
  const Tensor all_three[] = {condition, a, b};
  const Shape shape = joint_shape(all_three, "where");
  // A scalar condition stays one, which the op takes.
  const Tensor p = condition.rank() == 0 ? condition : stretched(condition, shape);
  return record(Op::select, {p, stretched(x[0], shape), stretched(x[1], shape)});
}

Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high) {
  const Tensor operands[] = {low, x, high};
  const std::vector<Tensor> y = promoted(operands, "clip");
  const Shape shape = joint_shape(operands, "clip");
  const auto bound = [&](const Tensor& b) { return b.rank() == 0 ? b : stretched(b, shape); };
  return record(Op::clamp, {bound(y[0]), stretched(y[1], shape), bound(y[2])});
}

Tensor max(const Variable& a, const Variable& b) { return max(a.value(), b.value()); }
Tensor min(const Variable& a, const Variable& b) { return min(a.value(), b.value()); }

Tensor square(const Tensor& x) { return binary(Op::mul, x, x); }

Tensor reciprocal(const Tensor& x) {
  const Tensor y = as_float(x);
  return binary(Op::div, number(y, 1), y);
}

Tensor integer_pow(const Tensor& x, std::int64_t exponent) {
  if (checked(x, "pow").type.dtype != DType::boolean && exponent >= 1 && exponent <= 4) {
    if (exponent == 1) return x;
    const Tensor squared = x * x;
    return exponent == 2 ? squared : squared * (exponent == 3 ? x : squared);
  }
  if (exponent < 0 && !is_float(x.dtype()))
    throw Error(ErrorKind::kInvalidArgument, "pow", "a negative power of integers",
                "a floating-point exponent or Tensor", std::to_string(exponent));
  if (exponent == -1) return reciprocal(x);
  return binary(Op::pow, as_number(x), Tensor(exponent));
}

Tensor pow(const Tensor& x, double exponent) {
  const Tensor y = as_float(x);
  if (exponent == 1 || exponent == 2 || exponent == 3 || exponent == 4 || exponent == -1)
    return integer_pow(y, static_cast<std::int64_t>(exponent));
  if (exponent == 0.5) return sqrt(y);
  if (exponent == -0.5) return rsqrt(y);
  return binary(Op::pow, y, Tensor(exponent));
}

Tensor exp2(const Tensor& x) {
  const Tensor y = as_float(x);
  return binary(Op::pow, number(y, 2), y);
}

Tensor log2(const Tensor& x) {
  const Tensor y = log(x);
  return y * number(y, std::numbers::log2e);
}

Tensor log10(const Tensor& x) {
  const Tensor y = log(x);
  return y * number(y, std::numbers::log10e);
}

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  const Tensor x = as_float(a), y = as_float(b);
  const Tensor larger = max(x, y), distance = x - y;
  // Two equal infinities have no distance, and their logarithmic sum is themselves.
  return where(isnan(distance), x + y, larger + log1p(exp(-abs(distance))));
}

Tensor sinh(const Tensor& x) {
  const Tensor y = as_float(x);
  return (expm1(y) - expm1(-y)) * number(y, 0.5);  // keeps the digits near 0
}

Tensor cosh(const Tensor& x) {
  const Tensor y = as_float(x);
  return (exp(y) + exp(-y)) * number(y, 0.5);
}

Tensor asin(const Tensor& x) {
  const Tensor y = as_float(x), one = number(y, 1);
  return atan2(y, sqrt((one - y) * (one + y)));
}

Tensor acos(const Tensor& x) {
  const Tensor y = as_float(x), one = number(y, 1);
  return atan2(sqrt((one - y) * (one + y)), y);
}

Tensor atan(const Tensor& x) {
  const Tensor y = as_float(x);
  return binary(Op::atan2, y, number(y, 1));
}

Tensor trunc(const Tensor& x) {
  if (checked(x, "trunc").type.dtype != DType::boolean && !is_float(x.dtype())) return x;
  const Tensor y = as_float(x);
  return where(y < number(y, 0), ceil(y), floor(y));
}

Tensor isnan(const Tensor& x) { return binary(Op::not_equal, x, x); }

Tensor isinf(const Tensor& x) {
  const Tensor y = as_float(x);
  return !(is_finite(y) | isnan(y));
}

}  // namespace systole
