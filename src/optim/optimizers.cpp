#include "systole/optim.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ops/common.h"
#include "systole/base/error.h"
#include "systole/ops.h"
#include "tensor/record.h"

namespace systole::optim {

namespace {

using ir::Values;

[[noreturn]] void refuse(std::string_view where, std::string message, std::string expected, std::string got) {
  throw Error(ErrorKind::kInvalidArgument, std::string(where), std::move(message), std::move(expected),
              std::move(got));
}

// f64 when a parameter is f64: an f32 rate would cost it half of its digits.
DType rate_dtype(const Parameters& parameters) {
  const auto wide = [](const Variable& v) { return v.dtype() == DType::f64; };
  const std::vector<Variable>& all = parameters.variables();
  return std::any_of(all.begin(), all.end(), wide) ? DType::f64 : DType::f32;
}

void check_number(std::string_view where, std::string_view what, double value, double least, double below) {
  if (!(value >= least && value < below))
    refuse(where, std::string(what), fmt::format("at least {} and below {}", least, below),
           fmt::format("{}", value));
}

constexpr double kInfinity = HUGE_VAL;

template <class Options>
void check_adam(std::string_view where, const Options& o) {
  check_number(where, "lr", o.lr, 0, kInfinity);
  check_number(where, "beta1", o.beta1, 0, 1);
  check_number(where, "beta2", o.beta2, 0, 1);
  check_number(where, "eps", o.eps, 0, kInfinity);
  check_number(where, "weight_decay", o.weight_decay, 0, kInfinity);
}

}  // namespace

Optimizer::Optimizer(std::string_view name, Parameters parameters, double lr)
    : name_(name), parameters_(std::move(parameters)) {
  for (const NamedVariable& p : parameters_)
    if (!is_float(p.variable.dtype()))
      throw Error(ErrorKind::kDType, name_, fmt::format("parameter \"{}\"", p.name), "floating-point numbers",
                  p.variable.type().to_string());
  lr_ = Variable(Tensor(Literal::full({rate_dtype(parameters_), {}}, lr)), name_ + ".lr", false);
  step_ = Variable(Tensor(Literal::scalar<std::int32_t>(0)), name_ + ".step", false);
  state_.add(name_ + ".lr", lr_);
  state_.add(name_ + ".step", step_);
}

std::vector<Variable> Optimizer::new_moments(std::string_view moment) {
  std::vector<Variable> moments;
  for (const NamedVariable& p : parameters_) {
    const std::string name = fmt::format("{}.{}.{}", name_, moment, p.name);
    moments.emplace_back(Tensor(Literal(p.variable.type())), name, false);
    state_.add(name, moments.back());
  }
  return moments;
}

void Optimizer::set_lr(double lr) {
  check_number(name_, "lr", lr, 0, kInfinity);
  lr_.assign(Tensor(Literal::full(lr_.type(), lr)));
}

void Optimizer::update(std::span<const Tensor> grads) {
  if (grads.size() != parameters_.size()) {
    const bool few = grads.size() < parameters_.size();
    refuse(name_,
           few ? fmt::format("no gradient for parameter \"{}\"", parameters_.names()[grads.size()])
               : std::string("more gradients than parameters"),
           fmt::format("{} gradients", parameters_.size()), std::to_string(grads.size()));
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::string where = fmt::format("{}: the gradient of \"{}\"", name_, parameters_.names()[i]);
    const Type& type = recording::checked(grads[i], where).type;
    if (type.shape != parameters_.variables()[i].shape())
      throw Error(ErrorKind::kShape, where, "its shape", parameters_.variables()[i].type().to_string(),
                  type.to_string());
  }
  const Tensor next = recording::built({step_}, [](const Values& v) { return v[0] + 1.0; });
  step_.assign(next);
  const Tensor lr = lr_;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const DType dtype = parameters_.variables()[i].dtype(), computed = ops::compute_dtype(dtype);
    const Tensor grad = grads[i].dtype() == dtype ? grads[i] : recording::as_dtype(grads[i], computed);
    update_one(i, grad, recording::as_dtype(lr, computed), recording::as_dtype(next, computed));
  }
}

