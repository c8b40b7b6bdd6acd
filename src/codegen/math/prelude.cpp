// What differs between the dialects: types, inlining, bit casts, rounding and fused operations.

#include "codegen/math/math.h"

namespace systole::codegen::math {

namespace {

constexpr std::string_view kC = R"c(// Arithmetic of kernels, in C.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=off")
#endif
typedef signed char s_i8;
typedef short s_i16;
typedef int s_i32;
typedef long long s_i64;
typedef unsigned char s_u8;
typedef unsigned short s_u16;
typedef unsigned int s_u32;
typedef unsigned long long s_u64;
typedef unsigned char s_bool;
#define S_FN static inline __attribute__((always_inline, unused))
#define S_LIBM(name) __builtin_##name
S_FN s_u32 s_bits_f32(float x) {
  s_u32 bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
S_FN float s_float_of_bits(s_u32 bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
S_FN s_u64 s_bits_f64(double x) {
  s_u64 bits;
  __builtin_memcpy(&bits, &x, 8);
  return bits;
}
S_FN double s_double_of_bits(s_u64 bits) {
  double x;
  __builtin_memcpy(&x, &bits, 8);
  return x;
}
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__AVX512F__)
#define S_HAS_FMA 1
#define S_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define S_FMA_F64(a, b, c) __builtin_fma(a, b, c)
#else
#define S_HAS_FMA 0
#define S_FMA(a, b, c) ((a) * (b) + (c))
#define S_FMA_F64(a, b, c) ((a) * (b) + (c))
#endif
// The larger and the smaller of two f32, NaN where one is.
#define S_MAX(a, b) ((b) != (b) ? (b) : (b) > (a) ? (b) : (a))
#define S_MIN(a, b) ((b) != (b) ? (b) : (b) < (a) ? (b) : (a))
#define S_BRANCHES 0
#define S_MUL(a, b) ((a) * (b))
#define S_DIV(a, b) ((a) / (b))
#if defined(__clang__) && defined(__has_builtin)
#if __has_builtin(__builtin_elementwise_sqrt)
#define S_SQRT(x) __builtin_elementwise_sqrt(x)
#define S_SQRT_F64(x) __builtin_elementwise_sqrt(x)
#endif
#endif
#ifndef S_SQRT
#define S_SQRT(x) __builtin_sqrtf(x)
#define S_SQRT_F64(x) __builtin_sqrt(x)
#endif
#if defined(__SSE4_1__) || !defined(__x86_64__)
#define S_HAS_ROUND 1
#define S_FLOOR(x) __builtin_floorf(x)
#define S_CEIL(x) __builtin_ceilf(x)
#define S_RINT(x) __builtin_rintf(x)
#else
#define S_HAS_ROUND 0
#endif
)c";

constexpr std::string_view kCuda = R"c(// Arithmetic of kernels, in CUDA C++.
typedef signed char s_i8;
typedef short s_i16;
typedef int s_i32;
typedef long long s_i64;
typedef unsigned char s_u8;
typedef unsigned short s_u16;
typedef unsigned int s_u32;
typedef unsigned long long s_u64;
typedef unsigned char s_bool;
#define S_FN static __device__ __forceinline__
#define S_LIBM(name) name
#define s_bits_f32(x) __float_as_uint(x)
#define s_float_of_bits(x) __uint_as_float(x)
#define s_bits_f64(x) ((s_u64)__double_as_longlong(x))
#define s_double_of_bits(x) __longlong_as_double((s_i64)(x))
#define S_HAS_FMA 1
#define S_FMA(a, b, c) __fmaf_rn(a, b, c)
#define S_FMA_F64(a, b, c) __fma_rn(a, b, c)
// The larger and the smaller of two f32, NaN where one is: one instruction from sm_80 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
S_FN float S_MAX(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
S_FN float S_MIN(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#else
#define S_MAX(a, b) ((b) != (b) ? (b) : (b) > (a) ? (b) : (a))
#define S_MIN(a, b) ((b) != (b) ? (b) : (b) < (a) ? (b) : (a))
#endif
#define S_BRANCHES 1
#define S_MUL(a, b) __fmul_rn(a, b)
#define S_DIV(a, b) __fdiv_rn(a, b)
#define S_SQRT(x) __fsqrt_rn(x)
#define S_SQRT_F64(x) __dsqrt_rn(x)
#define S_HAS_ROUND 1
#define S_FLOOR(x) floorf(x)
#define S_CEIL(x) ceilf(x)
#define S_RINT(x) rintf(x)
)c";

constexpr std::string_view kOpenCl = R"c(// Arithmetic of kernels, in OpenCL C 1.2.
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef char s_i8;
typedef short s_i16;
typedef int s_i32;
typedef long s_i64;
typedef uchar s_u8;
typedef ushort s_u16;
typedef uint s_u32;
typedef ulong s_u64;
typedef uchar s_bool;
#define S_FN static inline
#define S_LIBM(name) name
#define s_bits_f32(x) as_uint(x)
#define s_float_of_bits(x) as_float(x)
#define s_bits_f64(x) as_ulong(x)
#define s_double_of_bits(x) as_double((ulong)(x))
#ifdef FP_FAST_FMAF
#define S_HAS_FMA 1
#define S_FMA(a, b, c) fma(a, b, c)
#else
#define S_HAS_FMA 0
#define S_FMA(a, b, c) ((a) * (b) + (c))
#endif
#define S_FMA_F64(a, b, c) fma(a, b, c)
// The larger and the smaller of two f32, NaN where one is.
#define S_MAX(a, b) ((b) != (b) ? (b) : (b) > (a) ? (b) : (a))
#define S_MIN(a, b) ((b) != (b) ? (b) : (b) < (a) ? (b) : (a))
#define S_BRANCHES S_HAS_FMA
#define S_MUL(a, b) ((a) * (b))
#define S_DIV(a, b) ((a) / (b))
#define S_SQRT(x) sqrt(x)
#define S_SQRT_F64(x) sqrt(x)
#define S_HAS_ROUND 1
#define S_FLOOR(x) floor(x)
#define S_CEIL(x) ceil(x)
#define S_RINT(x) rint(x)
)c";

}  // namespace

std::string prelude(Dialect dialect) {
  switch (dialect) {
    case Dialect::c: return std::string(kC);
    case Dialect::cuda: return std::string(kCuda);
    case Dialect::opencl: return std::string(kOpenCl);
  }
  __builtin_unreachable();
}

}  // namespace systole::codegen::math
