#pragma once

// Optimisers with PyTorch's formulas and defaults.
//
//   optim::Adam opt(parameters(model), {.lr = 1e-3});
//   auto [loss, grads] = value_and_grad([&] { return loss_of(model); }, parameters(model));
//   opt.update(grads);
//
// Everything that changes from step to step is a Variable: learning rate, step count, moments. So update()
// may stand in a compiled function, set_lr() changes the rate of one without tracing it again, and state() is
// what a checkpoint keeps.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/optim/loss_scale.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::optim {

class SYSTOLE_API Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One step down the gradients, which stand in the order of the parameters.
  void update(std::span<const Tensor> grads);
  // The same where `apply` (one bool) holds; otherwise everything stays as it is, the count of steps too. The
  // host does not wait to know. optim/loss_scale.h has a use.
  void update(std::span<const Tensor> grads, const Tensor& apply);

  const Parameters& parameters() const { return parameters_; }
  const Parameters& state() const { return state_; }  // "adam.lr", "adam.step", "adam.m.fc1.weight", …
  Variable lr() const { return lr_; }
  void set_lr(double lr);
  Variable step() const { return step_; }  // how many updates there were, i32

 protected:
  Optimizer(std::string_view name, Parameters parameters, double lr);
  // Zeros like each parameter, listed in the state under this name.
  std::vector<Variable> new_moments(std::string_view moment);

  // The step of parameter i; lr and step (which counts from 1) are scalars of the dtype it is computed in.
  virtual void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) = 0;

 private:
  std::string name_;
  Parameters parameters_, state_;
  Variable lr_, step_;
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
class SYSTOLE_API SGD : public Optimizer {
 public:
  explicit SGD(Parameters parameters, SGDOptions options = {});
  template <nn::Module M>
  explicit SGD(const M& module, SGDOptions options = {}) : SGD(nn::parameters(module), options) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  SGDOptions options_;
  std::vector<Variable> velocities_;  // none without momentum
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
};
class SYSTOLE_API Adam : public Optimizer {
 public:
  explicit Adam(Parameters parameters, AdamOptions options = {});
  template <nn::Module M>
  explicit Adam(const M& module, AdamOptions options = {}) : Adam(nn::parameters(module), options) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  AdamOptions options_;
  std::vector<Variable> m_, v_;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // of the parameter itself, apart from the gradient
};
class SYSTOLE_API AdamW : public Optimizer {
 public:
  explicit AdamW(Parameters parameters, AdamWOptions options = {});
  template <nn::Module M>
  explicit AdamW(const M& module, AdamWOptions options = {}) : AdamW(nn::parameters(module), options) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  AdamWOptions options_;
  std::vector<Variable> m_, v_;
};

}  // namespace systole::optim
