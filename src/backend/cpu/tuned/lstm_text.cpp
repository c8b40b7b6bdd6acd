// Both ways a step is a product of a few rows with r, then or before work on each hidden unit. r is packed in
// panels of four vectors for each depth: forwards the four gates of as many units as a vector has lanes, so
// that a unit's gates come out together; backwards neighbouring columns. A panel's products have their sums
// in registers, up to six rows by four vectors, in the order of the depth whatever the number of rows.

#include "backend/cpu/tuned/lstm_text.h"

#include <fmt/format.h>

#include "codegen/math/texts.h"

namespace systole::cpu {

namespace {

constexpr std::int64_t kUnits = 16;    // a multiple of any vector's lanes
constexpr std::int64_t kColumns = 64;  // of the widest panel

std::int64_t rounded_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// Hidden units or, backwards, rows of r. One row of the batch is one thread's, who then has r in its cache.
std::int64_t in_pack_item(const LstmLoop& loop) {
  if (loop.is_grad) return loop.batch == 1 ? 4 * loop.hidden : 1;
  return loop.batch == 1 ? rounded_up(loop.hidden, kUnits) : kUnits;
}

constexpr std::string_view kVector = R"c(
#ifndef S_LSTM_VECTOR
#define S_LSTM_VECTOR
typedef float s_lstm_vector __attribute__((vector_size(S_VECTOR_BYTES), aligned(4), may_alias));
// Sums of a long depth are made of runs, for their precision.
enum { kLstmLanes = S_VECTOR_BYTES / 4, kLstmRows = S_VECTOR_BYTES == 64 ? 6 : 3, kLstmRun = 512 };
#endif
)c";

// Once in a source for each depth: rows by a panel.
constexpr std::string_view kProduct = R"c(
#ifndef S_LSTM_ROWS
#define S_LSTM_ROWS(ROWS, DEPTH)                                                                             \
  S_FUSING static void s_lstm_##DEPTH##_rows##ROWS(float* tile, const float* left, const float* panel) {     \
    S_FUSED                                                                                                  \
    for (s_i32 run = 0; run < DEPTH; run += kLstmRun) {                                                      \
      s_lstm_vector sum[ROWS][4] = {{{0}}};                                                                  \
      for (s_i32 d = run; d < DEPTH && d < run + kLstmRun; ++d) {                                            \
        const s_lstm_vector* const right = (const s_lstm_vector*)(panel + d * 4 * kLstmLanes);               \
        const s_lstm_vector r0 = right[0], r1 = right[1], r2 = right[2], r3 = right[3];                      \
        for (int i = 0; i < ROWS; ++i) {                                                                     \
          const float x = left[i * DEPTH + d];                                                               \
          sum[i][0] += x * r0;                                                                               \
          sum[i][1] += x * r1;                                                                               \
          sum[i][2] += x * r2;                                                                               \
          sum[i][3] += x * r3;                                                                               \
        }                                                                                                    \
      }                                                                                                      \
      for (int i = 0; i < ROWS; ++i)                                                                         \
        for (int c = 0; c < 4; ++c) {                                                                        \
          s_lstm_vector* const to = (s_lstm_vector*)(tile + (i * 4 + c) * kLstmLanes);                       \
          if (run == 0)                                                                                      \
            *to = sum[i][c];                                                                                 \
          else                                                                                               \
            *to += sum[i][c];                                                                                \
        }                                                                                                    \
    }                                                                                                        \
  }
#endif
#ifndef S_LSTM_$DEPTH
#define S_LSTM_$DEPTH
S_LSTM_ROWS(1, $DEPTH)
S_LSTM_ROWS(2, $DEPTH)
S_LSTM_ROWS(3, $DEPTH)
S_LSTM_ROWS(4, $DEPTH)
S_LSTM_ROWS(5, $DEPTH)
S_LSTM_ROWS(6, $DEPTH)
// As many of `rows` rows as it takes.
static s_i32 s_lstm_$DEPTH_rows(float* tile, const float* left, const float* panel, s_i32 rows) {
  const s_i32 n = rows > 2 * kLstmRows ? kLstmRows : rows > kLstmRows ? (rows + 1) / 2 : rows;
  switch (n) {
    case 1: s_lstm_$DEPTH_rows1(tile, left, panel); break;
    case 2: s_lstm_$DEPTH_rows2(tile, left, panel); break;
    case 3: s_lstm_$DEPTH_rows3(tile, left, panel); break;
    case 4: s_lstm_$DEPTH_rows4(tile, left, panel); break;
    case 5: s_lstm_$DEPTH_rows5(tile, left, panel); break;
    default: s_lstm_$DEPTH_rows6(tile, left, panel); break;
  }
  return n;
}
#endif
)c";

