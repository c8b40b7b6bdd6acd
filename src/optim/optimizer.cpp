#include "systole/optim/optimizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "ops/common.h"
#include "optim/common.h"
#include "systole/base/error.h"
#include "systole/ops.h"
#include "tensor/record.h"

namespace systole::optim {

namespace {

using ir::Values;

// f64 when a parameter is f64: an f32 rate would cost it half of its digits.
DType rate_dtype(const Parameters& parameters) {
  const auto is_wide = [](const Variable& v) { return v.dtype() == DType::f64; };
  const std::vector<Variable>& all = parameters.variables();
  return std::any_of(all.begin(), all.end(), is_wide) ? DType::f64 : DType::f32;
}

std::string rate_name(const std::string& optimizer, std::size_t group) {
  return fmt::format("{}.groups.{}.lr", optimizer, group);
}

}  // namespace

Group no_decay(const Parameters& parameters) {
  Group group{.weight_decay = 0};
  for (const auto& [name, variable] : parameters)
    if (variable.rank() <= 1) group.names.push_back(name);
  return group;
}

Optimizer::Optimizer(std::string_view name, Parameters parameters, Schedule lr, std::vector<Group> groups)
    : name_(name), parameters_(std::move(parameters)) {
  check_parameters(name_, parameters_);
  for (const NamedVariable& p : parameters_)
    if (!is_float(p.variable.dtype()))
      throw Error(ErrorKind::kDType, name_, fmt::format("parameter \"{}\"", p.name), "floating-point numbers",
                  p.variable.type().to_string());
  add_rate(name_ + ".lr", std::move(lr));
  step_ = Variable(Tensor(Literal::scalar<std::int32_t>(0)), name_ + ".step", false);
  state_.add(name_ + ".step", step_);

  std::vector<std::vector<std::string>> names;
  std::vector<std::size_t> rate_of_group;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    names.push_back(groups[i].names);
    if (groups[i].weight_decay)
      check_number(name_, fmt::format("weight_decay of group {}", i), *groups[i].weight_decay, 0, kInfinity);
    rate_of_group.push_back(groups[i].lr ? rates_.size() : 0);
    if (groups[i].lr) add_rate(rate_name(name_, i), *groups[i].lr);
  }
  for (const std::size_t group : first_fit(name_, parameters_, names)) {
    const bool has_group = group < groups.size();
    rate_of_.push_back(has_group ? rate_of_group[group] : 0);
    decay_of_.push_back(has_group ? groups[group].weight_decay : std::nullopt);
  }
}

void Optimizer::add_rate(std::string name, Schedule schedule) {
  const double first = schedule.at(0);
  check_number(name_, "lr", first, 0, kInfinity);
  const Variable rate(Tensor(Literal::full({rate_dtype(parameters_), {}}, first)), name, false);
  state_.add(std::move(name), rate);
  rates_.push_back({rate, std::move(schedule)});
}

Variable Optimizer::new_moment(std::string_view moment, std::size_t i, double value) {
  const NamedVariable p = parameters_[i];
  const std::string name = fmt::format("{}.{}.{}", name_, moment, p.name);
  const Variable result(Tensor(Literal::full(p.variable.type(), value)), name, false);
  state_.add(name, result);
  return result;
}

std::vector<Variable> Optimizer::new_moments(std::string_view moment, double value) {
  std::vector<Variable> moments;
  for (std::size_t i = 0; i < parameters_.size(); ++i) moments.push_back(new_moment(moment, i, value));
  return moments;
}

double Optimizer::weight_decay(std::size_t i, double otherwise) const {
  return decay_of_[i].value_or(otherwise);
}

std::vector<Variable> Optimizer::lrs() const {
  std::vector<Variable> result;
  for (const Rate& rate : rates_) result.push_back(rate.variable);
  return result;
}

bool Optimizer::has_schedule() const {
  return std::any_of(rates_.begin(), rates_.end(), [](const Rate& r) { return !r.schedule.is_constant(); });
}

void Optimizer::set_lr(double lr) { set_rates({&lr, 1}); }

void Optimizer::set_lrs(std::span<const double> rates) {
  if (rates.size() != rates_.size())
    refuse(name_, "rates of the optimiser and its groups", std::to_string(rates_.size()),
           std::to_string(rates.size()));
  set_rates(rates);
}

void Optimizer::set_rates(std::span<const double> rates) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    check_number(name_, "lr", rates[i], 0, kInfinity);
    if (!rates_[i].schedule.is_constant())
      refuse(name_, "the rate follows a schedule, which would overwrite another one",
             "set_schedule() or an optimiser with a constant rate", fmt::format("{}", rates[i]));
  }
  for (std::size_t i = 0; i < rates.size(); ++i)
    rates_[i].variable.assign(Tensor(Literal::full(rates_[i].variable.type(), rates[i])));
}

void Optimizer::set_schedule(Schedule lr) {
  Rate& rate = rates_.front();
  const double now = lr.at(step_.item<std::int64_t>());
  check_number(name_, "lr", now, 0, kInfinity);
  rate.variable.assign(Tensor(Literal::full(rate.variable.type(), now)));
  rate.schedule = std::move(lr);
  schedules_set_ = static_cast<std::int64_t>(schedules_set_) + 1;
}

void Optimizer::update(std::span<const Tensor> grads) {
  check_gradients(name_, parameters_, grads);
  static_cast<void>(static_cast<std::int64_t>(schedules_set_));  // compiled functions notice a new one
  const Tensor before = step_;
  const Tensor next = recording::built({before}, [](const Values& v) { return v[0] + 1.0; });
  step_.assign(next);
  std::vector<Tensor> rates;
  for (Rate& rate : rates_) {
    if (!rate.schedule.is_constant()) rate.variable.assign(rate.schedule.at(before, rate.variable.dtype()));
    rates.push_back(rate.variable);
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const DType dtype = parameters_.variables()[i].dtype(), computed = ops::compute_dtype(dtype);
    const Tensor grad = grads[i].dtype() == dtype ? grads[i] : recording::as_dtype(grads[i], computed);
    update_one(i, grad, recording::as_dtype(rates[rate_of_[i]], computed),
               recording::as_dtype(next, computed));
  }
}

void Optimizer::update(std::span<const Tensor> grads, const Tensor& apply) {
  check_apply(name_, apply);
  check_gradients(name_, parameters_, grads);
  std::vector<std::pair<Variable, Tensor>> before;
  for (const Parameters* list : {&parameters_, &state_})
    for (const Variable& v : list->variables()) before.emplace_back(v, v.value());
  const auto chosen = [&](const Tensor& a, const Tensor& b) {
    return recording::built({apply, a, b}, [](const Values& v) { return ops::select(v[0], v[1], v[2]); });
  };
  // What follows is computed after `apply` is known, so that nothing of it waits in memory for the choice.
  std::vector<Tensor> masked;
  for (const Tensor& grad : grads) masked.push_back(chosen(grad, recording::constant_like(grad, 0)));
  update(masked);
  for (auto& [variable, old] : before)
    if (const Tensor now = variable; now.record().get() != old.record().get())
      variable.assign(chosen(now, old));
}

}  // namespace systole::optim
