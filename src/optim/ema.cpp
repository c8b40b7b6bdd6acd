#include "systole/optim/ema.h"

#include <utility>

#include "optim/common.h"
#include "systole/tensor/math.h"

namespace systole::optim {

Ema::Ema(Parameters parameters, EmaOptions options) : options_(options), parameters_(std::move(parameters)) {
  check_parameters("ema", parameters_);
  check_number("ema", "decay", options.decay, 0, 1);
  updates_ = Variable(Tensor(Literal::scalar<std::int32_t>(0)), "ema.updates", false);
  state_.add(updates_.name(), updates_);
  for (const auto& [name, variable] : parameters_) {
    const Variable average(wide(variable), "ema.average." + name, false);
    averages_.add(name, average);
    state_.add(average.name(), average);
  }
}

void Ema::update() { update_where(nullptr); }

void Ema::update(const Tensor& apply) {
  check_apply("ema", apply);
  update_where(&apply);
}

void Ema::update_where(const Tensor* apply) {
  if (is_swapped())
    refuse("ema", "the model has the averages", "an update while it has its own weights", "one meanwhile");
  const Tensor updates = updates_, is_first = updates == 0;
  updates_.assign(apply != nullptr ? where(*apply, updates + 1, updates) : updates + 1);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Variable average = averages_.variables()[i];
    const Tensor old = average, weight = wide(parameters_.variables()[i]);
    const Tensor next = where(is_first, weight, old + (weight - old) * (1 - options_.decay));
    average.assign(apply != nullptr ? where(*apply, next, old) : next);
  }
}

void Ema::swap() {
  if (is_swapped()) {
    for (std::size_t i = 0; i < kept_.size(); ++i) Variable(parameters_.variables()[i]).assign(kept_[i]);
    kept_.clear();
    return;
  }
  std::vector<Tensor> weights;
  for (const Variable& parameter : parameters_.variables()) weights.push_back(parameter.value());
  const bool has_average = updates_.value().item<std::int32_t>() > 0;  // else the weights are their average
  for (std::size_t i = 0; has_average && i < weights.size(); ++i)
    write(parameters_.variables()[i], averages_.variables()[i]);
  kept_ = std::move(weights);
}

}  // namespace systole::optim
