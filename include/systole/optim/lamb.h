#pragma once

// LAMB: Adam's step of each parameter, made as long as the parameter (You et al. 2020, "Large batch
// optimization for deep learning"). Keras decays the parameter first and leaves the decay out of the step
// whose length is taken.

#include <utility>
#include <vector>

#include "systole/optim/optimizer.h"

namespace systole::optim {

struct LAMBOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;  // times the parameter, added to the step
  Flavor flavor = Flavor::pytorch;
  std::vector<Group> groups = {};
};
class SYSTOLE_API LAMB : public Optimizer {
 public:
  explicit LAMB(Parameters parameters, LAMBOptions options = {});
  template <nn::Module M>
  explicit LAMB(const M& module, LAMBOptions options = {})
      : LAMB(nn::parameters(module), std::move(options)) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  LAMBOptions options_;
  std::vector<Variable> m_, v_;
};

}  // namespace systole::optim
