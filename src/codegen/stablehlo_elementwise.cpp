// Elementwise ops whose corners StableHLO leaves to the implementation: division by zero, shifts beyond the
// width, conversion of floats to integers. Guards that a known operand makes needless are left out.

#include <cmath>

#include "codegen/stablehlo_emitter.h"

namespace systole::codegen::hlo {

namespace {

int width(DType dtype) { return static_cast<int>(8 * size_of(dtype)); }

// `number` everywhere, in the shape of `like`.
Value same(Emitter& e, const Value& like, std::int64_t number) { return e.splat(like.type, number); }

Value lowest(Emitter& e, const Type& type) {
  return e.splat(type, identity_text(ir::Combine::max, type.dtype, type.dtype));
}

Value highest(Emitter& e, const Type& type) {
  return e.splat(type, identity_text(ir::Combine::min, type.dtype, type.dtype));
}

// x with plain zeros for what the device takes for zero. Where denormals are flushed, some ops of XLA take
// them for zeros in one step and for numbers in the next; where they are kept, this changes nothing. By the
// sign bit, since compilers hold x·0 to be x where x is zero.
Value plain_zeros(Emitter& e, const Value& x) {
  const std::size_t size = size_of(x.type.dtype);
  const DType word = size == 8 ? DType::u64 : size == 4 ? DType::u32 : DType::u16;
  const Value bits = bitcast(e, x, word), last = same(e, bits, width(word) - 1);
  const Value sign = e.binary("shift_left", e.binary("shift_right_logical", bits, last), last);
  return e.select(e.compare("EQ", x, same(e, x, 0)), bitcast(e, sign, x.type.dtype), x);
}

bool divides_safely(const Value& b) { return b.known && *b.known != 0 && *b.known != -1; }

// A divisor without the two cases that overflow; what they give is put in by the caller.
Value safe_divisor(Emitter& e, const Value& a, const Value& b, const Value& is_zero) {
  const Value one = same(e, b, 1);
  if (!is_signed_integer(a.type.dtype)) return e.select(is_zero, one, b);
  const Value minus_one = e.compare("EQ", b, same(e, b, -1));
  const Value least = e.compare("EQ", a, lowest(e, a.type));
  const Value overflows = e.binary("or", is_zero, e.binary("and", minus_one, least));
  return e.select(overflows, one, b);
}

Value float_to_integer(Emitter& e, const Value& x, DType dtype) {
  const Type type = with_dtype(x.type, dtype);
  const bool is_signed = is_signed_integer(dtype);
  // 2^width as a float is inf where the float's range ends before the integer's.
  const double end = std::ldexp(1.0, width(dtype) - (is_signed ? 1 : 0));
  const auto bound = [&](double v) { return e.splat(x.type, number_text(x.type.dtype, v)); };
  const Value too_large = e.compare("GE", x, bound(end));
  const Value too_small = e.compare("LE", x, bound(is_signed ? -end : 0));
  Value result = e.cast(x, dtype);
  result = e.select(too_large, highest(e, type), result);
  result = e.select(too_small, lowest(e, type), result);
  const Value is_nan = e.is_nan(x);
  return e.select(is_nan, e.splat(type, std::int64_t{0}), result);
}

// a to a power that is not negative, by squaring; XLA's own looks at the low bits of the exponent only.
Value known_power(Emitter& e, Value a, std::int64_t exponent) {
  Value result = same(e, a, 1);
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = e.binary("multiply", result, a);
    if (exponent > 1) a = e.binary("multiply", a, a);
  }
  return result;
}

Value squarings(Emitter& e, const Value& a, const Value& b) {
  const Type counter{DType::i32, {}};
  const Values start{e.splat(counter, std::int64_t{0}), same(e, a, 1), a, b};
  const std::vector<Type> types{counter, a.type, a.type, b.type};
  const Region more{types, [&](const Values& v) {
                      return Values{e.compare("LT", v[0], e.splat(counter, width(a.type.dtype)))};
                    }};
  const Region step{types, [&](const Values& v) {
                      const Value one = same(e, b, 1);
                      const Value is_odd = e.compare("EQ", e.binary("and", v[3], one), one);
                      return Values{e.binary("add", v[0], e.splat(counter, std::int64_t{1})),
                                    e.select(is_odd, e.binary("multiply", v[1], v[2]), v[1]),
                                    e.binary("multiply", v[2], v[2]),
                                    e.binary("shift_right_logical", v[3], one)};
                    }};
  return e.op_with_regions("while", start, types, {}, {more, step})[1];
}

// XLA rounds f64 to f32 on the way to narrower floats, and integers too. So that the second rounding gives
// what one would give, what the first drops is kept as an odd last bit ("round to odd").
Value odd_f32(Emitter& e, const Value& x) {
  const Value nearest = e.cast(x, DType::f32), back = e.cast(nearest, DType::f64);
  const Value bits = bitcast(e, nearest, DType::u32), one = same(e, bits, 1);
  const Value size = e.unary("abs", x);
  const Value too_far = e.compare("GT", e.unary("abs", back), size);
  const Value toward_zero = e.select(too_far, e.binary("subtract", bits, one), bits);
  const Value odd = e.binary("or", toward_zero, one);
  return bitcast(e, e.select(e.compare("EQ", back, x), bits, odd), DType::f32);
}

// An integer with at most 24 significant bits, and at least the 10 that decide how bf16 rounds.
Value jammed(Emitter& e, const Value& x) {
  struct Range {
    int from, dropped;  // magnitudes of 2^from and above lose this many bits
  };
  constexpr Range kRanges[] = {{24, 13}, {37, 26}, {50, 40}};
  Value result = x;
  for (const Range& r : kRanges) {
    if (r.from >= width(x.type.dtype)) break;
    const std::int64_t end = std::int64_t{1} << r.from, unit = std::int64_t{1} << r.dropped;
    Value large = e.compare("GE", x, same(e, x, end));
    if (is_signed_integer(x.type.dtype)) large = e.binary("or", large, e.compare("LT", x, same(e, x, -end)));
    const Value low = e.binary("and", x, same(e, x, unit - 1));
    const Value lost = e.compare("NE", low, same(e, x, 0));
    const Value high = e.binary("subtract", x, low);
    const Value odd = e.select(lost, e.binary("or", high, same(e, x, unit)), high);
    result = e.select(large, odd, result);
  }
  return result;
}

}  // namespace

