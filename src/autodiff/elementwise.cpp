// Rules of elementwise ops, from the operands x, the result y and its cotangent dy.

#include <numbers>

#include "autodiff/rules.h"

#pragma GCC diagnostic error "-Wswitch"  // an op without a rule does not compile

namespace systole::autodiff {

namespace {

using namespace ops;

// Of two equal operands each gets half.
Value share(Value mine, Value other, Value dy, bool larger) {
  const Value won = where(larger ? greater(mine, other) : less(mine, other), dy);
  return add(won, where(equal(mine, other), mul(dy, scalar_like(dy, 0.5))));
}

// d/da a^b = b·a^(b-1), 0 where b is 0; d/db a^b = a^b·log a, 0 where a is 0.
Cotangents pow_rule(Value a, Value b, Value y, Value dy) {
  const Value zero = zeros_like(b), one = broadcast_to(scalar_like(b, 1), b.shape());
  const Value flat = equal(b, zero);
  const Value slope = mul(b, pow(a, select(flat, one, sub(b, one))));
  const Value base = select(equal(a, zero), one, a);
  return {mul(dy, select(flat, zero, slope)), mul(dy, mul(y, log(base)))};
}

// x inside (lo, hi) gets dy, else the bound it was moved to does.
Cotangents clamp_rule(Value lo, Value x, Value hi, Value dy) {
  const Value low = broadcast_to(lo, x.shape()), high = broadcast_to(hi, x.shape());
  const auto bound = [&](Value b, Value d) {
    if (b.rank() == x.rank()) return d;
    Ints all;
    for (int i = 0; i < x.rank(); ++i) all.push_back(i);
    return sum(d, all);
  };
  const Value above = greater(x, high);
  const Value below = bitwise_and(less(x, low), bitwise_not(less(high, low)));
  const Value inside = bitwise_not(bitwise_or(bitwise_or(above, below), less(high, low)));
  return {bound(lo, where(below, dy)), where(inside, dy),
          bound(hi, where(bitwise_or(above, less(high, low)), dy))};
}

Value truncated(Value x) { return mul(sign(x), floor(abs(x))); }

}  // namespace

Cotangents elementwise_rule(const Adjoint& a) {
  const Value x = a.x[0], y = a.y[0], dy = a.dy();
  const Value b = a.x.size() > 1 ? a.x[1] : x;
  switch (a.node.op) {
    case Op::abs: return {dy * sign(x)};
    case Op::neg: return {-dy};
    case Op::exp: return {dy * y};
    case Op::expm1: return {dy * (y + 1)};
    case Op::log: return {dy / x};
    case Op::log1p: return {dy / (x + 1)};
    case Op::sqrt: return {dy * 0.5 / y};
    case Op::rsqrt: return {dy * (y * y * y) * -0.5};
    case Op::cbrt: return {dy / (y * y * 3)};
    case Op::sin: return {dy * cos(x)};
    case Op::cos: return {-(dy * sin(x))};
    case Op::tan: return {dy * (y * y + 1)};
    case Op::tanh: return {dy * (1 - y * y)};
    case Op::logistic: return {dy * (y * (1 - y))};
    case Op::erf: return {dy * exp(-(x * x)) * (2 * std::numbers::inv_sqrtpi)};
    case Op::add: return {dy, dy};
    case Op::sub: return {dy, -dy};
    case Op::mul: return {dy * b, dy * x};
    case Op::div: return {dy / b, -(dy * y / b)};
    case Op::rem: return {dy, -(dy * truncated(x / b))};
    case Op::pow: return pow_rule(x, b, y, dy);
    case Op::max: return {share(x, b, dy, true), share(b, x, dy, true)};
    case Op::min: return {share(x, b, dy, false), share(b, x, dy, false)};
    case Op::atan2: {
      const Value square_sum = x * x + b * b;
      return {dy * b / square_sum, -(dy * x / square_sum)};
    }
    case Op::select: return {std::nullopt, where(x, dy), select(x, zeros_like(dy), dy)};
    case Op::clamp: return clamp_rule(x, b, a.x[2], dy);
    case Op::convert: return {convert(dy, x.dtype())};
    // Flat almost everywhere.
    case Op::sign:
    case Op::floor:
    case Op::ceil:
    case Op::round: return Cotangents(a.x.size());
    case Op::bitcast: a.refuse("bits have no gradient; convert changes a dtype and has one");
    case Op::is_finite:
    case Op::equal:
    case Op::not_equal:
    case Op::less:
    case Op::less_equal:
    case Op::greater:
    case Op::greater_equal: a.refuse("a bool has no gradient");
    case Op::bitwise_not:
    case Op::bitwise_and:
    case Op::bitwise_or:
    case Op::bitwise_xor:
    case Op::shift_left:
    case Op::shift_right:
    case Op::shift_right_logical: a.refuse("bits have no gradient");
#define SYSTOLE_CASE_elementwise(name)
#include "autodiff/other_ops.def"
      break;
  }
  a.refuse("it has no rule here");
}

}  // namespace systole::autodiff
