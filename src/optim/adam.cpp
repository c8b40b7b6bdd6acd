#include "systole/optim/adam.h"

#include <utility>

#include "optim/adam_step.h"
#include "optim/common.h"
#include "systole/ops.h"
#include "systole/tensor/math.h"
#include "tensor/record.h"

namespace systole::optim {

using ir::Values;

void check_adam(std::string_view where, const AdamRule& rule) {
  check_number(where, "beta1", rule.beta1, 0, 1);
  check_number(where, "beta2", rule.beta2, 0, 1);
  check_number(where, "eps", rule.eps, 0, kInfinity);
  check_number(where, "weight_decay", rule.weight_decay, 0, kInfinity);
}

void adam_step(const AdamRule& rule, Variable parameter, Variable m, Variable v, Variable max_v,
               const Tensor& grad, const Tensor& lr, const Tensor& step) {
  if (rule.flavor == Flavor::pytorch && !max_v.defined()) {
    const Tensor operands[] = {parameter, grad, m, v, lr, step};
    const auto update = rule.decoupled ? ops::adamw_update : ops::adam_update;
    const std::vector<Tensor> next = recording::record_built(operands, [&](ir::Graph&, const Values& x) {
      const ops::AdamResult r =
          update(x[0], x[1], x[2], x[3], x[4], x[5], rule.beta1, rule.beta2, rule.eps, rule.weight_decay);
      return Values{r.parameter, r.m, r.v};
    });
    parameter.assign(next[0]);
    m.assign(next[1]);
    v.assign(next[2]);
    return;
  }
  Tensor old = wide(parameter), g = wide(grad);
  if (rule.decoupled)
    old = decayed(old, lr, rule.weight_decay);
  else
    g = plus_scaled(g, rule.weight_decay, old);
  const Tensor next_m = averaged(rule.beta1, wide(m), g), next_v = averaged(rule.beta2, wide(v), square(g));
  const Tensor largest = max_v.defined() ? max(wide(max_v), next_v) : next_v;
  const Tensor correction = sqrt(bias_correction(rule.beta2, step));
  const Tensor rate = lr / bias_correction(rule.beta1, step);
  const Tensor change = rule.flavor == Flavor::keras
                            ? rate * correction * next_m / (sqrt(largest) + rule.eps)
                            : rate * next_m / (sqrt(largest) / correction + rule.eps);
  write(parameter, old - change);
  write(m, next_m);
  write(v, next_v);
  if (max_v.defined()) write(max_v, largest);
}

namespace {

AdamOptions as_adam(AdamWOptions o) {
  return {.lr = std::move(o.lr),
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .amsgrad = o.amsgrad,
          .flavor = o.flavor,
          .groups = std::move(o.groups)};
}

}  // namespace

Adam::Adam(std::string_view name, Parameters parameters, AdamOptions options, bool decoupled)
    : Optimizer(name, std::move(parameters), options.lr, options.groups),
      options_(std::move(options)),
      decoupled_(decoupled) {
  const AdamOptions& o = options_;
  check_adam(name, {o.beta1, o.beta2, o.eps, o.weight_decay, decoupled, o.flavor});
  m_ = new_moments("m");
  v_ = new_moments("v");
  if (o.amsgrad) max_v_ = new_moments("max_v");
}

Adam::Adam(Parameters parameters, AdamOptions options)
    : Adam("adam", std::move(parameters), options, options.flavor == Flavor::keras) {}

void Adam::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) {
  const AdamRule rule{.beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .eps = options_.eps,
                      .weight_decay = weight_decay(i, options_.weight_decay),
                      .decoupled = decoupled_,
                      .flavor = options_.flavor};
  adam_step(rule, parameters().variables()[i], m_[i], v_[i], options_.amsgrad ? max_v_[i] : Variable(), grad,
            lr, step);
}

AdamW::AdamW(Parameters parameters, AdamWOptions options)
    : Adam("adamw", std::move(parameters), as_adam(std::move(options)), true) {}

}  // namespace systole::optim
