// Scaled dot-product attention. Scores and probabilities are kept in f32 for the small floats; a masked score
// is -inf, so that a query that sees no key at all gives NaN, as softmax does. The way back is that of flash
// attention: it computes the weights again from the scores and their log-sum-exp, so a library need not keep
// them.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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

// scale · q·kᵀ, -inf where it is masked: [b,h,q,k] in the dtype of computation.
Value attention_scores(Value q, Value k, const ir::AttrMap& attrs) {
  Graph& graph = q.graph();
  const DType computed = compute_dtype(q.dtype());
  const Value products = dot_general(q, k, {3}, {3}, {0, 1}, {0, 1}, computed);
  const Value scores =
      mul(products, score_scale(graph, q.shape()[3], ir::get_double(attrs, "scale"), computed));
  if (!ir::get_bool(attrs, "causal")) return scores;
  const Value hidden = scalar_like(scores, -std::numeric_limits<double>::infinity());
  return select(causal_mask(graph, q.shape()[2], k.shape()[2]), scores, hidden);
}

// q [b,h,q,d], k [b,h,k,d] and v [b,h,k,e], the first operands.
void check_operands(const Operands& check, const Values& operands) {
  check.check_dtype(0, kFloats);
  for (const std::size_t i : {0, 1, 2}) check.check_rank(i, 4);
  const Value q = operands[0], k = operands[1], v = operands[2];
  for (const Value& other : {k, v})
    if (other.dtype() != q.dtype()) check.refuse(ErrorKind::kDType, "the operands differ in dtype");
  const Dim batch = q.shape()[0], heads = q.shape()[1], depth = q.shape()[3];
  const Dim keys = k.shape()[2];
  check.check_shape(1, {batch, heads, keys, depth});
  check.check_shape(2, {batch, heads, keys, v.shape()[3]});
}

Values build_attention(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 3);
  check_operands(check, operands);
  const Value q = operands[0], k = operands[1], v = operands[2];
  const Value scores = attention_scores(q, k, attrs);
  const auto over_keys = [&](Value x) { return spread(x, scores.shape(), {3}); };
  const Value most = reduce(scores, Combine::max, {3});  // [b,h,q]
  const Value shares = exp(sub(scores, over_keys(most)));
  const Value total = sum(shares, {3});
  const Value weights = div(shares, over_keys(total));
  const Value mixed = dot_general(weights, widen(v), {3}, {2}, {0, 1}, {0, 1});  // [b,h,q,e]
  return {convert(mixed, q.dtype()), add(most, log(total))};
}

// Of attention, given its results and the cotangents of both; that of lse may be missing.
Values gradients(const Values& operands, Value o, Value lse, Value grad, const std::optional<Value>& lse_grad,
                 const ir::AttrMap& attrs) {
  const Value q = widen(operands[0]), k = widen(operands[1]), v = widen(operands[2]);
  const Value scores = attention_scores(operands[0], operands[1], attrs);
  const auto over_keys = [&](Value x) { return spread(x, scores.shape(), {3}); };
  const Value weights = exp(sub(scores, over_keys(lse)));
  const Value wide_grad = widen(grad);                                         // [b,h,q,e]
  const Value dv = dot_general(weights, wide_grad, {2}, {2}, {0, 1}, {0, 1});  // [b,h,k,e]
  const Value inner = dot_general(wide_grad, v, {3}, {3}, {0, 1}, {0, 1});     // [b,h,q,k]
  // The mean of `inner` by the weights is grad·o; lse has the weights for its gradient.
  Value mean = sum(mul(wide_grad, widen(o)), {3});
  if (lse_grad) mean = sub(mean, *lse_grad);
  const Value dscores = mul(weights, sub(inner, over_keys(mean)));
  const Value scale = score_scale(q.graph(), q.shape()[3], ir::get_double(attrs, "scale"), q.dtype());
  const Value scaled = mul(dscores, scale);
  const Value dq = dot_general(scaled, k, {3}, {2}, {0, 1}, {0, 1});  // [b,h,q,d]
  const Value dk = dot_general(scaled, q, {2}, {2}, {0, 1}, {0, 1});  // [b,h,k,d]
  const DType dtype = operands[0].dtype();
  return {convert(dq, dtype), convert(dk, dtype), convert(dv, dtype)};
}

Values build_attention_grad(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 6);
  check_operands(check, operands);
  const Shape& q = operands[0].shape();
  const Value o = operands[3], lse = operands[4], grad = operands[5];
  for (const std::size_t i : {3, 5}) check.check_shape(i, {q[0], q[1], q[2], operands[2].shape()[3]});
  check.check_shape(4, {q[0], q[1], q[2]});
  const DType dtype = operands[0].dtype();
  if (o.dtype() != dtype || grad.dtype() != dtype || lse.dtype() != compute_dtype(dtype))
    check.refuse(ErrorKind::kDType, "the operands differ in dtype",
                 "q's own, and for lse the one that it is computed in");
  return gradients(operands, o, lse, grad, std::nullopt, attrs);
}

// A cotangent of lse comes from a second derivative, which no library takes.
ir::MaybeValues attention_backward(const Values& operands, const Values& results,
                                   const ir::MaybeValues& cotangents, const ir::AttrMap& attrs) {
  const Value q = operands[0], k = operands[1], v = operands[2], o = results[0], lse = results[1];
  const Value grad = cotangents[0] ? *cotangents[0] : full(o.graph(), o.type(), 0);
  const Values grads = cotangents[1] ? gradients(operands, o, lse, grad, cotangents[1], attrs)
                                     : composite("attention_grad", {q, k, v, o, lse, grad}, attrs);
  return {grads[0], grads[1], grads[2]};
}

}  // namespace

ir::CompositeDef attention_def() {
  return {
      .name = "attention",
      .semantics =
          "attention(q, k, v) = softmax(scale · q·kᵀ)·v on [batch, heads, length, depth], then the "
          "log-sum-exp "
          "of the scores [batch, heads, queries], in f32 for small floats; `scale` 0 means 1/sqrt(depth); "
          "`causal` lets query i see keys up to i + (keys - queries), one that sees none gives NaN",
      .tolerance = 16,
      .defaults = {{"causal", false}, {"scale", 0.0}},
      .build = build_attention,
      .backward = attention_backward};
}

ir::CompositeDef attention_grad_def() {
  return {
      .name = "attention_grad",
      .semantics =
          "attention_grad(q, k, v, o, lse, grad): the gradients of attention's first result o by q, k and "
          "v, given what it returned",
      .tolerance = 16,
      .defaults = {{"causal", false}, {"scale", 0.0}},
      .build = build_attention_grad};
}

Value attention(Value q, Value k, Value v, bool causal, double scale) {
  return composite("attention", {q, k, v}, {{"causal", causal}, {"scale", scale}})[0];
}

}  // namespace systole::ops
