// cross_entropy. The label's logit is picked by comparing class numbers instead of by a gather: it fuses with
// the reductions of the row, and its gradient is not a scatter.

#include <cmath>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

// True at the label of each row; labels outside are clamped to the classes.
Value label_mask(Value labels, std::int64_t classes) {
  const Value last = scalar_like(labels, static_cast<double>(classes) - 1);
  return one_hot(clamp(scalar_like(labels, 0), labels, last), classes, DType::boolean);
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
  const Value picked = label_mask(labels, classes);
  const Value label_logit = sum(select(picked, centered, scalar_like(centered, 0)), {axis});
  const Value loss = sub(log(sum(exp(centered), {axis})), label_logit);
  return {convert(loss, operands[0].dtype())};
}

// (softmax - 1 at the label) · dy.
ir::MaybeValues cross_entropy_backward(const Values& operands, const Values&,
                                       const ir::MaybeValues& cotangents, const ir::AttrMap&) {
  const Value logits = widen(operands[0]);
  const int axis = logits.rank() - 1;
  const Value picked = label_mask(operands[1], logits.shape()[static_cast<std::size_t>(axis)].value());
  const Value weights = softmax_body(logits, axis);
  const Value slope = sub(weights, convert(picked, logits.dtype()));
  const Value dy = spread(widen(*cotangents[0]), logits.shape(), {axis});
  return {convert(mul(slope, dy), operands[0].dtype()), std::nullopt};
}

}  // namespace

ir::CompositeDef cross_entropy_def() {
  return {.name = "cross_entropy",
          .semantics =
              "cross_entropy(logits, labels): -log softmax(logits)[label] per row of the last axis; labels "
              "are clamped to the classes",
          .tolerance = 8,
          .build = build_cross_entropy,
          .backward = cross_entropy_backward};
}

Value cross_entropy(Value logits, Value labels) { return composite("cross_entropy", {logits, labels})[0]; }

}  // namespace systole::ops