constexpr std::string_view kPackForward = R"c(
#ifndef S_LSTM_TRANSPOSED
#define S_LSTM_TRANSPOSED
#if S_VECTOR_BYTES == 64
#define S_LSTM_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define S_LSTM_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif S_VECTOR_BYTES == 32
#define S_LSTM_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define S_LSTM_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#else
#define S_LSTM_LOW 0, 4, 1, 5
#define S_LSTM_HIGH 2, 6, 3, 7
#endif
// As many rows of as many numbers as a vector has lanes. Each turn moves the bits of a number's place, row
// and lane together, round by one.
static void s_lstm_transposed(float* to, const float* from, s_i32 width) {
  s_lstm_vector rows[kLstmLanes], next[kLstmLanes];
  for (int i = 0; i < kLstmLanes; ++i) rows[i] = *(const s_lstm_vector*)(from + i * width);
  for (int step = 1; step < kLstmLanes; step *= 2) {
    for (int i = 0; i < kLstmLanes / 2; ++i) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + kLstmLanes / 2], S_LSTM_LOW);
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + kLstmLanes / 2], S_LSTM_HIGH);
    }
    for (int i = 0; i < kLstmLanes; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < kLstmLanes; ++i) *(s_lstm_vector*)(to + i * 4 * kLstmLanes) = rows[i];
}
#endif
void $NAME(void* const* buffers, s_i64 begin, s_i64 end) {
  enum { kWhole = $H / kLstmLanes * kLstmLanes };
  const float* const r = (const float*)buffers[$R];
  float* const packed = (float*)buffers[$WORKSPACE];
  for (s_i64 unit = begin * $UNITS; unit < end * $UNITS; unit += kLstmLanes)
    for (s_i32 gate = 0; gate < 4; ++gate) {
      const float* const from = r + (gate * $H + unit) * $H;
      float* const to = packed + unit * 4 * $H + gate * kLstmLanes;
      s_i32 d = 0;
      if (unit < kWhole)
        for (; d < kWhole; d += kLstmLanes) s_lstm_transposed(to + d * 4 * kLstmLanes, from + d, $H);
      for (; d < $H; ++d)
        for (s_i32 lane = 0; lane < kLstmLanes; ++lane)
          to[d * 4 * kLstmLanes + lane] = unit + lane < $H ? from[lane * $H + d] : 0;
    }
}
)c";

