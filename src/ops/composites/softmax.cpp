// softmax and log_softmax: the row's maximum is subtracted first, so that no finite row overflows. A row of
// -inf only has no distribution and gives NaN, as has one with +inf.

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

// x minus the maximum along `axis`.
Value shifted(Value x, std::int64_t axis) {
  return sub(x, spread(reduce(x, Combine::max, {axis}), x.shape(), {axis}));
}

Values build_softmax(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 1);
  check.check_dtype(0, kFloats);
  const Value x = operands[0];
  const std::int64_t axis = normalize_axis(ir::get_int(attrs, "axis"), x.rank(), {});
  return {convert(softmax_body(widen(x), axis), x.dtype())};
}

Values build_log_softmax(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 1);
  check.check_dtype(0, kFloats);
  const Value x = operands[0];
  const std::int64_t axis = normalize_axis(ir::get_int(attrs, "axis"), x.rank(), {});
  const Value centered = shifted(widen(x), axis);
  const Value log_total = log(sum(exp(centered), {axis}));
  return {convert(sub(centered, spread(log_total, x.shape(), {axis})), x.dtype())};
}

// y · (dy - Σ y·dy) along the axis.
ir::MaybeValues softmax_backward(const Values& operands, const Values& results,
                                 const ir::MaybeValues& cotangents, const ir::AttrMap& attrs) {
  const Value y = widen(results[0]), dy = widen(*cotangents[0]);
  const std::int64_t axis = normalize_axis(ir::get_int(attrs, "axis"), y.rank(), {});
  const Value dx = mul(y, sub(dy, spread(sum(mul(y, dy), {axis}), y.shape(), {axis})));
  return {convert(dx, operands[0].dtype())};
}

// dy - exp(y) · Σ dy along the axis.
ir::MaybeValues log_softmax_backward(const Values& operands, const Values& results,
                                     const ir::MaybeValues& cotangents, const ir::AttrMap& attrs) {
  const Value y = widen(results[0]), dy = widen(*cotangents[0]);
  const std::int64_t axis = normalize_axis(ir::get_int(attrs, "axis"), y.rank(), {});
  const Value total = spread(sum(dy, {axis}), y.shape(), {axis});
  const Value dx = sub(dy, mul(exp(y), total));
  return {convert(dx, operands[0].dtype())};
}

}  // namespace

Value softmax_body(Value x, std::int64_t axis) {
  const Value weights = exp(shifted(x, axis));
  return div(weights, spread(sum(weights, {axis}), x.shape(), {axis}));
}

ir::CompositeDef softmax_def() {
  return {.name = "softmax",
          .semantics = "exp(x) / sum(exp(x)) along `axis`, without overflow; a row of -inf only gives NaN",
          .tolerance = 8,
          .defaults = {{"axis", std::int64_t{-1}}},
          .build = build_softmax,
          .backward = softmax_backward};
}

ir::CompositeDef log_softmax_def() {
  return {.name = "log_softmax",
          .semantics = "x - log(sum(exp(x))) along `axis`, without overflow; a row of -inf only gives NaN",
          .tolerance = 8,
          .defaults = {{"axis", std::int64_t{-1}}},
          .build = build_log_softmax,
          .backward = log_softmax_backward};
}

Value softmax(Value x, std::int64_t axis) {
  graph_of("softmax", {x});
  return composite("softmax", {x}, {{"axis", normalize_axis(axis, x.rank(), "softmax")}})[0];
}

Value log_softmax(Value x, std::int64_t axis) {
  graph_of("log_softmax", {x});
  return composite("log_softmax", {x}, {{"axis", normalize_axis(axis, x.rank(), "log_softmax")}})[0];
}

}  // namespace systole::ops
