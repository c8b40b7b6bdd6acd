#include "systole/optim/lion.h"

#include <utility>

#include "optim/common.h"
#include "systole/tensor/math.h"

namespace systole::optim {

Lion::Lion(Parameters parameters, LionOptions options)
    : Optimizer("lion", std::move(parameters), options.lr, options.groups), options_(std::move(options)) {
  check_number("lion", "beta1", options_.beta1, 0, 1);
  check_number("lion", "beta2", options_.beta2, 0, 1);
  check_number("lion", "weight_decay", options_.weight_decay, 0, kInfinity);
  m_ = new_moments("m");
}

void Lion::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor&) {
  const Variable parameter = parameters().variables()[i];
  const Tensor g = wide(grad), m = wide(m_[i]);
  const Tensor old = decayed(wide(parameter), lr, weight_decay(i, options_.weight_decay));
  write(parameter, old - lr * sign(averaged(options_.beta1, m, g)));
  write(m_[i], averaged(options_.beta2, m, g));
}

}  // namespace systole::optim