constexpr std::string_view kForward = R"c(
#ifndef S_LSTM_LOGISTIC
#define S_LSTM_LOGISTIC
// To 3 units in the last place; 0 where the result has no normal float.
S_FN float s_lstm_logistic(float x) {
  float c = x > 87.0f ? 87.0f : x;
  c = c < -87.0f ? -87.0f : c;
  const float y = 1.0f / (1.0f + s_exp_near_f32(-c));
  return x < -87.0f ? 0.0f : y;
}
#endif
#ifndef S_LSTM_CELLS_$H_$KEEPS
#define S_LSTM_CELLS_$H_$KEEPS
// Hidden units of one row: their gates' share of h is in the tile.
S_FN void s_lstm_cells_$H_$KEEPS(const float* tile, const float* in, const float* bias, const float* c,
                                 float* next_c, float* y, float* gates, s_i32 count) {
  S_INDEPENDENT
  for (s_i32 l = 0; l < count; ++l) {
    const float i = s_lstm_logistic(in[l] + bias[l] + tile[l]);
    const float f = s_lstm_logistic(in[$H + l] + bias[$H + l] + tile[kLstmLanes + l]);
    const float g = s_tanh_f32(in[2 * $H + l] + bias[2 * $H + l] + tile[2 * kLstmLanes + l]);
    const float o = s_lstm_logistic(in[3 * $H + l] + bias[3 * $H + l] + tile[3 * kLstmLanes + l]);
    const float next = f * c[l] + i * g;
    next_c[l] = next;
    y[l] = o * s_tanh_f32(next);
    if ($KEEPS) {
      gates[l] = i;
      gates[$H + l] = f;
      gates[2 * $H + l] = g;
      gates[3 * $H + l] = o;
    }
  }
}
#endif
void $NAME(void* const* buffers, s_i64 begin, s_i64 end) {
  const float* const inputs = (const float*)buffers[$INPUTS];
  const float* const bias = (const float*)buffers[$BIAS];
  const float* const h0 = (const float*)buffers[$H0];
  const float* const c0 = (const float*)buffers[$C0];
  float* const states = (float*)buffers[$RESULTS];
  float* const h = (float*)buffers[$RESULTS + 1];
  float* const c = (float*)buffers[$RESULTS + 2];
  float* const gates = $KEEPS ? (float*)buffers[$RESULTS + 3] : 0;
  float* const cells = $KEEPS ? (float*)buffers[$RESULTS + 4] : 0;
  const float* const packed = (const float*)buffers[$WORKSPACE];
  float tile[6 * 4 * kLstmLanes] __attribute__((aligned(64)));
  for (s_i64 first = begin; first < end; first += 4 * kLstmRows) {
    const s_i32 rows = (s_i32)(end - first < 4 * kLstmRows ? end - first : 4 * kLstmRows);
    const s_i64 bytes = rows * $H * sizeof(float);
    __builtin_memcpy(c + first * $H, c0 + first * $H, bytes);
    if ($KEEPS) {
      __builtin_memcpy(cells + first * $H, c0 + first * $H, bytes);
      __builtin_memcpy(states + first * $H, h0 + first * $H, bytes);
    }
    for (s_i64 t = 0; t < $L; ++t) {
      float* const y = states + ((t + $KEEPS) * $B + first) * $H;
      const float* const before = !$KEEPS && t == 0 ? h0 + first * $H : y - $B * $H;
      const float* const old_c = $KEEPS ? cells + (t * $B + first) * $H : c + first * $H;
      float* const new_c = $KEEPS ? cells + ((t + 1) * $B + first) * $H : c + first * $H;
      for (s_i32 unit = 0; unit < $H; unit += kLstmLanes)
        for (s_i32 row = 0, n = 0; row < rows; row += n) {
          n = s_lstm_$H_rows(tile, before + row * $H, packed + unit * 4 * $H, rows - row);
          for (s_i32 i = 0; i < n; ++i) {
            const s_i64 gate = (t * $B + first + row + i) * 4 * $H + unit, at = (row + i) * $H + unit;
            const float* const own = tile + i * 4 * kLstmLanes;
            float* const kept = $KEEPS ? gates + gate : 0;
            if ($H % kLstmLanes == 0 || unit + kLstmLanes <= $H)
              s_lstm_cells_$H_$KEEPS(own, inputs + gate, bias + unit, old_c + at, new_c + at, y + at, kept,
                                     kLstmLanes);
            else
              s_lstm_cells_$H_$KEEPS(own, inputs + gate, bias + unit, old_c + at, new_c + at, y + at, kept,
                                     $H - unit);
          }
        }
    }
    __builtin_memcpy(h + first * $H, states + (($L - !$KEEPS) * $B + first) * $H, bytes);
    if ($KEEPS) __builtin_memcpy(c + first * $H, cells + ($L * $B + first) * $H, bytes);
  }
}
)c";

constexpr std::string_view kPackBackward = R"c(
void $NAME(void* const* buffers, s_i64 begin, s_i64 end) {
  enum { kColumns = S_VECTOR_BYTES };
  const float* const r = (const float*)buffers[$R];
  float* const packed = (float*)buffers[$WORKSPACE];
  for (s_i32 column = 0; column < $H; column += kColumns)
    for (s_i64 d = begin * $UNITS; d < end * $UNITS; ++d) {
      const s_i32 count = $H - column < kColumns ? $H - column : kColumns;
      float* const to = packed + column * 4 * $H + d * kColumns;
      for (s_i32 j = 0; j < count; ++j) to[j] = r[d * $H + column + j];
      for (s_i32 j = count; j < kColumns; ++j) to[j] = 0;
    }
}
)c";

