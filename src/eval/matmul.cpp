// The inner loop, once per instruction set: the library is built for the oldest processor, and the widest
// registers that this one has are used. Products of f32 are exact in f64, so fused or not gives the same
// sums.

#include "eval/matmul.h"

namespace systole::eval {

namespace {

// `kLanes` elements per register; kRows × 8/kLanes accumulators.
template <class W, int kLanes, int kRows>
[[gnu::always_inline]] inline void multiply(std::int64_t rows, std::int64_t depth, const W* a,
                                            std::int64_t a_stride, const W* panel, W* c,
                                            std::int64_t c_stride) {
  typedef W Vector __attribute__((vector_size(kLanes * sizeof(W)), aligned(sizeof(W)), may_alias));
  constexpr int kVectors = kPanel / kLanes;
  static_assert(kRowTile % kRows == 0);
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const W* left = a + first * a_stride;
    Vector sums[kRows][kVectors] = {};
    for (std::int64_t k = 0; k < depth; ++k) {
      Vector b[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        b[v] = *reinterpret_cast<const Vector*>(panel + k * kPanel + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const W factor = left[r * a_stride + k];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * b[v];
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) {
        Vector* out = reinterpret_cast<Vector*>(c + (first + r) * c_stride + v * kLanes);
        *out += sums[r][v];
      }
  }
}

void multiply_baseline(std::int64_t rows, std::int64_t depth, const double* a, std::int64_t a_stride,
                       const double* panel, double* c, std::int64_t c_stride) {
  multiply<double, 2, 2>(rows, depth, a, a_stride, panel, c, c_stride);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void multiply_avx2(std::int64_t rows, std::int64_t depth, const double* a,
                                                       std::int64_t a_stride, const double* panel, double* c,
                                                       std::int64_t c_stride) {
  multiply<double, 4, 4>(rows, depth, a, a_stride, panel, c, c_stride);
}

__attribute__((target("avx512f"))) void multiply_avx512(std::int64_t rows, std::int64_t depth,
                                                        const double* a, std::int64_t a_stride,
                                                        const double* panel, double* c,
                                                        std::int64_t c_stride) {
  multiply<double, 8, 8>(rows, depth, a, a_stride, panel, c, c_stride);
}

#endif

}  // namespace

std::vector<MultiplyPanel> multiply_variants() {
  std::vector<MultiplyPanel> variants;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) variants.push_back(multiply_avx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) variants.push_back(multiply_avx2);
#endif
  variants.push_back(multiply_baseline);
  return variants;
}

void multiply_panel(std::int64_t rows, std::int64_t depth, const double* a, std::int64_t a_stride,
                    const double* panel, double* c, std::int64_t c_stride) {
  static const MultiplyPanel fastest = multiply_variants().front();
  fastest(rows, depth, a, a_stride, panel, c, c_stride);
}

void multiply_panel(std::int64_t rows, std::int64_t depth, const std::uint64_t* a, std::int64_t a_stride,
                    const std::uint64_t* panel, std::uint64_t* c, std::int64_t c_stride) {
  multiply<std::uint64_t, 2, 2>(rows, depth, a, a_stride, panel, c, c_stride);
}

}  // namespace systole::eval
