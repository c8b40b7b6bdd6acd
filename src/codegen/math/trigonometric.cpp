// sin, cos, tan and atan2. The argument is reduced by multiplying its 24 bits with the 96 bits of 2/pi that
// matter for its exponent, in integers: exact over the whole range, without branches or FMA, so one path
// serves small and huge arguments and vectorises. Where threads branch by themselves, small ones go a shorter
// way.

#include "codegen/math/texts.h"

namespace systole::codegen::math {

std::string trigonometric_text() {
  return R"c(
// |x| = (quadrant + fraction) pi/2 modulo 2 pi with |fraction| <= 1/2: returns fraction pi/2, its rounding
// error in *rest and the quadrant in *quadrant.
S_FN float s_reduce_f32(float x, float* rest, s_u32* quadrant) {
  s_u32 bits = s_bits_f32(x) & 0x7fffffffu;
#if S_BRANCHES
  if (bits < 0x47c90000u) {
    // Below 2^16 pi/2: the nearest multiple of pi/2 in three parts, the first product exact.
    float magnitude = s_float_of_bits(bits);
    float t = S_FMA(magnitude, 0.636619747f, 12582912.0f);
    float n = t - 12582912.0f;
    float first = S_FMA(n, -1.57079637f, magnitude);
    float second = S_MUL(n, 4.37113883e-8f);
    float near = first + second;
    float part = near - first;
    float error = (first - (near - part)) + (second - part);
    *rest = error + S_FMA(n, 1.7151245e-15f, s_mul_error_f32(n, 4.37113883e-8f, second));
    *quadrant = s_bits_f32(t) & 3u;
    return near;
  }
#endif
  s_u32 m = (bits & 0x7fffffu) | 0x800000u;
  // The window starts at bit `start` of 0x00000000.a2f9836e 4e441529 ...
  s_u32 start = (bits >> 23) - 120u;
  // Whole words by the bits of start / 32, which is at most 4: first by 4, then by 2, then by 1.
  s_u32 by4 = start & 128u, by2 = start & 64u, by1 = start & 32u;
  s_u32 w0 = by4 != 0u ? 0xf534ddc0u : 0u;
  s_u32 w1 = by4 != 0u ? 0xdb629599u : 0xa2f9836eu;
  s_u32 w2 = by4 != 0u ? 0x3c439041u : 0x4e441529u;
  s_u32 w3 = by4 != 0u ? 0xfe5163abu : 0xfc2757d1u;
  w0 = by2 != 0u ? 0x4e441529u : w0;
  w1 = by2 != 0u ? 0xfc2757d1u : w1;
  w2 = by2 != 0u ? 0xf534ddc0u : w2;
  w3 = by2 != 0u ? 0xdb629599u : w3;
  s_u32 w4 = by2 != 0u ? 0x3c439041u : 0xf534ddc0u;
  w0 = by1 != 0u ? w1 : w0;
  w1 = by1 != 0u ? w2 : w1;
  w2 = by1 != 0u ? w3 : w2;
  w3 = by1 != 0u ? w4 : w3;
  s_u32 left = start & 31u;
  s_u32 right = 31u - left;
  w0 = (w0 << left) | ((w1 >> 1) >> right);
  w1 = (w1 << left) | ((w2 >> 1) >> right);
  w2 = (w2 << left) | ((w3 >> 1) >> right);
  s_u64 middle = (s_u64)m * w1 + (((s_u64)m * w2) >> 32);
  s_u32 high = m * w0 + (s_u32)(middle >> 32);
  s_u32 low = (s_u32)middle;
  // high:low is |x| 2/pi modulo 4 in units of 2^-62; the fraction's magnitude becomes 24 and 31 bits of it.
  s_u32 upper = (high << 2) | (low >> 30);
  s_u32 negative = 0u - (upper >> 31);
  upper = upper ^ negative;
  s_u32 lower = ((upper & 255u) << 23) | (((low ^ negative) << 2) >> 9);
  float a = (float)(s_i32)(upper >> 8) * 5.96046448e-8f;
  float b = (float)(s_i32)lower * 2.77555756e-17f;
  float v = a + b;
  float v_low = (a - v) + b;
  float r = S_MUL(v, 1.57079637f);
  float r_low = s_mul_error_f32(v, 1.57079637f, r) + S_FMA(v, -4.37113883e-8f, v_low * 1.57079637f);
  s_u32 small = bits < 0x3f490fdbu;
  s_u32 sign = negative & 0x80000000u;
  *rest = small ? 0.0f : s_float_of_bits(s_bits_f32(r_low) ^ sign);
  *quadrant = small ? 0u : (high + 0x20000000u) >> 30;
  return s_float_of_bits(small ? bits : s_bits_f32(r) ^ sign);
}

// sin(r + rest) for |r| <= pi/4, without its first term r.
S_FN float s_sin_tail_f32(float r, float rest) {
  float z = r * r;
  float p = S_FMA(S_FMA(-1.9518276e-04f, z, 8.332189e-03f), z, -1.6666655e-01f);
  return S_FMA(z * r, p, S_FMA(z * -0.5f, rest, rest));
}

// cos(r + rest) for |r| <= pi/4, without its first terms first = 1 - r^2 / 2.
S_FN float s_cos_tail_f32(float r, float rest, float first) {
  float z = S_MUL(r, r);
  float p = S_FMA(S_FMA(2.4432327e-05f, z, -1.388731e-03f), z, 4.1666646e-02f);
  float error = (1.0f - first) - 0.5f * z;
  return S_FMA(z * z, p, S_FMA(-r, rest, error));
}

// sin(|x| + turn pi/2), its sign flipped by `sign`; NaN at infinity.
S_FN float s_sin_turned_f32(float x, s_u32 turn, s_u32 sign) {
  float rest;
  s_u32 quadrant;
  float r = s_reduce_f32(x, &rest, &quadrant);
  quadrant = quadrant + turn;
  float first = 1.0f - 0.5f * S_MUL(r, r);
  float cosine = first + s_cos_tail_f32(r, rest, first);
  float sine = r + s_sin_tail_f32(r, rest);
  float y = (quadrant & 1u) != 0u ? cosine : sine;
  y = s_float_of_bits(s_bits_f32(y) ^ ((quadrant & 2u) << 30) ^ sign);
  return s_abs_f32(x) < s_float_of_bits(0x7f800000u) ? y : s_float_of_bits(0x7fc00000u);
}

S_FN float s_sin_f32(float x) { return s_sin_turned_f32(x, 0u, s_bits_f32(x) & 0x80000000u); }

S_FN float s_cos_f32(float x) { return s_sin_turned_f32(x, 1u, 0u); }

// The quotient of sin and cos, corrected by what each lost in rounding.
S_FN float s_tan_f32(float x) {
  float rest;
  s_u32 quadrant;
  float r = s_reduce_f32(x, &rest, &quadrant);
  float first = 1.0f - 0.5f * S_MUL(r, r);
  float cos_tail = s_cos_tail_f32(r, rest, first);
  float sin_tail = s_sin_tail_f32(r, rest);
  float cosine = first + cos_tail;
  float sine = r + sin_tail;
  float cos_low = (first - cosine) + cos_tail;
  float sin_low = (r - sine) + sin_tail;
  s_u32 odd = quadrant & 1u;
  float over = odd != 0u ? cosine : sine;
  float under = odd != 0u ? sine : cosine;
  float over_low = odd != 0u ? cos_low : sin_low;
  float under_low = odd != 0u ? sin_low : cos_low;
  float y = S_DIV(over, under);
  y = y + S_FMA(-y, under_low, over_low) / under;
  y = s_float_of_bits(s_bits_f32(y) ^ (odd << 31) ^ (s_bits_f32(x) & 0x80000000u));
  return s_abs_f32(x) < s_float_of_bits(0x7f800000u) ? y : s_float_of_bits(0x7fc00000u);
}

// The angle below pi/4 from the ratio of the smaller to the larger, then the octant.
S_FN float s_atan2_f32(float y, float x) {
  float y_abs = s_abs_f32(y);
  float x_abs = s_abs_f32(x);
  float larger = y_abs > x_abs ? y_abs : x_abs;
  float smaller = y_abs > x_abs ? x_abs : y_abs;
  float t = smaller == larger ? 1.0f : S_DIV(smaller, larger);
  t = smaller == 0.0f ? 0.0f : t;
  float u = t * t;
  float p = -1.7827674e-03f;
  p = S_FMA(p, u, 1.0868547e-02f);
  p = S_FMA(p, u, -3.1096855e-02f);
  p = S_FMA(p, u, 5.7881337e-02f);
  p = S_FMA(p, u, -8.3993055e-02f);
  p = S_FMA(p, u, 1.09508805e-01f);
  p = S_FMA(p, u, -1.4264016e-01f);
  p = S_FMA(p, u, 1.999853e-01f);
  p = S_FMA(p, u, -3.33333e-01f);
  float r = S_FMA(p, u * t, t);
  r = y_abs > x_abs ? 1.57079637f - (r + 4.37113883e-8f) : r;
  r = (s_bits_f32(x) >> 31) != 0u ? 3.14159274f - (r + 8.74227766e-8f) : r;
  r = ((x != x) | (y != y)) ? s_float_of_bits(0x7fc00000u) : r;
  return s_copysign_f32(r, y);
}
)c";
}

}  // namespace systole::codegen::math
