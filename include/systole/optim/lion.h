#pragma once

// Lion: the sign of an average of gradients (Chen et al. 2023, "Symbolic discovery of optimization
// algorithms"). The defaults are the paper's.

#include <utility>
#include <vector>

#include "systole/optim/optimizer.h"

namespace systole::optim {

struct LionOptions {
  Schedule lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;  // of the parameter itself
  std::vector<Group> groups = {};
};
// parameter · (1 - lr · weight_decay) - lr · sign(beta1 · m + (1 - beta1) · g); m moves toward g by 1 -
// beta2.
class SYSTOLE_API Lion : public Optimizer {
 public:
  explicit Lion(Parameters parameters, LionOptions options = {});
  template <nn::Module M>
  explicit Lion(const M& module, LionOptions options = {})
      : Lion(nn::parameters(module), std::move(options)) {}

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  LionOptions options_;
  std::vector<Variable> m_;
};

}  // namespace systole::optim
