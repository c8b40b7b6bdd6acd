// cross_entropy. The label's logit is picked by comparing class numbers instead of by a gather: it fuses with
// the reductions of the row, and its gradient is not a scatter.

#include <cmath>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

Values build_cross_entropy(Graph& body, const Values& operands, const ir::AttrMap&) {
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
  const Value last = body.constant(scalar_literal(labels.dtype(), static_cast<double>(classes) - 1));
  const Value picked = one_hot(clamp(scalar_like(labels, 0), labels, last), classes, DType::boolean);
  const Value label_logit = sum(select(picked, centered, scalar_like(centered, 0)), {axis});
  const Value loss = sub(log(sum(exp(centered), {axis})), label_logit);
  return {convert(loss, operands[0].dtype())};
}

}  // namespace

ir::CompositeDef cross_entropy_def() {
  return {.name = "cross_entropy",
          .semantics =
              "cross_entropy(logits, labels): -log softmax(logits)[label] per row of the last axis; labels "
              "are clamped to the classes",
          .tolerance = 8,
          .build = build_cross_entropy};
}

Value cross_entropy(Value logits, Value labels) { return composite("cross_entropy", {logits, labels})[0]; }

}  // namespace systole::ops
