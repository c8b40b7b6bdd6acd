// Attention by tiles with an online softmax: the scores of a few dozen queries with a few dozen keys are the
// most that is held at a time. Every product is one form: numbers of one array, each spread over a vector,
// times rows of neighbours of another, with the sums in registers. The forward pass has queries as neighbours
// (the maximum and the sum of a softmax then need no step across a vector), so that keys and values are read
// where they lie; the gradient has keys as neighbours, and the depth for dq. Only the smaller side of each
// product is brought into its order, once per tile.
//
// A masked key is not read at all in blocks that lie wholly behind the diagonal.

#include "backend/cpu/tuned/attention_text.h"

namespace systole::cpu {

// What both kernels call. S_WIDE floats are two vectors; a tile of products is S_TALL rows of them.
const std::string_view kAttentionShared = R"c(
#ifndef S_ATTENTION
#define S_ATTENTION
typedef float s_lanes __attribute__((vector_size(S_VECTOR_BYTES), aligned(4), may_alias));
typedef float s_quad __attribute__((vector_size(16), aligned(4), may_alias));
#define S_FLOATS (S_VECTOR_BYTES / 4)
#define S_WIDE (2 * S_FLOATS)
#ifdef __AVX512F__
#define S_TALL 8
#else
#define S_TALL 4
#endif
#ifdef __clang__
#define S_QUAD(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef s_i32 s_quad_order __attribute__((vector_size(16)));
#define S_QUAD(a, b, i, j, k, l) __builtin_shuffle(a, b, (s_quad_order){i, j, k, l})
#endif
// to[i][.] = the sum over k of a(i, k) b[k][.], added to what is there if `adds`.
#define S_TILE(NAME, ROWS, AT)                                                                            \
  S_FUSING static void NAME(float* to, s_i64 to_row, const float* a, s_i64 step, const float* b,          \
                            s_i64 b_row, s_i64 depth, s_bool adds) {                                      \
    S_FUSED                                                                                               \
    s_lanes sum[ROWS][2] = {{{0}}};                                                                       \
    for (s_i64 k = 0; k < depth; ++k) {                                                                   \
      const s_lanes b0 = *(const s_lanes*)(b + k * b_row), b1 = *(const s_lanes*)(b + k * b_row + S_FLOATS); \
      for (s_i32 i = 0; i < ROWS; ++i) {                                                                  \
        sum[i][0] += a[AT] * b0;                                                                          \
        sum[i][1] += a[AT] * b1;                                                                          \
      }                                                                                                   \
    }                                                                                                     \
    for (s_i32 i = 0; i < ROWS; ++i)                                                                      \
      for (s_i32 c = 0; c < 2; ++c) {                                                                     \
        s_lanes* const at = (s_lanes*)(to + i * to_row + c * S_FLOATS);                                   \
        if (adds) sum[i][c] += *at;                                                                       \
        *at = sum[i][c];                                                                                  \
      }                                                                                                   \
  }
#define S_PRODUCT(NAME, AT, AT_ROW)                                                                       \
  S_TILE(NAME##_tall, S_TALL, AT)                                                                         \
  S_TILE(NAME##_one, 1, AT)                                                                               \
  static void NAME(float* to, s_i64 to_row, s_i64 rows, const float* a, s_i64 step, const float* b,       \
                   s_i64 b_row, s_i64 depth, s_bool adds) {                                               \
    s_i64 i = 0;                                                                                          \
    for (; i + S_TALL <= rows; i += S_TALL)                                                               \
      NAME##_tall(to + i * to_row, to_row, a + AT_ROW, step, b, b_row, depth, adds);                      \
    for (; i < rows; ++i) NAME##_one(to + i * to_row, to_row, a + AT_ROW, step, b, b_row, depth, adds);   \
  }
S_PRODUCT(s_by_rows, i * step + k, i * step)  // a's rows are those of the result
S_PRODUCT(s_by_columns, k * step + i, i)      // a's columns are
// to[c][r] = factor from[r][c].
static void s_transposed(float* to, s_i64 to_row, const float* from, s_i64 from_row, s_i64 rows,
                         s_i64 columns, float factor) {
  s_i64 r = 0;
  for (; r + 4 <= rows; r += 4) {
    s_i64 c = 0;
    for (; c + 4 <= columns; c += 4) {
      s_quad x[4];
      for (s_i32 i = 0; i < 4; ++i) x[i] = *(const s_quad*)(from + (r + i) * from_row + c) * factor;
      const s_quad low0 = S_QUAD(x[0], x[1], 0, 4, 1, 5), high0 = S_QUAD(x[0], x[1], 2, 6, 3, 7);
      const s_quad low1 = S_QUAD(x[2], x[3], 0, 4, 1, 5), high1 = S_QUAD(x[2], x[3], 2, 6, 3, 7);
      *(s_quad*)(to + c * to_row + r) = S_QUAD(low0, low1, 0, 1, 4, 5);
      *(s_quad*)(to + (c + 1) * to_row + r) = S_QUAD(low0, low1, 2, 3, 6, 7);
      *(s_quad*)(to + (c + 2) * to_row + r) = S_QUAD(high0, high1, 0, 1, 4, 5);
      *(s_quad*)(to + (c + 3) * to_row + r) = S_QUAD(high0, high1, 2, 3, 6, 7);
    }
    for (; c < columns; ++c)
      for (s_i32 i = 0; i < 4; ++i) to[c * to_row + r + i] = factor * from[(r + i) * from_row + c];
  }
  for (; r < rows; ++r)
    for (s_i64 c = 0; c < columns; ++c) to[c * to_row + r] = factor * from[r * from_row + c];
}
// As a panel: S_WIDE neighbours, with zeros where there are fewer rows.
static void s_panel(float* to, const float* from, s_i64 from_row, s_i64 rows, s_i64 columns, float factor) {
  s_transposed(to, S_WIDE, from, from_row, rows < S_WIDE ? rows : S_WIDE, columns, factor);
  for (s_i64 c = 0; c < columns; ++c)
    for (s_i64 r = rows; r < S_WIDE; ++r) to[c * S_WIDE + r] = 0;
}
static void s_scaled(float* panel, s_i64 columns, const float* factors) {
  for (s_i64 c = 0; c < columns; ++c)
    for (s_i32 l = 0; l < S_WIDE; l += S_FLOATS)
      *(s_lanes*)(panel + c * S_WIDE + l) *= *(const s_lanes*)(factors + l);
}
static float s_inner(const float* a, const float* b, s_i64 count) {
  s_lanes sums = {0};
  s_i64 i = 0;
  for (; i + S_FLOATS <= count; i += S_FLOATS) sums += *(const s_lanes*)(a + i) * *(const s_lanes*)(b + i);
  float sum = 0;
  for (s_i32 l = 0; l < S_FLOATS; ++l) sum += sums[l];
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}
// e^x for x <= 0; 0 for what is smaller than a normal number.
S_FN float s_share(float x) {
  const float share = s_exp_near_f32(x < -87.0f ? -87.0f : x);
  return x < -87.0f ? 0.0f : share;
}
#define S_ROWS_AS(NAME, FROM, TO, CONVERTED)                                                              \
  static void NAME(TO* to, s_i64 to_row, const FROM* from, s_i64 from_row, s_i64 rows, s_i64 columns) {   \
    for (s_i64 r = 0; r < rows; ++r) {                                                                    \
      S_INDEPENDENT                                                                                       \
      for (s_i64 c = 0; c < columns; ++c) to[r * to_row + c] = CONVERTED(from[r * from_row + c]);         \
    }                                                                                                     \
  }
S_ROWS_AS(s_rows_f32, float, float, )
#endif
)c";

// To and from the floats of 16 bits.
const std::string_view kAttentionShort = R"c(
#ifndef S_ATTENTION_{0}
#define S_ATTENTION_{0}
S_ROWS_AS(s_rows_of_{0}, s_u16, float, s_convert_{0}_f32)
S_ROWS_AS(s_rows_to_{0}, float, s_u16, s_convert_f32_{0})
#endif
)c";

// An item's queries, all its keys in turn.
const std::string_view kAttentionForward = R"c(
  float query[kDepth * S_WIDE], mixed[kWidth * S_WIDE], scores[kKeyTile * S_WIDE];
  float most[S_WIDE], total[S_WIDE], base[S_WIDE], factor[S_WIDE], sums[S_WIDE];
  for (s_i64 item = begin; item < end; ++item) {
    const s_i64 turn = item % kBlocks, head = item / kBlocks;
    const s_i64 block = !kCausal ? turn : turn % 2 == 0 ? turn / 2 : kBlocks - 1 - turn / 2;  // short, long
    $PLACES
    const s_i64 last = (block + 1) * kQueryTile < kQueries ? (block + 1) * kQueryTile : kQueries;
    for (s_i64 q0 = block * kQueryTile; q0 < last; q0 += S_WIDE) {
      const s_i64 count = last - q0 < S_WIDE ? last - q0 : S_WIDE;
      const s_i64 seen = kCausal && q0 + count + kAhead < kKeys ? q0 + count + kAhead : kKeys;
      $QUERY_ROWS
      s_panel(query, q_tile, q_step, count, kDepth, scale);
      for (s_i32 l = 0; l < S_WIDE; ++l) most[l] = -S_INF_F32, total[l] = 0;
      for (s_i64 k0 = 0; k0 < seen; k0 += kKeyTile) {
        const s_i64 keys = seen - k0 < kKeyTile ? seen - k0 : kKeyTile;
        {
          $KEY_ROWS
          s_by_rows(scores, S_WIDE, keys, k_tile, k_step, query, S_WIDE, kDepth, 0);
        }
        if (kCausal)  // query l sees keys up to q0 + l + kAhead
          for (s_i64 j = q0 + kAhead < k0 ? 0 : q0 + kAhead - k0 + 1; j < keys; ++j)
            for (s_i32 l = 0; l < S_WIDE; ++l)
              scores[j * S_WIDE + l] = l < k0 + j - kAhead - q0 ? -S_INF_F32 : scores[j * S_WIDE + l];
        for (s_i32 l = 0; l < S_WIDE; ++l) base[l] = most[l], sums[l] = 0;
        for (s_i64 j = 0; j < keys; ++j)
          for (s_i32 l = 0; l < S_WIDE; ++l)
            base[l] = scores[j * S_WIDE + l] > base[l] ? scores[j * S_WIDE + l] : base[l];
        for (s_i32 l = 0; l < S_WIDE; ++l) {
          const float before = most[l];
          most[l] = base[l];
          base[l] = base[l] == -S_INF_F32 ? 0.0f : base[l];  // lest all be NaN where all are -inf so far
          factor[l] = s_share(before - base[l]);
        }
        for (s_i64 j = 0; j < keys; ++j)
          for (s_i32 l = 0; l < S_WIDE; ++l) {
            const float share = s_share(scores[j * S_WIDE + l] - base[l]);
            scores[j * S_WIDE + l] = share;
            sums[l] += share;
          }
        for (s_i32 l = 0; l < S_WIDE; ++l) total[l] = total[l] * factor[l] + sums[l];
        if (k0 > 0) s_scaled(mixed, kWidth, factor);
        $VALUE_ROWS
        s_by_columns(mixed, S_WIDE, kWidth, v_tile, v_step, scores, S_WIDE, keys, k0 > 0);
      }
      for (s_i32 l = 0; l < S_WIDE; ++l) {
        const float sum = total[l] == 0.0f ? S_NAN_F32 : total[l];
        sums[l] = most[l] + s_log_f32(sum);
        total[l] = 1.0f / sum;
      }
      for (s_i64 l = 0; l < count; ++l) lse[q0 + l] = sums[l];
      s_scaled(mixed, kWidth, total);
      $STORE
    }
  }
}
)c";

