#include "systole/optim/loss_scale.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ops/common.h"
#include "systole/base/error.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/gradient_marks.h"
#include "tensor/record.h"

namespace systole::optim {

namespace {

void check(bool holds, const char* what, const char* expected, double got) {
  if (!holds) throw Error(ErrorKind::kInvalidArgument, "loss_scale", what, expected, fmt::format("{}", got));
}

}  // namespace

LossScale::LossScale(LossScaleOptions options) : options_(options) {
  check(options.initial >= 1 && std::isfinite(static_cast<float>(options.initial)), "initial",
        "at least 1 and finite in f32", options.initial);
  check(options.growth >= 1 && std::isfinite(options.growth), "growth", "at least 1", options.growth);
  check(options.backoff > 0 && options.backoff < 1, "backoff", "above 0 and below 1", options.backoff);
  check(options.interval >= 1, "interval", "at least 1", options.interval);
  scale_ = Variable(Tensor(Literal::full({DType::f32, {}}, options.initial)), "loss_scale.scale", false);
  finite_steps_ = Variable(Tensor(Literal::scalar<std::int32_t>(0)), "loss_scale.finite_steps", false);
  state_.add(scale_.name(), scale_);
  state_.add(finite_steps_.name(), finite_steps_);
}

Tensor LossScale::scaled_first(const Flat& value) const {
  if (value.tensors.empty())
    throw Error(ErrorKind::kInvalidArgument, "loss_scale", "the function returns no loss");
  // The scale need not fit into a small float.
  const Tensor& loss = value.tensors.front();
  const DType computed = ops::compute_dtype(recording::checked(loss, "loss_scale").type.dtype);
  return recording::as_dtype(loss, computed) * recording::as_dtype(scale_, computed);
}

std::vector<Tensor> LossScale::unscaled(std::span<const Tensor> grads) const {
  const Tensor factor = 1.0 / Tensor(scale_);
  std::vector<Tensor> result;
  for (const Tensor& grad : grads) {
    const DType computed = ops::compute_dtype(grad.dtype());
    result.push_back(recording::as_dtype(grad, computed) * recording::as_dtype(factor, computed));
    recording::copy_gradient_mark(grad, result.back());  // still the gradient of that Variable
  }
  return result;
}

Tensor LossScale::all_finite(std::span<const Tensor> tensors) {
  // A look at a tensor is a launch, however little it reads: small ones are looked at together.
  constexpr std::int64_t kSmall = 4096;
  constexpr std::size_t kTogether = 8;
  Tensor result;
  const auto look = [&](const Tensor& x) {
    const Tensor finite = all(is_finite(x));
    result = result.defined() ? result && finite : finite;
  };
  std::map<DType, std::vector<Tensor>> small;
  for (const Tensor& x : tensors) {
    if (x.size() > kSmall) {
      look(x);
      continue;
    }
    std::vector<Tensor>& together = small[x.dtype()];
    together.push_back(x.reshape({x.size()}));
    if (together.size() < kTogether) continue;
    look(concat(together));
    together.clear();
  }
  for (const auto& [dtype, together] : small)
    if (!together.empty()) look(together.size() == 1 ? together[0] : concat(together));
  return result.defined() ? result : Tensor(Literal::scalar<bool>(true));
}

void LossScale::update(const Tensor& finite) {
  const Tensor scale = scale_, steps = where(finite, finite_steps_ + 1, 0);
  const Tensor is_due = steps == options_.interval, grown = scale * options_.growth;
  const Tensor next = where(is_due && is_finite(grown), grown, scale);
  scale_.assign(where(finite, next, max(scale * options_.backoff, 1.0)));
  finite_steps_.assign(where(is_due, 0, steps));
}

}  // namespace systole::optim