void Optimizer::update(std::span<const Tensor> grads, const Tensor& apply) {
  const Type wanted{DType::boolean, {}};
  if (const Type& type = recording::checked(apply, name_).type; type != wanted)
    refuse(name_, "whether to update", wanted.to_string(), type.to_string());
  std::vector<std::pair<Variable, Tensor>> before;
  for (const Parameters* list : {&parameters_, &state_})
    for (const Variable& v : list->variables()) before.emplace_back(v, v.value());
  const auto chosen = [&](const Tensor& a, const Tensor& b) {
    return recording::built({apply, a, b}, [](const Values& v) { return ops::select(v[0], v[1], v[2]); });
  };
  // What follows is computed after `apply` is known, so that nothing of it waits in memory for the choice.
  std::vector<Tensor> masked;
  for (const Tensor& grad : grads) {
    recording::checked(grad, name_);
    masked.push_back(chosen(grad, recording::constant_like(grad, 0)));
  }
  update(masked);
  for (auto& [variable, old] : before)
    if (const Tensor now = variable; now.record().get() != old.record().get())
      variable.assign(chosen(now, old));
}

SGD::SGD(Parameters parameters, SGDOptions options)
    : Optimizer("sgd", std::move(parameters), options.lr), options_(options) {
  check_number("sgd", "lr", options.lr, 0, kInfinity);
  check_number("sgd", "momentum", options.momentum, 0, kInfinity);
  check_number("sgd", "weight_decay", options.weight_decay, 0, kInfinity);
  if (options.nesterov && options.momentum == 0) refuse("sgd", "nesterov", "a momentum above 0", "0");
  if (options.momentum != 0) velocities_ = new_moments("velocity");
}

void SGD::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor&) {
  Variable parameter = parameters().variables()[i];
  if (velocities_.empty()) {
    parameter.assign(recording::built({parameter, grad, lr}, [&](const Values& v) {
      return ops::sgd_update(v[0], v[1], v[2], options_.weight_decay);
    }));
    return;
  }
  const Tensor operands[] = {parameter, grad, velocities_[i], lr};
  const std::vector<Tensor> next = recording::record_built(operands, [&](ir::Graph&, const Values& v) {
    const ops::MomentumResult r = ops::momentum_update(v[0], v[1], v[2], v[3], options_.momentum,
                                                       options_.weight_decay, options_.nesterov);
    return Values{r.parameter, r.velocity};
  });
  parameter.assign(next[0]);
  velocities_[i].assign(next[1]);
}

namespace {

template <class Update>
void adam_step(Variable parameter, Variable m, Variable v, const Tensor& grad, const Tensor& lr,
               const Tensor& step, Update update) {
  const Tensor operands[] = {parameter, grad, m, v, lr, step};
  const std::vector<Tensor> next = recording::record_built(operands, [&](ir::Graph&, const Values& x) {
    const ops::AdamResult r = update(x);
    return Values{r.parameter, r.m, r.v};
  });
  parameter.assign(next[0]);
  m.assign(next[1]);
  v.assign(next[2]);
}

}  // namespace

Adam::Adam(Parameters parameters, AdamOptions options)
    : Optimizer("adam", std::move(parameters), options.lr), options_(options) {
  check_adam("adam", options);
  m_ = new_moments("m");
  v_ = new_moments("v");
}

void Adam::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) {
  adam_step(parameters().variables()[i], m_[i], v_[i], grad, lr, step, [&](const Values& x) {
    return ops::adam_update(x[0], x[1], x[2], x[3], x[4], x[5], options_.beta1, options_.beta2, options_.eps,
                            options_.weight_decay);
  });
}

AdamW::AdamW(Parameters parameters, AdamWOptions options)
    : Optimizer("adamw", std::move(parameters), options.lr), options_(options) {
  check_adam("adamw", options);
  m_ = new_moments("m");
  v_ = new_moments("v");
}

void AdamW::update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) {
  adam_step(parameters().variables()[i], m_[i], v_[i], grad, lr, step, [&](const Values& x) {
    return ops::adamw_update(x[0], x[1], x[2], x[3], x[4], x[5], options_.beta1, options_.beta2, options_.eps,
                             options_.weight_decay);
  });
}

}  // namespace systole::optim
