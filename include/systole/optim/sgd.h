#pragma once

// Gradient descent, plain and with momentum: classic, averaging, Nesterov's.

#include <utility>
#include <vector>

#include "systole/optim/optimizer.h"

namespace systole::optim {

struct GradientDescentOptions {
  Schedule lr = 1e-3;
  std::vector<Group> groups = {};
};
// parameter - lr · gradient, and no state but the rate and the count.
class SYSTOLE_API GradientDescent : public Optimizer {
 public:
  explicit GradientDescent(Parameters parameters, GradientDescentOptions options = {});
  template <nn::Module M>
  explicit GradientDescent(const M& module, GradientDescentOptions options = {})
      : GradientDescent(nn::parameters(module), std::move(options)) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
};

// velocity = momentum · velocity + g, parameter - lr · velocity. Keras keeps the rate in the velocity
// (momentum · velocity - lr · g), which differs once the rate changes, and decays parameters apart from the
// gradient.
struct SGDOptions {
  Schedule lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;  // added to the gradient
  bool nesterov = false;    // g + momentum · velocity in place of the velocity
  double dampening = 0;     // g counts 1 - dampening, but for the first
  bool averaging = false;   // momentum · velocity + (1 - momentum) · g, from 0
  Flavor flavor = Flavor::pytorch;
  std::vector<Group> groups = {};
};
class SYSTOLE_API SGD : public Optimizer {
 public:
  explicit SGD(Parameters parameters, SGDOptions options = {});
  template <nn::Module M>
  explicit SGD(const M& module, SGDOptions options = {}) : SGD(nn::parameters(module), std::move(options)) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  SGDOptions options_;
  std::vector<Variable> velocities_;  // none without momentum
};

}  // namespace systole::optim
