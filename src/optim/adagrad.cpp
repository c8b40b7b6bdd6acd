#include "systole/optim/adagrad.h"

#include <utility>

#include "optim/common.h"
#include "systole/tensor/math.h"

namespace systole::optim {

namespace {

// A parameter and its gradient with the weight decay of the flavor.
struct Decayed {
  Tensor parameter, grad;
};
Decayed with_decay(Flavor flavor, const Tensor& parameter, const Tensor& grad, const Tensor& lr,
                   double weight_decay) {
  if (flavor == Flavor::keras) return {decayed(parameter, lr, weight_decay), grad};
  return {parameter, plus_scaled(grad, weight_decay, parameter)};
}

Tensor root(Flavor flavor, const Tensor& x, double eps) {
  return flavor == Flavor::keras ? sqrt(x + eps) : sqrt(x) + eps;
}

}  // namespace

AdaGrad::AdaGrad(Parameters parameters, AdaGradOptions options)
    : Optimizer("adagrad", std::move(parameters), options.lr, options.groups), options_(std::move(options)) {
  const AdaGradOptions& o = options_;
  check_number("adagrad", "lr_decay", o.lr_decay, 0, kInfinity);
  check_number("adagrad", "weight_decay", o.weight_decay, 0, kInfinity);
  check_number("adagrad", "initial_accumulator", o.initial_accumulator, 0, kInfinity);
  check_number("adagrad", "eps", o.eps, 0, kInfinity);
  sums_ = new_moments("sum", o.initial_accumulator);
}

void AdaGrad::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) {
  const AdaGradOptions& o = options_;
  const Variable parameter = parameters().variables()[i];
  const auto [old, g] =
      with_decay(o.flavor, wide(parameter), wide(grad), lr, weight_decay(i, o.weight_decay));
  const Tensor sum = wide(sums_[i]) + square(g);
  const Tensor rate = o.lr_decay == 0 ? lr : lr / ((step - 1) * o.lr_decay + 1);
  write(parameter, old - rate * g / root(o.flavor, sum, o.eps));
  write(sums_[i], sum);
}

RMSProp::RMSProp(Parameters parameters, RMSPropOptions options)
    : Optimizer("rmsprop", std::move(parameters), options.lr, options.groups), options_(std::move(options)) {
  const RMSPropOptions& o = options_;
  check_number("rmsprop", "alpha", o.alpha, 0, 1);
  check_number("rmsprop", "eps", o.eps, 0, kInfinity);
  check_number("rmsprop", "weight_decay", o.weight_decay, 0, kInfinity);
  check_number("rmsprop", "momentum", o.momentum, 0, kInfinity);
  squares_ = new_moments("square");
  if (o.centered) means_ = new_moments("mean");
  if (o.momentum != 0) velocities_ = new_moments("velocity");
}

void RMSProp::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor&) {
  const RMSPropOptions& o = options_;
  const Variable parameter = parameters().variables()[i];
  const auto [old, g] =
      with_decay(o.flavor, wide(parameter), wide(grad), lr, weight_decay(i, o.weight_decay));
  const Tensor mean_square = averaged(o.alpha, wide(squares_[i]), square(g));
  write(squares_[i], mean_square);
  Tensor variance = mean_square;
  if (o.centered) {
    const Tensor mean = averaged(o.alpha, wide(means_[i]), g);
    write(means_[i], mean);
    variance = mean_square - square(mean);
  }
  const Tensor direction = g / root(o.flavor, variance, o.eps);
  if (velocities_.empty()) return write(parameter, old - lr * direction);
  const bool keras = o.flavor == Flavor::keras;
  const Tensor velocity = wide(velocities_[i]) * o.momentum + (keras ? lr * direction : direction);
  write(velocities_[i], velocity);
  write(parameter, old - (keras ? velocity : lr * velocity));
}

}  // namespace systole::optim
