#include "systole/optim/accumulation.h"

#include <utility>

#include <fmt/format.h>

#include "ops/common.h"
#include "optim/common.h"
#include "systole/tensor/math.h"
#include "tensor/record.h"

namespace systole::optim {

Accumulation::Accumulation(Parameters parameters, std::int32_t batches)
    : parameters_(std::move(parameters)), batches_(batches) {
  check_parameters("accumulation", parameters_);
  if (batches < 1) refuse("accumulation", "batches", "at least 1", std::to_string(batches));
  count_ = Variable(Tensor(Literal::scalar<std::int32_t>(0)), "accumulation.count", false);
  state_.add(count_.name(), count_);
  for (const auto& [name, variable] : parameters_) {
    const Type type{ops::compute_dtype(variable.dtype()), variable.shape()};
    sums_.emplace_back(Tensor(Literal(type)), "accumulation.sum." + name, false);
    state_.add(sums_.back().name(), sums_.back());
  }
}

Accumulated Accumulation::add(std::span<const Tensor> grads) { return add_where(grads, nullptr); }

Accumulated Accumulation::add(std::span<const Tensor> grads, const Tensor& apply) {
  check_apply("accumulation", apply);
  return add_where(grads, &apply);
}

Accumulated Accumulation::add_where(std::span<const Tensor> grads, const Tensor* apply) {
  check_gradients("accumulation", parameters_, grads);
  const Tensor count = count_ + (apply != nullptr ? where(*apply, Tensor(1), Tensor(0)) : Tensor(1));
  Accumulated result;
  result.due = count >= batches_;
  if (apply != nullptr) result.due = result.due && *apply;
  count_.assign(where(result.due, Tensor(0), count));
  for (std::size_t i = 0; i < grads.size(); ++i) {
    Tensor grad = recording::as_dtype(grads[i], sums_[i].dtype());
    if (apply != nullptr) grad = where(*apply, grad, 0.0);
    const Tensor sum = sums_[i] + grad;
    result.grads.push_back(sum / static_cast<double>(batches_));
    sums_[i].assign(where(result.due, 0.0, sum));
  }
  return result;
}

void Accumulation::reset() {
  for (const Variable& variable : state_.variables())
    Variable(variable).assign(Tensor(Literal(variable.type())));
}

}  // namespace systole::optim
