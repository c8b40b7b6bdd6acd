// exp and what is built on it. All reduce x = n ln 2 + r with |r| <= ln 2 / 2: ln 2 is split so that n times
// its upper part is exact, and n is rounded by adding 1.5 * 2^23, whose low bits then hold n as an integer.

#include "codegen/math/texts.h"

namespace systole::codegen::math {

std::string exponential_text() {
  return R"c(
// 2^k for -126 <= k <= 127.
S_FN float s_pow2_f32(s_i32 k) { return s_float_of_bits(((s_u32)k + 127u) << 23); }

// (e^r - 1 - r) / r^2 for |r| <= 0.35, to 2^-33.
S_FN float s_exp_tail_f32(float r) {
  float q = 1.9739725e-04f;
  q = S_FMA(q, r, 1.3935117e-03f);
  q = S_FMA(q, r, 8.333571e-03f);
  q = S_FMA(q, r, 4.1666463e-02f);
  q = S_FMA(q, r, 1.6666666e-01f);
  return S_FMA(q, r, 0.5f);
}

// y * 2^k for 0.5 < y < 2 and |k| <= 160: two factors, so that only the second rounds.
S_FN float s_scale_f32(float y, s_i32 k) {
  s_i32 halved = k >> 1;
  return y * s_pow2_f32(halved) * s_pow2_f32(k - halved);
}

S_FN float s_exp_f32(float x) {
#ifdef __CUDA_ARCH__
  return expf(x);  // a few steps around the GPU's own instruction for 2^x
#else
  float c = x > 89.0f ? 89.0f : x;
  c = c < -105.0f ? -105.0f : c;
  float t = S_FMA(c, 1.44269502f, 12582912.0f);
  float n = t - 12582912.0f;
  float r = S_FMA(n, -0.693359375f, c);
  r = S_FMA(n, 2.12194440e-4f, r);
  float q = 1.3818939e-03f;
  q = S_FMA(q, r, 8.368704e-03f);
  q = S_FMA(q, r, 4.166829e-02f);
  q = S_FMA(q, r, 1.6666521e-01f);
  q = S_FMA(q, r, 0.49999994f);
  float y = 1.0f + S_FMA(q, r * r, r);
  return s_scale_f32(y, (s_i32)(s_bits_f32(t) - 0x4b400000u));
#endif
}

// e^x for |x| <= 87, where no step can overflow.
S_FN float s_exp_near_f32(float x) {
  float t = S_FMA(x, 1.44269502f, 12582912.0f);
  float n = t - 12582912.0f;
  float r = S_FMA(n, -0.693359375f, x);
  r = S_FMA(n, 2.12194440e-4f, r);
  float y = 1.0f + S_FMA(s_exp_tail_f32(r), r * r, r);
  return y * s_float_of_bits((s_bits_f32(t) << 23) + 0x3f800000u);
}

// e^x for -87 <= x <= -1.8, to be taken from 1: of less than a sixth, a step more or less is none of the result.
S_FN float s_exp_from_one_f32(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269502f));
  return y;
#else
  return s_exp_near_f32(x);
#endif
}

// 2^n (1 + r + tail) - 1 with the sum of 2^n r and 2^n - 1 kept in two floats; halved, lest 2^128 overflow.
S_FN float s_expm1_f32(float x) {
  float c = x > 89.0f ? 89.0f : x;
  c = c < -25.0f ? -25.0f : c;
  float t = S_FMA(c, 1.44269502f, 12582912.0f);
  float n = t - 12582912.0f;
  float upper = S_FMA(n, -0.693359375f, c);
  float lower = S_MUL(n, 2.12194440e-4f);
  float r = upper + lower;
  float rest = (upper - r) + lower;
  float tail = S_FMA(s_exp_tail_f32(r), r * r, rest);
  float scale = s_pow2_f32((s_i32)(s_bits_f32(t) - 0x4b400001u));
  float a = S_MUL(scale, r);
  float b = scale - 0.5f;
  float sum = a + b;
  float b_part = sum - a;
  float error = (a - (sum - b_part)) + (b - b_part);
  float halved = sum + S_FMA(scale, tail, error);
  float magnitude = x < 0.0f ? -x : x;
  return magnitude < 2.98023224e-8f ? x : halved + halved;
}

// An odd polynomial near 0, else 1 - 2 / (e^2x + 1); on a GPU 1 - 2 e^-2x / (1 + e^-2x) by its own instructions, of
// whose steps less than half reaches a result of more than a half.
S_FN float s_tanh_f32(float x) {
  float a = s_abs_f32(x);
#ifdef __CUDA_ARCH__
  float e, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(a * -2.88539004f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + e));
  float far = S_FMA(e * -2.0f, inverse, 1.0f);
#else
  float c = a > 10.0f ? 10.0f : a;
  float far = 1.0f - 2.0f / (s_exp_near_f32(c + c) + 1.0f);
#endif
  float u = a * a;
  float p = -5.6922967e-03f;
  p = S_FMA(p, u, 2.0628167e-02f);
  p = S_FMA(p, u, -5.3736515e-02f);
  p = S_FMA(p, u, 1.3331406e-01f);
  p = S_FMA(p, u, -3.333328e-01f);
  float near = S_FMA(p, u * a, a);
  return s_copysign_f32(a < 0.625f ? near : far, x);
}

// e^-|x| never overflows, and e / (1 + e) keeps its digits where the result is small. The last line takes
// away what the rounding of 1 + e did.
S_FN float s_logistic_f32(float x) {
  float e = s_exp_f32(-s_abs_f32(x));
  float sum = 1.0f + e;
  float rest = (1.0f - sum) + e;
  float y = (x < 0.0f ? e : 1.0f) / sum;
  float inverse = x < 0.0f ? 1.0f - y : y;
  return S_FMA(-y, rest * inverse, y);
}

// An odd polynomial below 1, else 1 - e^-Q(|x|) with Q = -log(erfc).
S_FN float s_erf_f32(float x) {
  float a = s_abs_f32(x);
  float c = a > 4.0f ? 4.0f : a;
  float q = 2.1693437e-05f;
  q = S_FMA(q, c, -4.414306e-04f);
  q = S_FMA(q, c, 4.205116e-03f);
  q = S_FMA(q, c, -2.5209993e-02f);
  q = S_FMA(q, c, 1.0842171e-01f);
  q = S_FMA(q, c, 6.332166e-01f);
  q = S_FMA(q, c, 1.1295803f);
  q = S_FMA(q, c, -1.8846766e-04f);
  float far = 1.0f - s_exp_from_one_f32(-q);
  float u = a * a;
  float p = 7.806903e-05f;
  p = S_FMA(p, u, -7.997853e-04f);
  p = S_FMA(p, u, 5.187162e-03f);
  p = S_FMA(p, u, -2.6853347e-02f);
  p = S_FMA(p, u, 1.1283579e-01f);
  p = S_FMA(p, u, -3.7612626e-01f);
  p = S_FMA(p, u, 1.2837917e-01f);
  float near = S_FMA(p, a, a);
  return s_copysign_f32(a < 1.0f ? near : far, x);
}
)c";
}

}  // namespace systole::codegen::math
