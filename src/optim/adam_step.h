#pragma once

// One step of Adam, for Adam, AdamW and the vectors of Muon.

#include "systole/optim/optimizer.h"

namespace systole::optim {

struct AdamRule {
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  // the decay is the parameter's, not the gradient's
  Flavor flavor;
};

void check_adam(std::string_view where, const AdamRule& rule);

// max_v is undefined without AMSGrad.
void adam_step(const AdamRule& rule, Variable parameter, Variable m, Variable v, Variable max_v,
               const Tensor& grad, const Tensor& lr, const Tensor& step);

}  // namespace systole::optim
