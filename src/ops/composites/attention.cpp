// Scaled dot-product attention. Scores and probabilities are kept in f32 for the small floats; a masked score
// is -inf, so that a query that sees no key at all gives NaN, as softmax does.

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

// The factor of the scores: `scale`, or 1/sqrt(depth) when that is 0; no depth has nothing to scale.
Value score_scale(Graph& graph, Dim depth, double scale, DType dtype) {
  if (scale == 0 && !depth.is_static()) return rsqrt(dimension(graph, depth, dtype));
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(depth.value(), 1)));
  return graph.constant(scalar_literal(dtype, scale));
}

// Whether query i sees key j: j <= i + (keys - queries), as bool[queries, keys].
Value causal_mask(Graph& graph, Dim queries, Dim keys) {
  const Type type{DType::i32, {queries, keys}};
  const Value key_count = dimension(graph, keys, DType::i32),
              query_count = dimension(graph, queries, DType::i32);
  const Value offset = sub(key_count, query_count);
  const Value last_seen = add(iota(graph, type, 0), offset);
  return less_equal(iota(graph, type, 1), last_seen);
}

// softmax(scale · q·kᵀ), [b,h,q,k] in the dtype of computation.
Value attention_weights(Value q, Value k, const ir::AttrMap& attrs) {
  Graph& graph = q.graph();
  const DType computed = compute_dtype(q.dtype());
  const Value products = dot_general(q, k, {3}, {3}, {0, 1}, {0, 1}, computed);
  Value scores = mul(products, score_scale(graph, q.shape()[3], ir::get_double(attrs, "scale"), computed));
  if (ir::get_bool(attrs, "causal")) {
    const Value hidden = scalar_like(scores, -std::numeric_limits<double>::infinity());
    scores = select(causal_mask(graph, q.shape()[2], k.shape()[2]), scores, hidden);
  }
  return softmax_body(scores, 3);
}

Values build_attention(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 3);
  check.check_dtype(0, kFloats);
  for (const std::size_t i : {0, 1, 2}) check.check_rank(i, 4);
  const Value q = operands[0], k = operands[1], v = operands[2];  // [b,h,q,d], [b,h,k,d], [b,h,k,e]
  for (const Value& other : {k, v})
    if (other.dtype() != q.dtype()) check.refuse(ErrorKind::kDType, "the operands differ in dtype");
  const Dim batch = q.shape()[0], heads = q.shape()[1], depth = q.shape()[3];
  const Dim keys = k.shape()[2];
  check.check_shape(1, {batch, heads, keys, depth});
  check.check_shape(2, {batch, heads, keys, v.shape()[3]});

  const Value weights = attention_weights(q, k, attrs);
  const Value mixed = dot_general(weights, widen(v), {3}, {2}, {0, 1}, {0, 1});  // [b,h,q,e]
  return {convert(mixed, q.dtype())};
}

// The weights are computed again: where the composite is not claimed, they are the body's own.
ir::MaybeValues attention_backward(const Values& operands, const Values&, const ir::MaybeValues& cotangents,
                                   const ir::AttrMap& attrs) {
  const Value q = widen(operands[0]), k = widen(operands[1]), v = widen(operands[2]);
  const Value grad = widen(*cotangents[0]);  // [b,h,q,e]
  const Value weights = attention_weights(operands[0], operands[1], attrs);
  const Value dv = dot_general(weights, grad, {2}, {2}, {0, 1}, {0, 1});  // [b,h,k,e]
  const Value inner = dot_general(grad, v, {3}, {3}, {0, 1}, {0, 1});     // [b,h,q,k]
  const Value mean = spread(sum(mul(weights, inner), {3}), inner.shape(), {3});
  const Value scores = mul(weights, sub(inner, mean));
  const Value scale = score_scale(q.graph(), q.shape()[3], ir::get_double(attrs, "scale"), q.dtype());
  const Value scaled = mul(scores, scale);
  const Value dq = dot_general(scaled, k, {3}, {2}, {0, 1}, {0, 1});  // [b,h,q,d]
  const Value dk = dot_general(scaled, q, {2}, {2}, {0, 1}, {0, 1});  // [b,h,k,d]
  const DType dtype = operands[0].dtype();
  return {convert(dq, dtype), convert(dk, dtype), convert(dv, dtype)};
}

}  // namespace

ir::CompositeDef attention_def() {
  return {
      .name = "attention",
      .semantics =
          "attention(q, k, v) = softmax(scale · q·kᵀ)·v on [batch, heads, length, depth]; `scale` 0 means "
          "1/sqrt(depth); `causal` lets query i see keys up to i + (keys - queries), one that sees none "
          "gives NaN",
      .tolerance = 16,
      .defaults = {{"causal", false}, {"scale", 0.0}},
      .build = build_attention,
      .backward = attention_backward};
}

Value attention(Value q, Value k, Value v, bool causal, double scale) {
  return composite("attention", {q, k, v}, {{"causal", causal}, {"scale", scale}})[0];
}

}  // namespace systole::ops
