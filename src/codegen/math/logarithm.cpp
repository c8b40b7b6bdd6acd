// log, log1p and pow. The argument is m 2^n with m between sqrt(1/2) and sqrt(2): subtracting the bits of
// sqrt(1/2) puts n into the exponent field.

#include "codegen/math/texts.h"

namespace systole::codegen::math {

std::string logarithm_text() {
  return R"c(
// n ln 2 + log(1 + f) for f between sqrt(1/2) - 1 and sqrt(2) - 1.
S_FN float s_log_sum_f32(float n, float f) {
  float p = 6.749252e-02f;
  p = S_FMA(p, f, -1.16700925e-01f);
  p = S_FMA(p, f, 1.1883551e-01f);
  p = S_FMA(p, f, -1.24062344e-01f);
  p = S_FMA(p, f, 1.4220358e-01f);
  p = S_FMA(p, f, -1.6667989e-01f);
  p = S_FMA(p, f, 2.0002072e-01f);
  p = S_FMA(p, f, -2.500001e-01f);
  p = S_FMA(p, f, 3.3333313e-01f);
  float square = f * f;
  float y = S_FMA(n, -2.12194440e-4f, p * (square * f));
  y = S_FMA(square, -0.5f, y);
  return S_FMA(n, 0.693359375f, f + y);
}

S_FN float s_log_f32(float x) {
  float v = x < 1.17549435e-38f ? x * 8388608.0f : x;
  float shift = x < 1.17549435e-38f ? 23.0f : 0.0f;
  s_u32 b = s_bits_f32(v) - 0x3f3504f3u;
  float n = (float)((s_i32)b >> 23) - shift;
  float y = s_log_sum_f32(n, s_float_of_bits((b & 0x7fffffu) + 0x3f3504f3u) - 1.0f);
  float special = x < 0.0f ? s_float_of_bits(0x7fc00000u) : x;
  special = x == 0.0f ? s_float_of_bits(0xff800000u) : special;
  return ((x > 0.0f) & (x < s_float_of_bits(0x7f800000u))) ? y : special;
}

// The rounding error of 1 + x joins the reduced argument.
S_FN float s_log1p_f32(float x) {
  float u = 1.0f + x;
  float x_part = u - 1.0f;
  float error = (1.0f - (u - x_part)) + (x - x_part);
  s_u32 b = s_bits_f32(u) - 0x3f3504f3u;
  s_i32 n = (s_i32)b >> 23;
  float scale = n > 64 ? 0.0f : s_float_of_bits((s_u32)(127 - n) << 23);
  float f = S_FMA(error, scale, s_float_of_bits((b & 0x7fffffu) + 0x3f3504f3u) - 1.0f);
  float y = s_log_sum_f32((float)n, n == 0 ? x : f);
  float special = x < -1.0f ? s_float_of_bits(0x7fc00000u) : x;
  special = x == -1.0f ? s_float_of_bits(0xff800000u) : special;
  special = ((x > -1.0f) & (x < s_float_of_bits(0x7f800000u))) ? y : special;
  return x == 0.0f ? x : special;
}

// The rounding error of the product p = a b.
S_FN float s_mul_error_f32(float a, float b, float p) {
#if S_HAS_FMA
  return S_FMA(a, b, -p);
#else
  float a_high = s_float_of_bits(s_bits_f32(a) & 0xfffff000u);
  float b_high = s_float_of_bits(s_bits_f32(b) & 0xfffff000u);
  float a_low = a - a_high;
  float b_low = b - b_high;
  float error = a_high * b_high - p;
  error = error + a_high * b_low;
  error = error + a_low * b_high;
  return error + a_low * b_low;
#endif
}

// e^(y log |x|) with the logarithm and its product with y in two floats each (about 2^-40), then C's cases.
S_FN float s_pow_f32(float x, float y) {
  float a = s_abs_f32(x);
  float v = a < 1.17549435e-38f ? a * 8388608.0f : a;
  float shift = a < 1.17549435e-38f ? 23.0f : 0.0f;
  s_u32 b = s_bits_f32(v) - 0x3f3504f3u;
  float n = (float)((s_i32)b >> 23) - shift;
  float m = s_float_of_bits((b & 0x7fffffu) + 0x3f3504f3u);
  // s = (m - 1) / (m + 1); log m = 2 s + s z (2/3 + z (...)) with z = s^2.
  float f = m - 1.0f;
  float g = m + 1.0f;
  float g_low = m - (g - 1.0f);
  float inverse = S_DIV(1.0f, g);
  float s = S_MUL(f, inverse);
  float sg = S_MUL(s, g);
  float s_low = (((f - sg) - s_mul_error_f32(s, g, sg)) - S_MUL(s, g_low)) * inverse;
  float z = S_MUL(s, s);
  float z_low = S_FMA(s + s, s_low, s_mul_error_f32(s, s, z));
  float w = S_FMA(S_FMA(2.342039e-01f, z, 2.8547072e-01f), z, 4.0000153e-01f);
  w = S_MUL(w, z);
  float t = 0.666666687f + w;
  float t_low = ((0.666666687f - t) + w) - 1.98682149e-8f;
  float c = S_MUL(z, t);
  float c_low = S_FMA(z, t_low, S_FMA(z_low, t, s_mul_error_f32(z, t, c)));
  float d = S_MUL(s, c);
  float d_low = S_FMA(s, c_low, S_FMA(s_low, c, s_mul_error_f32(s, c, d)));
  float two_s = s + s;
  float h = two_s + d;
  float h_low = ((two_s - h) + d) + S_FMA(2.0f, s_low, d_low);
  // l = n ln 2 + log m; the upper part of ln 2 has 16 bits.
  float upper = S_MUL(n, 0.693145751953125f);
  float l = upper + h;
  float l_low = ((upper - l) + h) + S_FMA(n, 1.42860677e-6f, h_low);
  // The exponent; a larger y over- or underflows just as 2^32 does.
  float k = y > 4294967296.0f ? 4294967296.0f : y;
  k = k < -4294967296.0f ? -4294967296.0f : k;
  float product = S_MUL(k, l);
  float e = product > 95.0f ? 95.0f : product;
  e = e < -110.0f ? -110.0f : e;
  float e_low = e == product ? S_FMA(k, l_low, s_mul_error_f32(k, l, product)) : 0.0f;
  float rounded = S_FMA(e, 1.44269502f, 12582912.0f);
  float count = rounded - 12582912.0f;
  float r_high = S_FMA(count, -0.693359375f, e);
  float r_low = S_FMA(count, 2.12194440e-4f, e_low);
  float r = r_high + r_low;
  float tail = S_FMA(s_exp_tail_f32(r), r * r, (r_high - r) + r_low);
  float sum = 1.0f + r;
  float power = sum + (((1.0f - sum) + r) + tail);
  power = s_scale_f32(power, (s_i32)(s_bits_f32(rounded) - 0x4b400000u));
  // Zero and infinity to a power; the sign of a negative base, for which y is rounded to an integer whose
  // last bit is that of y + 2^23; what is 1 whatever the other is.
  float infinity = s_float_of_bits(0x7f800000u);
  float nan = s_float_of_bits(0x7fc00000u);
  float of_zero = y < 0.0f ? infinity : 0.0f;
  float of_infinity = y < 0.0f ? 0.0f : infinity;
  power = a == 0.0f ? of_zero : power;
  power = a == infinity ? of_infinity : power;
  float y_abs = s_abs_f32(y);
  float y_shifted = y_abs + 8388608.0f;
  s_u32 whole = (y_shifted - 8388608.0f == y_abs) | (y_abs >= 8388608.0f);
  s_u32 last = y_abs < 8388608.0f ? s_bits_f32(y_shifted) : s_bits_f32(y_abs);
  s_u32 odd = (y_abs < 16777216.0f ? whole : 0u) & last;
  power = s_float_of_bits(s_bits_f32(power) ^ (s_bits_f32(x) & (odd << 31)));
  power = ((x < 0.0f) & (a < infinity) & (whole == 0u)) ? nan : power;
  power = ((x != x) | (y != y)) ? nan : power;
  return ((y == 0.0f) | (x == 1.0f)) ? 1.0f : power;
}
)c";
}

}  // namespace systole::codegen::math
