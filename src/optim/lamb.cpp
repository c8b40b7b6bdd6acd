#include "systole/optim/lamb.h"

#include <utility>

#include "optim/adam_step.h"
#include "optim/common.h"
#include "systole/tensor/math.h"

namespace systole::optim {

LAMB::LAMB(Parameters parameters, LAMBOptions options)
    : Optimizer("lamb", std::move(parameters), options.lr, options.groups), options_(std::move(options)) {
  const LAMBOptions& o = options_;
  check_adam("lamb", {o.beta1, o.beta2, o.eps, o.weight_decay, false, o.flavor});
  m_ = new_moments("m");
  v_ = new_moments("v");
}

void LAMB::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) {
  const LAMBOptions& o = options_;
  const Variable parameter = parameters().variables()[i];
  const double decay = weight_decay(i, o.weight_decay);
  const bool keras = o.flavor == Flavor::keras;
  const Tensor g = wide(grad), old = keras ? decayed(wide(parameter), lr, decay) : wide(parameter);
  const Tensor m = averaged(o.beta1, wide(m_[i]), g), v = averaged(o.beta2, wide(v_[i]), square(g));
  Tensor change = m / bias_correction(o.beta1, step) / (sqrt(v / bias_correction(o.beta2, step)) + o.eps);
  if (!keras) change = plus_scaled(change, decay, old);
  const Tensor length = norm(old), change_length = norm(change);
  const Tensor ratio = where(length > 0 && change_length > 0, length / change_length, 1.0);
  write(parameter, old - lr * ratio * change);
  write(m_[i], m);
  write(v_[i], v);
}

}  // namespace systole::optim
