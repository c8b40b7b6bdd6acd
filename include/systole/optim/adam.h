#pragma once

// Adam, and AdamW, which decays the parameters themselves. Keras adds eps to the root of v before v's bias is
// corrected, and its Adam decays as AdamW does.

#include <string_view>
#include <utility>
#include <vector>

#include "systole/optim/optimizer.h"

namespace systole::optim {

struct AdamOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient
  bool amsgrad = false;     // divides by the root of the largest v so far
  Flavor flavor = Flavor::pytorch;
  std::vector<Group> groups = {};
};
class SYSTOLE_API Adam : public Optimizer {
 public:
  explicit Adam(Parameters parameters, AdamOptions options = {});
  template <nn::Module M>
  explicit Adam(const M& module, AdamOptions options = {})
      : Adam(nn::parameters(module), std::move(options)) {}

 protected:
  Adam(std::string_view name, Parameters parameters, AdamOptions options, bool decoupled);

 private:
  void update_one(std::size_t i, const Tensor& grad, const Tensor& lr, const Tensor& step) override;
  AdamOptions options_;
  bool decoupled_;
  std::vector<Variable> m_, v_;
  std::vector<Variable> max_v_;  // of AMSGrad
};

struct AdamWOptions {
  Schedule lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // of the parameter itself, apart from the gradient
  bool amsgrad = false;
  Flavor flavor = Flavor::pytorch;
  std::vector<Group> groups = {};
};
class SYSTOLE_API AdamW : public Adam {
 public:
  explicit AdamW(Parameters parameters, AdamWOptions options = {});
  template <nn::Module M>
  explicit AdamW(const M& module, AdamWOptions options = {})
      : AdamW(nn::parameters(module), std::move(options)) {}
};

}  // namespace systole::optim
