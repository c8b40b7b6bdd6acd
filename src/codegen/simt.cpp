#include "codegen/simt.h"

namespace systole::codegen {

namespace {

constexpr std::string_view kCuda = R"c(
#define S_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads)
#define S_RESIDENT_KERNEL(threads, groups) extern "C" __global__ void __launch_bounds__(threads, groups)
// The next kernel of a graph may come to wait at this place while this one works.
#if __CUDA_ARCH__ >= 900
#define S_BEGIN asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory")
#else
#define S_BEGIN
#endif
#define S_GLOBAL
#define S_LOCAL __shared__
#define S_PARAMETER(i) unsigned char* b##i
#define S_READ_ONLY(i) const unsigned char* __restrict__ b##i
#define S_BUFFER(i) b##i
#define S_LANE ((s_i32)threadIdx.x)
#define S_GROUP ((s_i64)blockIdx.x)
#define S_GROUPS ((s_i64)gridDim.x)
#define S_THREAD ((s_i64)blockIdx.x * blockDim.x + threadIdx.x)
#define S_STEP ((s_i64)gridDim.x * blockDim.x)
#define S_BARRIER __syncthreads()
#define S_UNROLL _Pragma("unroll")
#define S_UNROLL_SOME _Pragma("unroll 4")
#define S_UNROLL_MORE _Pragma("unroll 8")
// Neighbours at once; anywhere: where the address allows it. A program's own -D may stand before this, so names are
// ours.
template <int s_n, class s_t>
struct alignas(s_n * sizeof(s_t) < 16 ? s_n * sizeof(s_t) : 16) s_many {
  s_t at[s_n];
};
template <int s_n, class s_t>
static __device__ __forceinline__ void s_load(s_t* to, const s_t* from) {
  const s_many<s_n, s_t> all = *(const s_many<s_n, s_t>*)from;
  for (int i = 0; i < s_n; ++i) to[i] = all.at[i];
}
template <int s_n, class s_t>
static __device__ __forceinline__ void s_store(s_t* to, const s_t* from) {
  s_many<s_n, s_t> all;
  for (int i = 0; i < s_n; ++i) all.at[i] = from[i];
  *(s_many<s_n, s_t>*)to = all;
}
template <int s_n, class s_t>
static __device__ __forceinline__ void s_load_anywhere(s_t* to, const s_t* from) {
  if (((s_u64)from & (alignof(s_many<s_n, s_t>) - 1)) == 0)
    s_load<s_n>(to, from);
  else
    for (int i = 0; i < s_n; ++i) to[i] = from[i];
}
template <int s_n, class s_t>
static __device__ __forceinline__ void s_store_anywhere(s_t* to, const s_t* from) {
  if (((s_u64)to & (alignof(s_many<s_n, s_t>) - 1)) == 0)
    s_store<s_n>(to, from);
  else
    for (int i = 0; i < s_n; ++i) to[i] = from[i];
}
#define s_load4 s_load<4>
#define s_load8 s_load<8>
#define s_store4 s_store<4>
#define s_store8 s_store<8>
#define s_load4_anywhere s_load_anywhere<4>
#define s_load8_anywhere s_load_anywhere<8>
#define s_store4_anywhere s_store_anywhere<4>
#define s_store8_anywhere s_store_anywhere<8>
// 16 by 8 by 8, rounded to tf32; or with what the rounding takes as factors of their own, which is nearly f32.
static __device__ __forceinline__ void s_mma_tf32(float* sum, const unsigned* x, const unsigned* y) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
#endif
}
static __device__ __forceinline__ unsigned s_tf32(float x) {
  unsigned y = 0;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
#endif
  return y;
}
static __device__ __forceinline__ unsigned s_rest_tf32(float x, unsigned rounded) {
  const float rest = x - __uint_as_float(rounded);
  return s_tf32(rest - rest == 0.0f ? rest : 0.0f);  // of an infinity nothing
}
// Of factors and their rests; what an infinity times no rest would be is left out.
static __device__ __forceinline__ void s_mma_near_f32(float* sum, const unsigned* x, const unsigned* u,
                                                      const unsigned* y, const unsigned* v) {
  float small[4] = {0, 0, 0, 0};
  s_mma_tf32(small, u, y);
  s_mma_tf32(small, x, v);
  for (int i = 0; i < 4; ++i) sum[i] += small[i] - small[i] == 0.0f ? small[i] : 0.0f;
  s_mma_tf32(sum, x, y);
}
static __device__ __forceinline__ void s_multiply_tf32(float* sum, const float* a, const float* b) {
  unsigned x[4], y[2];
  for (int i = 0; i < 4; ++i) x[i] = s_tf32(a[i]);
  for (int i = 0; i < 2; ++i) y[i] = s_tf32(b[i]);
  s_mma_tf32(sum, x, y);
}
static __device__ __forceinline__ void s_multiply_near_f32(float* sum, const float* a, const float* b) {
  unsigned x[4], y[2], u[4], v[2];
  for (int i = 0; i < 4; ++i) u[i] = s_rest_tf32(a[i], x[i] = s_tf32(a[i]));
  for (int i = 0; i < 2; ++i) v[i] = s_rest_tf32(b[i], y[i] = s_tf32(b[i]));
  s_mma_near_f32(sum, x, u, y, v);
}
#define S_INF_F32 __int_as_float(0x7f800000)
#define S_INF_F64 __longlong_as_double(0x7ff0000000000000)
#define S_NAN_F32 __int_as_float(0x7fc00000)
#define S_NAN_F64 __longlong_as_double(0x7ff8000000000000)
)c";

