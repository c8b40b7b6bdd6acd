#pragma once

// What all optimisers share: parameters and their groups, the rate, the count of steps, the state.
//
//   optim::Adam opt(parameters(model), {.lr = 1e-3});
//   auto [loss, grads] = value_and_grad([&] { return loss_of(model); }, parameters(model));
//   opt.update(grads);
//
// Everything that changes from step to step is a Variable: learning rate, step count, moments. So update()
// may stand in a compiled function, set_lr() changes the rate of one without tracing it again, and state() is
// what a checkpoint keeps. Parameters of f64 are updated in f64, small floats in f32.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/optim/schedule.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::optim {

// Parameters with a rate or a weight decay of their own. A name may have '*' for any letters and '?' for one:
//
//   optim::AdamW opt(model, {.lr = 3e-4, .groups = {{.names = {"*.bias", "norm*"}, .weight_decay = 0},
//                                                   {.names = {"head.*"}, .lr = 3e-3}}});
//
// A parameter belongs to the first group that names it. A name that fits no parameter is an error.
struct Group {
  std::vector<std::string> names = {};
  std::optional<Schedule> lr = {};
  std::optional<double> weight_decay = {};
};
// Biases, scales of norms and other parameters of at most one axis, without weight decay.
SYSTOLE_API Group no_decay(const Parameters& parameters);
template <nn::Module M>
Group no_decay(const M& module) {
  return no_decay(nn::parameters(module));
}

// Whose formulas, where the two differ; each optimiser says how.
enum class Flavor { pytorch, keras };

class SYSTOLE_API Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One step down the gradients, which stand in the order of the parameters. Those of value_and_grad know
  // their Variables, and others' are refused; what was computed from them (clipped, averaged) is taken as it
  // stands.
  void update(std::span<const Tensor> grads);
  // The same where `apply` (one bool) holds; otherwise everything stays as it is, the count of steps too. The
  // host does not wait to know. optim/loss_scale.h and optim/accumulation.h have uses.
  void update(std::span<const Tensor> grads, const Tensor& apply);

  const std::string& name() const { return name_; }  // "adam"
  const Parameters& parameters() const { return parameters_; }
  const Parameters& state() const { return state_; }  // "adam.lr", "adam.step", "adam.m.fc1.weight", …
  Variable step() const { return step_; }             // how many updates there were, i32

  // The rate; of a schedule, that of the last update.
  Variable lr() const { return rates_.front().variable; }
  // That of the parameters which have none of their own. Throws kInvalidArgument while it follows a schedule.
  void set_lr(double lr);
  // The rates by group: first the optimiser's, then those of groups that have their own.
  std::vector<Variable> lrs() const;
  void set_lrs(std::span<const double> rates);
  bool has_schedule() const;  // whether a rate follows one
  // A new schedule (or constant) from the next update on; compiled functions are traced again.
  void set_schedule(Schedule lr);

 protected:
  Optimizer(std::string_view name, Parameters parameters, Schedule lr, std::vector<Group> groups = {});

  // Numbers like each parameter, listed in the state under this name; or like parameter i.
  std::vector<Variable> new_moments(std::string_view moment, double value = 0);
  Variable new_moment(std::string_view moment, std::size_t i, double value = 0);

  // The weight decay of parameter i: its group's, or else this.
  double weight_decay(std::size_t i, double otherwise) const;

  // The step of parameter i; lr and step (which counts from 1) are scalars of the dtype it is computed in.
  virtual void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) = 0;

 private:
  struct Rate {
    Variable variable;
    Schedule schedule;
  };
  void add_rate(std::string name, Schedule schedule);
  void set_rates(std::span<const double> rates);  // the first of them

  std::string name_;
  Parameters parameters_, state_;
  Variable step_;
  std::vector<Rate> rates_;           // the optimiser's own first
  std::vector<std::size_t> rate_of_;  // by parameter
  std::vector<std::optional<double>> decay_of_;
  Setting<std::int64_t> schedules_set_{0};
};

}  // namespace systole::optim
