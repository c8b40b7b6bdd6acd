// A cluster of blocks has eight rows of the batch and goes through all steps without another launch. Each
// block has 32 hidden units, with the four gates' weights of these in its registers as operands of the tensor
// cores (tf32), for the whole sequence; states are in registers too. What a step needs of the other blocks'
// units goes straight to their shared memory, and one barrier of the cluster stands between two steps.
//
// Forwards a block needs every h of the rows and makes those of its units. Backwards it makes the gradients
// of its units' gates, and of those its share of every dh, which goes to the block that has the unit.
//
// Both ways a lane has the cell of one unit and one row. Products are m16n8k8: weights are the left operand,
// the rows of the batch the right one. A depth is taken in another order than it is counted, the same on both
// sides, so that a lane reads four neighbours at a time.

#include "backend/cuda/lstm_text.h"

#include <fmt/format.h>

#include <utility>

namespace systole::cuda {

namespace {

constexpr std::string_view kHead = R"cuda(
enum { kT = $T, kB = $B, kH = $H, kBlocks = kH / 32, kWide = kH + 16, kGates = 4 * kH };

static __device__ __forceinline__ unsigned s_tf32(float x) {
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
static __device__ __forceinline__ void s_mma(float* sum, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                             unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The address of this block's shared memory in another block of the cluster.
static __device__ __forceinline__ unsigned s_in_block(const void* at, unsigned block) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(there)
               : "r"((unsigned)__cvta_generic_to_shared(at)), "r"(block));
  return there;
}
static __device__ __forceinline__ void s_store_there(unsigned there, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(there), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
static __device__ __forceinline__ void s_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
static __device__ __forceinline__ void s_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// To a few units in the last place.
static __device__ __forceinline__ float s_logistic(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
static __device__ __forceinline__ float s_tanh(float x) {
  const float s = x * x;
  const float near = x + x * s * (-0.333333333f + s * (0.133333333f + s * (-0.0539682540f + s * 0.0218694885f)));
  const float far = 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x));
  return s < 0.1f ? near : far;
}
)cuda";

constexpr std::string_view kForward = R"cuda(
extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(256, 1)
$NAME(const float* __restrict__ gates_of_x, const float* __restrict__ bias, const float* __restrict__ h0,
      const float* __restrict__ c0, const float* __restrict__ r, float* __restrict__ y, float* __restrict__ h_last,
      float* __restrict__ c_last$KEPT) {
  __shared__ __align__(16) unsigned states[2][8][kWide];  // h of all units, as tf32; of two steps
  const int rank = blockIdx.x % kBlocks, first = blockIdx.x / kBlocks * 8;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, eighth = lane / 4, quarter = lane % 4;
  // The cell of this lane: its unit and its row.
  const int odd = eighth % 2, unit = rank * 32 + warp * 4 + eighth / 2, row = first + 2 * quarter + odd;
  const bool active = row < kB;

  // Rows of the left operand: eighth and eighth + 8 are the gates i and f of a unit, or g and o.
  unsigned weights[kH / 16][8];
  {
    const float* const low = r + ((odd ? 2 : 0) * kH + unit) * kH + 4 * quarter;
    const float* const high = low + kH * kH;
#pragma unroll
    for (int j = 0; j < kH / 16; ++j) {
      const float4 a = *(const float4*)(low + 16 * j), b = *(const float4*)(high + 16 * j);
      weights[j][0] = s_tf32(a.x);
      weights[j][1] = s_tf32(b.x);
      weights[j][2] = s_tf32(a.y);
      weights[j][3] = s_tf32(b.y);
      weights[j][4] = s_tf32(a.z);
      weights[j][5] = s_tf32(b.z);
      weights[j][6] = s_tf32(a.w);
      weights[j][7] = s_tf32(b.w);
    }
  }
  for (int i = threadIdx.x; i < 8 * kH; i += 256) {
    const int n = i / kH, k = i % kH;
    const float h = first + n < kB ? h0[(first + n) * kH + k] : 0.0f;
    states[0][n][k] = s_tf32(h);
#if $KEEPS
    if (first + n < kB && k / 32 == rank) y[(first + n) * kH + k] = h;
#endif
  }
  float c = active ? c0[row * kH + unit] : 0.0f, h = 0.0f;
#if $KEEPS
  if (active) cells[row * kH + unit] = c;
#endif
  float own_bias[4], next[4];
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    own_bias[g] = bias[g * kH + unit];
    next[g] = active ? gates_of_x[(long long)row * kGates + g * kH + unit] : 0.0f;
  }
  s_arrive();
  s_wait();