constexpr std::string_view kOpenCl = R"c(
#define S_KERNEL(threads) __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void
#define S_RESIDENT_KERNEL(threads, groups) S_KERNEL(threads)
#define S_BEGIN
#define S_GLOBAL __global
#define S_LOCAL __local
#define S_PARAMETER(i) __global uchar *b##i, ulong o##i
#define S_READ_ONLY(i) __global const uchar *restrict b##i, ulong o##i
#define S_BUFFER(i) (b##i + o##i)
#define S_LANE ((s_i32)get_local_id(0))
#define S_GROUP ((s_i64)get_group_id(0))
#define S_GROUPS ((s_i64)get_num_groups(0))
#define S_THREAD ((s_i64)get_global_id(0))
#define S_STEP ((s_i64)get_global_size(0))
#define S_BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define S_UNROLL
#define S_UNROLL_SOME
#define S_UNROLL_MORE
#define s_load4(to, from) vstore4(vload4(0, from), 0, to)
#define s_store4(to, from) vstore4(vload4(0, from), 0, to)
#define s_load8(to, from) vstore8(vload8(0, from), 0, to)
#define s_store8(to, from) vstore8(vload8(0, from), 0, to)
#define s_load4_anywhere s_load4
#define s_store4_anywhere s_store4
#define s_load8_anywhere s_load8
#define s_store8_anywhere s_store8
#define S_INF_F32 INFINITY
#define S_INF_F64 ((double)INFINITY)
#define S_NAN_F32 NAN
#define S_NAN_F64 ((double)NAN)
)c";

}  // namespace

std::string_view simt_prelude(Dialect dialect) { return dialect == Dialect::cuda ? kCuda : kOpenCl; }

std::optional<Kernel> simt_kernel(const lower::Step& step, const std::string& name, Dialect dialect,
                                  const Form& form) {
  if (step.kind == lower::StepKind::special) return simt_special_kernel(step, name, dialect);
  if (step.kind != lower::StepKind::kernel) return std::nullopt;
  switch (step.group) {
    case lower::GroupKind::map: return simt_map_kernel(step, name, dialect, form);
    case lower::GroupKind::rows: return simt_rows_kernel(step, name, dialect, form);
    case lower::GroupKind::contraction:
      if (form.tf32 && dialect == Dialect::cuda && fits_tensor_cores(step))
        return simt_tensor_core_kernel(step, name);
      return simt_contraction_kernel(step, name, dialect);
    default: return std::nullopt;
  }
}

}  // namespace systole::codegen
