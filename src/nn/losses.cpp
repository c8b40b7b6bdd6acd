#include "systole/nn/losses.h"

#include <string>
#include <string_view>
#include <vector>

#include "systole/base/error.h"
#include "systole/ops.h"
#include "tensor/record.h"

namespace systole {

namespace {

using ir::Value;
using ir::Values;
using recording::built;
using recording::checked;

Value reduced(Value loss, Reduction reduction) {
  Ints all;
  for (std::int64_t i = 0; i < loss.rank(); ++i) all.push_back(i);
  switch (reduction) {
    case Reduction::mean: return all.empty() ? loss : ops::mean(loss, all);
    case Reduction::sum: return all.empty() ? loss : ops::sum(loss, all);
    case Reduction::none: return loss;
  }
  __builtin_unreachable();
}

void check_logits(std::string_view where, const Tensor& logits, const Tensor& labels) {
  checked(labels, where);
  if (!is_float(checked(logits, where).type.dtype))
    throw Error(ErrorKind::kDType, std::string(where), "the logits", "floating-point numbers",
                logits.type().to_string());
  if (logits.rank() == 0)
    throw Error(ErrorKind::kShape, std::string(where), "the logits have no class axis", "[…, classes]",
                logits.type().to_string());
}

void check_labels(std::string_view where, const Tensor& logits, const Tensor& labels) {
  const Shape rows(std::span<const Dim>(logits.shape().begin(), logits.shape().end() - 1));
  if (!is_integer(labels.dtype()))
    throw Error(ErrorKind::kDType, std::string(where), "the labels",
                "integers of shape " + rows.to_string() + ", or class probabilities of the logits' shape",
                labels.type().to_string());
  if (labels.shape() != rows)
    throw Error(ErrorKind::kShape, std::string(where),
                "the labels do not fit the logits " + logits.type().to_string(), rows.to_string(),
                labels.type().to_string());
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels, const LossOptions& options) {
  check_logits("cross_entropy", logits, labels);
  if (is_float(labels.dtype()) && labels.shape() == logits.shape()) {
    return built({logits, recording::as_dtype(labels, logits.dtype())}, [&](const Values& v) {
      const Value terms = ops::mul(v[1], ops::log_softmax(v[0]));
      return reduced(ops::neg(ops::sum(terms, {-1})), options.reduction);
    });
  }
  check_labels("cross_entropy", logits, labels);
  return built({logits, labels},
               [&](const Values& v) { return reduced(ops::cross_entropy(v[0], v[1]), options.reduction); });
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& labels, const LossOptions& options) {
  check_logits("nll_loss", log_probabilities, labels);
  check_labels("nll_loss", log_probabilities, labels);
  return built({log_probabilities, labels}, [&](const Values& v) {
    const Value picked = ops::one_hot(v[1], log_probabilities.size(-1), DType::boolean);
    const Value chosen = ops::select(picked, v[0], ops::scalar_like(v[0], 0));
    return reduced(ops::neg(ops::sum(chosen, {-1})), options.reduction);
  });
}

Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  checked(prediction, "mse_loss");
  checked(target, "mse_loss");
  if (prediction.shape() != target.shape())
    throw Error(ErrorKind::kShape, "mse_loss", "prediction and target differ in shape",
                prediction.type().to_string(), target.type().to_string());
  const Tensor difference =
      recording::binary(ir::Op::sub, recording::as_float(prediction), recording::as_float(target));
  return built({difference}, [&](const Values& v) { return reduced(ops::square(v[0]), options.reduction); });
}

}  // namespace systole