constexpr std::string_view kBackward = R"c(
#ifndef S_LSTM_GRADS_$H
#define S_LSTM_GRADS_$H
// One row: the gates' gradients, of those by h and c; dc becomes that of the step before.
static void s_lstm_grads_$H(const float* restrict dy, const float* restrict dh, float* restrict dc,
                            const float* restrict gates, const float* restrict before,
                            const float* restrict cells, float* restrict out) {
  S_INDEPENDENT
  for (s_i32 j = 0; j < $H; ++j) {
    const float i = gates[j], f = gates[$H + j], g = gates[2 * $H + j], o = gates[3 * $H + j];
    const float bent = s_tanh_f32(cells[j]), by_h = dh[j] + dy[j];
    const float by_c = dc[j] + by_h * o * (1.0f - bent * bent);
    out[j] = by_c * g * (i * (1.0f - i));
    out[$H + j] = by_c * before[j] * (f * (1.0f - f));
    out[2 * $H + j] = by_c * i * (1.0f - g * g);
    out[3 * $H + j] = by_h * bent * (o * (1.0f - o));
    dc[j] = by_c * f;
  }
}
#endif
void $NAME(void* const* buffers, s_i64 begin, s_i64 end) {
  enum { kColumns = S_VECTOR_BYTES };
  const float* const dy = (const float*)buffers[$DY];
  const float* const dh_last = (const float*)buffers[$DH];
  const float* const dc_last = (const float*)buffers[$DC];
  const float* const gates = (const float*)buffers[$GATES];
  const float* const cells = (const float*)buffers[$CELLS];
  float* const dh = (float*)buffers[$RESULTS];
  float* const dc = (float*)buffers[$RESULTS + 1];
  float* const dgates = (float*)buffers[$RESULTS + 2];
  const float* const packed = (const float*)buffers[$WORKSPACE];
  float tile[6 * 4 * kLstmLanes] __attribute__((aligned(64)));
  for (s_i64 first = begin; first < end; first += 4 * kLstmRows) {
    const s_i32 rows = (s_i32)(end - first < 4 * kLstmRows ? end - first : 4 * kLstmRows);
    __builtin_memcpy(dh + first * $H, dh_last + first * $H, rows * $H * sizeof(float));
    __builtin_memcpy(dc + first * $H, dc_last + first * $H, rows * $H * sizeof(float));
    for (s_i64 t = $L - 1; t >= 0; --t) {
      for (s_i64 row = first; row < first + rows; ++row) {
        const s_i64 at = t * $B + row;
        s_lstm_grads_$H(dy + at * $H, dh + row * $H, dc + row * $H, gates + at * 4 * $H, cells + at * $H,
                        cells + (at + $B) * $H, dgates + at * 4 * $H);
      }
      for (s_i32 column = 0; column < $H; column += kColumns)
        for (s_i32 row = 0, n = 0; row < rows; row += n) {
          n = s_lstm_$DEPTH_rows(tile, dgates + (t * $B + first + row) * $DEPTH, packed + column * $DEPTH,
                                 rows - row);
          const s_i32 count = $H % kColumns == 0 || column + kColumns <= $H ? kColumns : $H - column;
          for (s_i32 i = 0; i < n; ++i)
            __builtin_memcpy(dh + (first + row + i) * $H + column, tile + i * kColumns,
                             count * sizeof(float));
        }
    }
  }
}
)c";

std::string filled(std::string_view text, const LstmLoop& loop, const std::string& name) {
  const auto buffer = [&](std::size_t operand) { return std::to_string(loop.operands[operand]); };
  const std::size_t r = loop.operands.size() - 1, results = loop.is_grad || !loop.keeps ? 3 : 5;
  const std::string hidden = std::to_string(loop.hidden),
                    depth = std::to_string((loop.is_grad ? 4 : 1) * loop.hidden);
  // A placeholder never begins with another that stands before it.
  return codegen::math::filled(text, {{"$NAME", name},
                                      {"$WORKSPACE", std::to_string(loop.inputs + results)},
                                      {"$RESULTS", std::to_string(loop.inputs)},
                                      {"$UNITS", std::to_string(in_pack_item(loop))},
                                      {"$KEEPS", loop.keeps ? "1" : "0"},
                                      {"$DEPTH", depth},
                                      {"$INPUTS", buffer(0)},
                                      {"$BIAS", buffer(1)},
                                      {"$H0", buffer(2)},
                                      {"$C0", buffer(3)},
                                      {"$DY", buffer(0)},
                                      {"$DH", buffer(1)},
                                      {"$DC", buffer(2)},
                                      {"$GATES", buffer(3)},
                                      {"$CELLS", buffer(4)},
                                      {"$R", buffer(r)},
                                      {"$L", std::to_string(loop.length)},
                                      {"$B", std::to_string(loop.batch)},
                                      {"$H", hidden}});
}

}  // namespace

std::int64_t lstm_workspace(const LstmLoop& loop) {
  const std::int64_t wide = rounded_up(loop.hidden, loop.is_grad ? kColumns : kUnits);
  return 4 * wide * 4 * loop.hidden;
}

std::int64_t lstm_pack_items(const LstmLoop& loop) {
  return (loop.is_grad ? 4 * loop.hidden : rounded_up(loop.hidden, kUnits)) / in_pack_item(loop);
}

std::string lstm_pack_text(const LstmLoop& loop, const std::string& name) {
  return filled(std::string(kVector) + std::string(loop.is_grad ? kPackBackward : kPackForward), loop, name);
}

std::string lstm_loop_text(const LstmLoop& loop, const std::string& name) {
  return filled(
      std::string(kVector) + std::string(kProduct) + std::string(loop.is_grad ? kBackward : kForward), loop,
      name);
}

}  // namespace systole::cpu
