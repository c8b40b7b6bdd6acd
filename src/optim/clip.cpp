#include "systole/optim/clip.h"

#include <cmath>

#include <fmt/format.h>

#include "optim/common.h"
#include "systole/tensor/math.h"
#include "tensor/record.h"

namespace systole::optim {

namespace {

constexpr double kSmallest = 1e-6;  // added to the norm, as PyTorch does

void check_limit(std::string_view where, const char* what, double limit) {
  if (!(limit > 0)) refuse(where, what, "above 0", fmt::format("{}", limit));
}

// x by a scalar of any float dtype, in x's own.
Tensor scaled(const Tensor& x, const Tensor& factor) {
  const Tensor computed = wide(x);
  return recording::as_dtype(computed * recording::as_dtype(factor, computed.dtype()), x.dtype());
}

}  // namespace

Tensor global_norm(std::span<const Tensor> grads, double order) {
  if (!(order > 0)) refuse("global_norm", "order", "above 0, or infinity", fmt::format("{}", order));
  // The norms' norm: sums, or the largest, of what each contributes.
  const bool is_max = std::isinf(order);
  Tensor total;
  for (const Tensor& grad : grads) {
    recording::checked(grad, "global_norm");
    const Tensor size = abs(wide(grad));
    const Tensor part = is_max ? amax(size) : order == 2 ? sum(square(size)) : sum(pow(size, order));
    if (!total.defined())
      total = part;
    else
      total = is_max ? max(total, part) : total + part;
  }
  if (!total.defined()) return 0.0f;
  return is_max ? total : order == 2 ? sqrt(total) : pow(total, 1 / order);
}

Tensor clip_by_norm(std::vector<Tensor>& grads, double max_norm, double order) {
  check_limit("clip_by_norm", "max_norm", max_norm);
  const Tensor norm = global_norm(grads, order);
  const Tensor factor = min(max_norm / (norm + kSmallest), Tensor(1.0));
  for (Tensor& grad : grads) grad = scaled(grad, factor);
  return norm;
}

Tensor clip_each_by_norm(std::vector<Tensor>& grads, double max_norm) {
  check_limit("clip_each_by_norm", "max_norm", max_norm);
  const Tensor all = global_norm(grads);
  for (Tensor& grad : grads) grad = scaled(grad, max_norm / max(norm(wide(grad)), Tensor(max_norm)));
  return all;
}

Tensor clip_by_value(std::vector<Tensor>& grads, double limit) {
  check_limit("clip_by_value", "limit", limit);
  const Tensor norm = global_norm(grads);
  for (Tensor& grad : grads) grad = clip(grad, -limit, limit);
  return norm;
}

}  // namespace systole::optim