  for (int t = 0; t < kT; ++t) {
    float x[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      x[g] = next[g] + own_bias[g];
      if (active && t + 1 < kT) next[g] = gates_of_x[((long long)(t + 1) * kB + row) * kGates + g * kH + unit];
    }
    float sum[4][4] = {};
    const unsigned* const state = &states[t % 2][eighth][4 * quarter];
#pragma unroll
    for (int j = 0; j < kH / 16; ++j) {
      const uint4 b = *(const uint4*)(state + 16 * j);
      const unsigned* const w = weights[j];
      s_mma(sum[2 * j % 4], w[0], w[1], w[2], w[3], b.x, b.y);
      s_mma(sum[(2 * j + 1) % 4], w[4], w[5], w[6], w[7], b.z, b.w);
    }
    float d[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) d[e] = (sum[0][e] + sum[1][e]) + (sum[2][e] + sum[3][e]);
    // Rows 2·quarter and 2·quarter + 1 of the batch: a lane keeps one and has the other two gates of it from its neighbour.
    const float other0 = __shfl_xor_sync(0xffffffffu, odd ? d[0] : d[1], 4);
    const float other1 = __shfl_xor_sync(0xffffffffu, odd ? d[2] : d[3], 4);
    const float i = s_logistic(x[0] + (odd ? other0 : d[0])), f = s_logistic(x[1] + (odd ? other1 : d[2]));
    const float g = s_tanh(x[2] + (odd ? d[1] : other0)), o = s_logistic(x[3] + (odd ? d[3] : other1));
    c = f * c + i * g;
    h = o * s_tanh(c);

    // Four units of a row together, to every block.
    const unsigned mine = s_tf32(h);
    const int n = lane % 8, from = 4 * (n % 2) + n / 2;
    unsigned four[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) four[u] = __shfl_sync(0xffffffffu, mine, from + 8 * u);
    const void* const place = &states[(t + 1) % 2][n][rank * 32 + warp * 4];
#pragma unroll
    for (int block = 0; block < kBlocks; block += 4)
      if (block + lane / 8 < kBlocks)
        s_store_there(s_in_block(place, block + lane / 8), four[0], four[1], four[2], four[3]);
    s_arrive();
    if (active) {
#if $KEEPS
      const long long at = (long long)t * kB + row;
      y[(at + kB) * kH + unit] = h;
      cells[(at + kB) * kH + unit] = c;
      float* const kept = gates + at * kGates + unit;
      kept[0] = i;
      kept[kH] = f;
      kept[2 * kH] = g;
      kept[3 * kH] = o;
#else
      y[((long long)t * kB + row) * kH + unit] = h;
#endif
    }
    s_wait();
  }
  if (active) {
    h_last[row * kH + unit] = h;
    c_last[row * kH + unit] = c;
  }
}
)cuda";

