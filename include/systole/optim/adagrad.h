#pragma once

// AdaGrad and RMSProp: steps divided by the root of the squared gradients' sum, or of their running mean.
// Keras adds eps under the root, keeps the rate in RMSProp's momentum, and decays parameters apart from the
// gradient.

#include <utility>
#include <vector>

#include "systole/optim/optimizer.h"

namespace systole::optim {

struct AdaGradOptions {
  Schedule lr = 1e-2;
  double lr_decay = 0;  // the rate is divided by 1 + lr_decay · (step - 1)
  double weight_decay = 0;
  double initial_accumulator = 0;
  double eps = 1e-10;
  Flavor flavor = Flavor::pytorch;
  std::vector<Group> groups = {};
};
class SYSTOLE_API AdaGrad : public Optimizer {
 public:
  explicit AdaGrad(Parameters parameters, AdaGradOptions options = {});
  template <nn::Module M>
  explicit AdaGrad(const M& module, AdaGradOptions options = {})
      : AdaGrad(nn::parameters(module), std::move(options)) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  AdaGradOptions options_;
  std::vector<Variable> sums_;
};

struct RMSPropOptions {
  Schedule lr = 1e-2;
  double alpha = 0.99;  // of the running mean
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  // divides by the deviation: the mean gradient's square is taken off
  Flavor flavor = Flavor::pytorch;
  std::vector<Group> groups = {};
};
class SYSTOLE_API RMSProp : public Optimizer {
 public:
  explicit RMSProp(Parameters parameters, RMSPropOptions options = {});
  template <nn::Module M>
  explicit RMSProp(const M& module, RMSPropOptions options = {})
      : RMSProp(nn::parameters(module), std::move(options)) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  RMSPropOptions options_;
  std::vector<Variable> squares_;
  std::vector<Variable> means_;       // when centered
  std::vector<Variable> velocities_;  // with momentum
};

}  // namespace systole::optim
