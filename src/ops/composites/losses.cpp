// cross_entropy. The label's logit is picked by comparing class numbers instead of by a gather: it fuses with
// the reductions of the row, and its gradient is not a scatter.

#include <cmath>
#include <limits>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

// x, one number for each row, and NaN where the label is no class: a wrong label must not be learned from.
Value where_labelled(Value x, Value labels, std::int64_t classes) {
  const Value at = size_of(labels.dtype()) < 4 ? convert(labels, DType::i32) : labels;
  const Value above = greater_equal(at, scalar_like(at, static_cast<double>(classes)));
  const Value wrong =
      is_unsigned_integer(at.dtype()) ? above : bitwise_or(less(at, scalar_like(at, 0)), above);
  return select(wrong, scalar_like(x, std::numeric_limits<double>::quiet_NaN()), x);
}

Values build_cross_entropy(Graph&, const Values& operands, const ir::AttrMap&) {
  const Operands check(operands, 2);
  check.check_dtype(0, kFloats);
  check.check_dtype(1, kInts);
  const Value logits = widen(operands[0]), labels = operands[1];
  if (logits.rank() == 0)
    check.refuse(ErrorKind::kShape, "the logits have no class axis", "[rows…, classes]");
  const int axis = logits.rank() - 1;
  const std::int64_t classes = check.static_size(0, axis, "the number of classes");
  check.check_shape(1, Shape(std::span<const Dim>(logits.shape().begin(), logits.shape().end() - 1)));

  const Value centered =
      sub(logits, spread(reduce(logits, Combine::max, {axis}), logits.shape(), {axis}));  // [rows…, classes]
  const Value picked = one_hot(labels, classes, DType::boolean);
  const Value label_logit = sum(select(picked, centered, scalar_like(centered, 0)), {axis});
  const Value loss = sub(log(sum(exp(centered), {axis})), label_logit);
  return {convert(where_labelled(loss, labels, classes), operands[0].dtype())};
}

// (softmax - 1 at the label) · dy. What a row has in common is divided once for the row, not for every class.
ir::MaybeValues cross_entropy_backward(const Values& operands, const Values&,
                                       const ir::MaybeValues& cotangents, const ir::AttrMap&) {
  const Value logits = widen(operands[0]);
  const int axis = logits.rank() - 1;
  const std::int64_t classes = logits.shape()[static_cast<std::size_t>(axis)].value();
  const auto over_classes = [&](Value row) { return spread(row, logits.shape(), {axis}); };
  const Value weights = exp(sub(logits, over_classes(reduce(logits, Combine::max, {axis}))));
  const Value picked = one_hot(operands[1], classes, DType::boolean);
  const Value dy = where_labelled(widen(*cotangents[0]), operands[1], classes);
  const Value share = over_classes(div(dy, sum(weights, {axis})));
  const Value at_label = select(picked, over_classes(dy), scalar_like(logits, 0));
  return {convert(sub(mul(weights, share), at_label), operands[0].dtype()), std::nullopt};
}

}  // namespace

ir::CompositeDef cross_entropy_def() {
  return {.name = "cross_entropy",
          .semantics =
              "cross_entropy(logits, labels): -log softmax(logits)[label] per row of the last axis; NaN "
              "where the label is no class",
          .tolerance = 8,
          .build = build_cross_entropy,
          .backward = cross_entropy_backward};
}

Value cross_entropy(Value logits, Value labels) { return composite("cross_entropy", {logits, labels})[0]; }

}  // namespace systole::ops
