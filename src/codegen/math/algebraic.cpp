// Signs, extrema, rounding, roots and remainder of f32.

#include <string_view>

#include "codegen/math/texts.h"

namespace systole::codegen::math {

namespace {

// What f32 and f64 share.
constexpr std::string_view kAnyFloat = R"c(
S_FN $C s_neg_$T($C x) { return -x; }

S_FN $C s_sign_$T($C x) { return x > 0 ? ($C)1 : x < 0 ? ($C)-1 : x; }

// NaN if either is NaN: one in b falls through the comparison.
S_FN $C s_max_$T($C a, $C b) { return ((a > b) | (a != a)) ? a : b; }

S_FN $C s_min_$T($C a, $C b) { return ((a < b) | (a != a)) ? a : b; }

S_FN $C s_clamp_$T($C low, $C x, $C high) { return s_min_$T(s_max_$T(x, low), high); }

S_FN s_bool s_is_finite_$T($C x) { return x - x == 0; }
)c";

constexpr std::string_view kF32 = R"c(
S_FN float s_abs_f32(float x) { return s_float_of_bits(s_bits_f32(x) & 0x7fffffffu); }

// The magnitude of a value that is not negative, with the sign of `sign`.
S_FN float s_copysign_f32(float magnitude, float sign) {
  return s_float_of_bits(s_bits_f32(magnitude) | (s_bits_f32(sign) & 0x80000000u));
}

S_FN float s_sqrt_f32(float x) { return S_SQRT(x); }

S_FN float s_rsqrt_f32(float x) { return S_DIV(1.0f, S_SQRT(x)); }

// Below 2^23, adding and taking away 2^23 rounds to an integer, halves to even.
S_FN float s_round_f32(float x) {
#if S_HAS_ROUND
  return S_RINT(x);
#else
  float a = s_abs_f32(x);
  float rounded = (a + 8388608.0f) - 8388608.0f;
  return s_copysign_f32(a < 8388608.0f ? rounded : a, x);
#endif
}

S_FN float s_floor_f32(float x) {
#if S_HAS_ROUND
  return S_FLOOR(x);
#else
  float rounded = s_round_f32(x);
  return rounded > x ? rounded - 1.0f : rounded;
#endif
}

S_FN float s_ceil_f32(float x) {
#if S_HAS_ROUND
  return S_CEIL(x);
#else
  return -s_floor_f32(-x);
#endif
}

// A guess from a third of the bits, then Halley's step twice; before the second the guess is cut to 12
// bits, so that its square is exact. The scale keeps 2 y^3 finite and denormals normal.
S_FN float s_cbrt_f32(float x) {
  float a = s_abs_f32(x);
  float v = a < 1.0f ? a * 16777216.0f : a * 5.96046448e-8f;
  float y = s_float_of_bits(s_bits_f32(v) / 3u + 709921077u);
  float cube = y * y * y;
  y = y * (S_FMA(2.0f, v, cube) / S_FMA(2.0f, cube, v));
  y = s_float_of_bits(s_bits_f32(y) & 0xfffff000u);
  cube = S_MUL(y * y, y);
  y = S_FMA(y, (v - cube) / S_FMA(2.0f, cube, v), y);
  y = a < 1.0f ? y * 0.00390625f : y * 256.0f;
  return ((a > 0.0f) & (a < s_float_of_bits(0x7f800000u))) ? s_copysign_f32(y, x) : x;
}

// Exact: long division of the mantissas, 40 bits at a time.
S_FN float s_rem_f32(float x, float y) {
  s_u32 x_bits = s_bits_f32(x) & 0x7fffffffu;
  s_u32 y_bits = s_bits_f32(y) & 0x7fffffffu;
  if (x_bits >= 0x7f800000u || y_bits > 0x7f800000u || y_bits == 0u) return s_float_of_bits(0x7fc00000u);
  if (x_bits < y_bits) return x;
  s_u32 x_exponent = x_bits < 0x800000u ? 1u : x_bits >> 23;
  s_u32 y_exponent = y_bits < 0x800000u ? 1u : y_bits >> 23;
  s_u32 divisor = y_bits < 0x800000u ? y_bits : (y_bits & 0x7fffffu) | 0x800000u;
  s_u32 r = (x_bits < 0x800000u ? x_bits : (x_bits & 0x7fffffu) | 0x800000u) % divisor;
  s_u32 shift = x_exponent - y_exponent;
  while (shift != 0u && r != 0u) {
    s_u32 step = shift < 40u ? shift : 40u;
    r = (s_u32)(((s_u64)r << step) % divisor);
    shift -= step;
  }
  // r 2^(y_exponent - 150), in two exact factors.
  s_u32 lower = y_exponent >> 1;
  float scaled = (float)r * s_float_of_bits((lower + 52u) << 23);
  return s_copysign_f32(scaled * s_float_of_bits((y_exponent - lower + 52u) << 23), x);
}
)c";

}  // namespace

std::string algebraic_text() {
  std::string text(kF32);
  text += filled(kAnyFloat, {{"$T", "f32"}, {"$C", "float"}});
  text += filled(kAnyFloat, {{"$T", "f64"}, {"$C", "double"}});
  return text;
}

}  // namespace systole::codegen::math
