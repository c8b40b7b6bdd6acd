#include "systole/optim/sgd.h"

#include <utility>

#include "optim/common.h"
#include "systole/ops.h"
#include "systole/tensor/math.h"
#include "tensor/record.h"

namespace systole::optim {

namespace {

using ir::Values;

void descend(Variable parameter, const Tensor& grad, const Tensor& lr, double weight_decay) {
  parameter.assign(recording::built({parameter, grad, lr}, [&](const Values& v) {
    return ops::sgd_update(v[0], v[1], v[2], weight_decay);
  }));
}

}  // namespace

GradientDescent::GradientDescent(Parameters parameters, GradientDescentOptions options)
    : Optimizer("gradient_descent", std::move(parameters), std::move(options.lr), std::move(options.groups)) {
}

void GradientDescent::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor&) {
  descend(parameters().variables()[i], grad, lr, weight_decay(i, 0));
}

SGD::SGD(Parameters parameters, SGDOptions options)
    : Optimizer("sgd", std::move(parameters), options.lr, options.groups), options_(std::move(options)) {
  const auto& o = options_;
  check_number("sgd", "momentum", o.momentum, 0, o.averaging ? 1 : kInfinity);
  check_number("sgd", "weight_decay", o.weight_decay, 0, kInfinity);
  check_number("sgd", "dampening", o.dampening, 0, kInfinity);
  if (o.nesterov && o.momentum == 0) refuse("sgd", "nesterov", "a momentum above 0", "0");
  if (o.averaging && o.momentum == 0) refuse("sgd", "averaging", "a momentum above 0", "0");
  if (o.dampening != 0 && (o.nesterov || o.averaging || o.flavor == Flavor::keras))
    refuse("sgd", "dampening", "0 with nesterov, averaging or Keras's formula", std::to_string(o.dampening));
  if (o.averaging && o.flavor == Flavor::keras)
    refuse("sgd", "averaging", "PyTorch's flavor", "Keras's, which has no such form");
  if (o.momentum != 0) velocities_ = new_moments("velocity");
}

void SGD::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) {
  Variable parameter = parameters().variables()[i];
  const double decay = weight_decay(i, options_.weight_decay), momentum = options_.momentum;
  const bool keras = options_.flavor == Flavor::keras;
  if (velocities_.empty() && !(keras && decay != 0)) return descend(parameter, grad, lr, decay);
  if (!keras && !options_.averaging && options_.dampening == 0) {
    const Tensor operands[] = {parameter, grad, velocities_[i], lr};
    const std::vector<Tensor> next = recording::record_built(operands, [&](ir::Graph&, const Values& v) {
      const ops::MomentumResult r =
          ops::momentum_update(v[0], v[1], v[2], v[3], momentum, decay, options_.nesterov);
      return Values{r.parameter, r.velocity};
    });
    parameter.assign(next[0]);
    velocities_[i].assign(next[1]);
    return;
  }
  const Tensor old = wide(parameter);
  if (keras) {
    const Tensor change = wide(grad) * lr, kept = decayed(old, lr, decay);
    if (velocities_.empty()) return write(parameter, kept - change);
    const Tensor velocity = wide(velocities_[i]) * momentum - change;
    write(parameter, kept + (options_.nesterov ? velocity * momentum - change : velocity));
    write(velocities_[i], velocity);
    return;
  }
  const Tensor g = plus_scaled(wide(grad), decay, old);
  Tensor velocity, direction;
  if (options_.averaging) {
    velocity = averaged(momentum, wide(velocities_[i]), g);
    direction = options_.nesterov ? averaged(momentum, velocity, g) : velocity;
  } else {
    velocity = wide(velocities_[i]) * momentum + where(step == 1, g, g * (1 - options_.dampening));
    direction = velocity;
  }
  write(parameter, old - lr * direction);
  write(velocities_[i], velocity);
}

}  // namespace systole::optim