constexpr std::string_view kBackward = R"cuda(
extern "C" __global__ void __cluster_dims__(kBlocks, 1, 1) __launch_bounds__(256, 1)
$NAME(const float* __restrict__ grad_y, const float* __restrict__ grad_h, const float* __restrict__ grad_c,
      const float* __restrict__ gates, const float* __restrict__ cells, const float* __restrict__ r,
      float* __restrict__ grad_h0, float* __restrict__ grad_c0, float* __restrict__ grad_gates) {
  enum { kDeep = 128 + 16 };
  __shared__ __align__(16) unsigned own[8][kDeep];                      // gradients of the block's gates, as tf32
  __shared__ __align__(16) float shares[2][kBlocks][2][32][4];          // of dh, from every block; of two steps
  const int rank = blockIdx.x % kBlocks, first = blockIdx.x / kBlocks * 8;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, eighth = lane / 4, quarter = lane % 4;
  const int odd = eighth % 2, local = warp * 4 + eighth / 2, unit = rank * 32 + local;
  const int n = 2 * quarter + odd, row = first + n;
  const bool active = row < kB;

  // The left operand's rows are 32 units of block `warp`, in two parts; its depth are this block's gates and units.
  unsigned weights[2][8][8];
  if (warp < kBlocks) {
#pragma unroll
    for (int part = 0; part < 2; ++part)
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int deep = 16 * j + 4 * quarter + e;  // gate · 32 + unit
          const float* const at = r + ((deep / 32) * kH + rank * 32 + deep % 32) * kH + warp * 32 + part * 16 + eighth;
          weights[part][j][2 * e] = s_tf32(at[0]);
          weights[part][j][2 * e + 1] = s_tf32(at[8]);
        }
  }
  float dh = 0.0f, dc = 0.0f, c_next = 0.0f;  // c_next: after the step
  float dy = 0.0f, kept[4] = {}, c = 0.0f;
  const auto fetch = [&](int t) {
    const long long at = (long long)t * kB + row;
    dy = grad_y[at * kH + unit];
    c = cells[at * kH + unit];
#pragma unroll
    for (int g = 0; g < 4; ++g) kept[g] = gates[at * kGates + g * kH + unit];
  };
  if (active) {
    dh = grad_h[row * kH + unit];
    dc = grad_c[row * kH + unit];
    c_next = cells[((long long)kT * kB + row) * kH + unit];
    fetch(kT - 1);
  }
  s_arrive();
  s_wait();

  for (int t = kT - 1; t >= 0; --t) {
    const float i = kept[0], f = kept[1], g = kept[2], o = kept[3], before = c, bent = s_tanh(c_next);
    dh += dy;
    c_next = c;
    if (active && t > 0) fetch(t - 1);
    dc += dh * o * (1.0f - bent * bent);
    float d[4];
    d[0] = dc * g * (i * (1.0f - i));
    d[1] = dc * before * (f * (1.0f - f));
    d[2] = dc * i * (1.0f - g * g);
    d[3] = dh * bent * (o * (1.0f - o));
    dc *= f;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) own[n][gate * 32 + local] = s_tf32(d[gate]);
    __syncthreads();
    if (warp < kBlocks) {
      float sum[2][2][4] = {};
      const unsigned* const right = &own[eighth][4 * quarter];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const uint4 b = *(const uint4*)(right + 16 * j);
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const unsigned* const w = weights[part][j];
          s_mma(sum[part][0], w[0], w[1], w[2], w[3], b.x, b.y);
          s_mma(sum[part][1], w[4], w[5], w[6], w[7], b.z, b.w);
        }
      }
#pragma unroll
      for (int part = 0; part < 2; ++part)
        s_store_there(s_in_block(&shares[t % 2][rank][part][lane][0], warp),
                      __float_as_uint(sum[part][0][0] + sum[part][1][0]), __float_as_uint(sum[part][0][1] + sum[part][1][1]),
                      __float_as_uint(sum[part][0][2] + sum[part][1][2]), __float_as_uint(sum[part][0][3] + sum[part][1][3]));
    }
    s_arrive();
    if (active) {
      float* const to = grad_gates + ((long long)t * kB + row) * kGates + unit;
#pragma unroll
      for (int gate = 0; gate < 4; ++gate) to[gate * kH] = d[gate];
    }
    s_wait();
    // Where the lanes of the others have this cell's unit and row.
    const float* const share = &shares[t % 2][0][local / 16][local % 8 * 4 + quarter][local / 8 % 2 * 2 + odd];
    dh = 0.0f;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) dh += share[block * 256];
  }
  if (active) {
    grad_h0[row * kH + unit] = dh;
    grad_c0[row * kH + unit] = dc;
  }
}
)cuda";

void replace(std::string& text, std::string_view word, const std::string& by) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
}

}  // namespace

std::int64_t lstm_blocks(const patterns::LstmLoop& loop) {
  return (loop.batch + 7) / 8 * (loop.hidden / kLstmUnits);
}

std::string lstm_loop_text(const patterns::LstmLoop& loop, const std::string& name) {
  std::string text = std::string(kHead) + std::string(loop.is_grad ? kBackward : kForward);
  replace(text, "$NAME", name);
  replace(text, "$KEPT", loop.keeps ? ", float* __restrict__ gates, float* __restrict__ cells" : "");
  replace(text, "$KEEPS", loop.keeps ? "1" : "0");
  replace(text, "$T", std::to_string(loop.length));
  replace(text, "$B", std::to_string(loop.batch));
  replace(text, "$H", std::to_string(loop.hidden));
  return text;
}

}  // namespace systole::cuda