Value divide(Emitter& e, const Value& a, const Value& b) {
  if (is_float(a.type.dtype)) return e.arithmetic("divide", {a, b});
  if (divides_safely(b)) return e.binary("divide", a, b);
  const Value is_zero = e.compare("EQ", b, same(e, b, 0));
  const Value quotient = e.binary("divide", a, safe_divisor(e, a, b, is_zero));
  const Value all_ones = e.splat(b.type, identity_text(ir::Combine::bitwise_and, b.type.dtype, b.type.dtype));
  return e.select(is_zero, all_ones, quotient);
}

Value remainder(Emitter& e, const Value& a, const Value& b) {
  if (is_float(a.type.dtype)) return e.arithmetic("remainder", {a, b});
  if (divides_safely(b)) return e.binary("remainder", a, b);
  const Value is_zero = e.compare("EQ", b, same(e, b, 0));
  const Value rest = e.binary("remainder", a, safe_divisor(e, a, b, is_zero));
  return e.select(is_zero, a, rest);
}

// Some versions of XLA compute it as a power, some ulps off; a step of Newton's method mends that. Infinities
// and NaN are right as they are; a zero is made here, since XLA gives another number for a denormal that it
// takes for zero.
Value cube_root(Emitter& e, const Value& operand) {
  const Value x = e.cast(operand, wide(operand.type.dtype)), y = e.unary("cbrt", x);
  const Value error = e.binary("subtract", y, e.binary("divide", x, e.binary("multiply", y, y)));
  const Value better = e.binary("subtract", y, e.binary("divide", error, same(e, y, 3)));
  const Value finite = e.op("is_finite", {y}, with_dtype(y.type, DType::boolean));
  const Value root = e.select(finite, better, y), zero = same(e, x, 0);
  return e.cast(e.select(e.compare("EQ", x, zero), e.binary("multiply", x, zero), root), operand.type.dtype);
}