// An item's keys, for each few of them all queries that see them. The weights come again from the scores.
const std::string_view kAttentionGradient = R"c(
  float key[kKeyTile * kDepth], value[kKeyTile * kWidth], dkey[kKeyTile * kDepth], dvalue[kKeyTile * kWidth];
  float weights[kQueryTile * kKeyTile], slopes[kQueryTile * kKeyTile];
  for (s_i64 item = begin; item < end; ++item) {
    const s_i64 turn = item % kRanges, head = item / kRanges;
    const s_i64 range = !kCausal ? turn : turn % 2 == 0 ? turn / 2 : kRanges - 1 - turn / 2;  // long, short
    $PLACES
    const s_i64 until = (range + 1) * kRangeKeys < kKeys ? (range + 1) * kRangeKeys : kKeys;
    const s_i64 first_key = range * kRangeKeys;
    for (s_i64 q0 = kCausal && first_key > kAhead ? first_key - kAhead : 0; q0 < kQueries; q0 += kQueryTile) {
      const s_i64 queries = kQueries - q0 < kQueryTile ? kQueries - q0 : kQueryTile;
      $MEAN_ROWS
      for (s_i64 i = 0; i < queries; ++i)
        mean[q0 + i] = s_inner(g_tile + i * g_step, o_tile + i * o_step, kWidth);
    }
    for (s_i64 k0 = first_key; k0 < until; k0 += kKeyTile) {
      const s_i64 keys = until - k0 < kKeyTile ? until - k0 : kKeyTile;
      $KEY_ROWS
      for (s_i64 p = 0; p < keys; p += S_WIDE) {
        s_panel(key + p * kDepth, k_tile + p * k_step, k_step, keys - p, kDepth, scale);
        s_panel(value + p * kWidth, v_tile + p * v_step, v_step, keys - p, kWidth, 1.0f);
      }
      const s_i64 first = kCausal && k0 > kAhead ? k0 - kAhead : 0;
      for (s_i64 q0 = first; q0 < kQueries; q0 += kQueryTile) {
        const s_i64 queries = kQueries - q0 < kQueryTile ? kQueries - q0 : kQueryTile;
        $QUERY_ROWS
        for (s_i64 p = 0; p < keys; p += S_WIDE) {
          s_by_rows(weights + p, kKeyTile, queries, q_tile, q_step, key + p * kDepth, S_WIDE, kDepth, 0);
          s_by_rows(slopes + p, kKeyTile, queries, g_tile, g_step, value + p * kWidth, S_WIDE, kWidth, 0);
          for (s_i64 i = 0; i < queries; ++i) {
            const float less = lse[q0 + i], middle = mean[q0 + i];
            const s_i64 seen = kCausal ? q0 + i + kAhead - k0 - p : S_WIDE;  // the last lane that it sees
            float *const weight = weights + i * kKeyTile + p, *const slope = slopes + i * kKeyTile + p;
            for (s_i32 l = 0; l < S_WIDE; ++l) {
              const float share = s_exp_f32(weight[l] - less);
              weight[l] = l <= seen ? share : 0.0f;
              slope[l] = weight[l] * (slope[l] - middle) * scale;
            }
          }
          s_by_columns(dvalue + p * kWidth, S_WIDE, kWidth, g_tile, g_step, weights + p, kKeyTile, queries,
                       q0 > first);
          s_by_columns(dkey + p * kDepth, S_WIDE, kDepth, q_tile, q_step, slopes + p, kKeyTile, queries,
                       q0 > first);
        }
        for (s_i64 d = 0; d < kDqRow; d += S_WIDE)
          s_by_rows(dq + q0 * kDqRow + d, kDqRow, queries, slopes, kKeyTile, k_tile + d, k_step, keys,
                    k0 > first_key);
      }
      for (s_i64 p = 0; p < keys; p += S_WIDE) {
        const s_i64 count = keys - p < S_WIDE ? keys - p : S_WIDE;
        $STORE
      }
    }
  }
}
)c";

// dq from its parts, in the order of the keys.
const std::string_view kAttentionSum = R"c(
  for (s_i64 item = begin; item < end; ++item) {
    const s_i64 head = item / kBlocks, block = item % kBlocks;
    const s_i64 last = (block + 1) * kQueryTile < kQueries ? (block + 1) * kQueryTile : kQueries;
    for (s_i64 i = block * kQueryTile; i < last; ++i) {
      float sum[kDepth];
      const float* const part = parts + (head * kRanges * kQueries + i) * kDqRow;
      for (s_i64 d = 0; d < kDepth; ++d) sum[d] = part[d];
      for (s_i64 r = 1; r < kRanges && (!kCausal || r * kRangeKeys <= i + kAhead); ++r)
        for (s_i64 d = 0; d < kDepth; ++d) sum[d] += part[r * kQueries * kDqRow + d];
      s_rows_$TO(dq + (head * kQueries + i) * kDepth, kDepth, sum, kDepth, 1, kDepth);
    }
  }
}
)c";

}  // namespace systole::cpu