Value arc_tangent(Emitter& e, const Value& y, const Value& x) {
  const DType dtype = computable(y.type.dtype);
  const Value dy = plain_zeros(e, e.cast(y, dtype)), dx = plain_zeros(e, e.cast(x, dtype));
  return e.cast(e.binary("atan2", dy, dx), y.type.dtype);
}

Value power(Emitter& e, const Value& a, const Value& b) {
  if (is_float(a.type.dtype)) return e.arithmetic("power", {a, b});
  if (b.known && *b.known >= 0) return known_power(e, a, *b.known);
  if (!is_signed_integer(a.type.dtype)) return squarings(e, a, b);
  const Value zero = same(e, b, 0), one = same(e, b, 1), minus_one = same(e, b, -1);
  const Value positive = squarings(e, a, e.binary("maximum", b, zero));
  const Value is_odd = e.compare("NE", e.binary("and", b, one), zero);
  const Value unit = e.select(is_odd, minus_one, one);
  Value inverse = e.select(e.compare("EQ", a, minus_one), unit, zero);
  inverse = e.select(e.compare("EQ", a, one), one, inverse);
  return e.select(e.compare("LT", b, zero), inverse, positive);
}

Value shift(Emitter& e, ir::Op op, const Value& a, const Value& b) {
  const DType dtype = a.type.dtype;
  const bool arithmetic = op == ir::Op::shift_right && is_signed_integer(dtype);
  const char* name = op == ir::Op::shift_left ? "shift_left"
                     : arithmetic             ? "shift_right_arithmetic"
                                              : "shift_right_logical";
  if (b.known && *b.known >= 0 && *b.known < width(dtype)) return e.binary(name, a, b);
  const Value zero = same(e, b, 0), last = same(e, b, width(dtype) - 1);
  Value inside = e.compare("LE", b, last);
  if (is_signed_integer(dtype)) inside = e.binary("and", inside, e.compare("GE", b, zero));
  if (arithmetic) return e.binary(name, a, e.select(inside, b, last));
  return e.select(inside, e.binary(name, a, e.select(inside, b, zero)), zero);
}

Value compare(Emitter& e, std::string_view direction, const Value& a, const Value& b) {
  const DType dtype = computable(a.type.dtype);
  const Value x = e.cast(a, dtype), y = e.cast(b, dtype);
  return e.compare(direction, x, y);
}

Value clamp(Emitter& e, const Value& low, const Value& x, const Value& high) {
  const DType dtype = computable(x.type.dtype);
  const auto bound = [&](const Value& v) { return e.broadcast(e.cast(v, dtype), x.type.shape, {}); };
  const Value computed = e.cast(x, dtype);
  const Value raised = e.binary("maximum", computed, bound(low));
  return e.cast(e.binary("minimum", raised, bound(high)), x.type.dtype);
}

Value convert(Emitter& e, const Value& x, DType dtype) {
  const DType from = x.type.dtype;
  if (from == dtype) return x;
  if (dtype == DType::boolean) {
    const Value wide_x = e.cast(x, computable(from));
    return e.compare("NE", wide_x, same(e, wide_x, 0));
  }
  if (is_float(from) && is_integer(dtype)) return float_to_integer(e, e.cast(x, computable(from)), dtype);
  if (from == DType::f64 && is_float(dtype) && dtype != DType::f32) return e.cast(odd_f32(e, x), dtype);
  if (is_integer(from) && size_of(from) >= 4 && dtype == DType::bf16)
    return e.cast(e.cast(jammed(e, x), DType::f32), dtype);
  Value result = e.cast(x, dtype);
  if (x.known && is_integer(dtype) && *x.known >= 0 && *x.known <= 127) result.known = x.known;
  return result;
}

Value bitcast(Emitter& e, const Value& x, DType dtype) {
  if (x.type.dtype == dtype) return x;
  if (x.type.dtype == DType::boolean) return bitcast(e, e.cast(x, DType::u8), dtype);
  return e.op("bitcast_convert", {x}, with_dtype(x.type, dtype));
}

}  // namespace systole::codegen::hlo
