#pragma once

// An exponential moving average of the weights, which often tests better than the weights themselves.
//
//   optim::Ema ema(parameters(m), {.decay = 0.999});
//   auto step = compile([&](…) { …; opt.update(grads); ema.update(); return loss; });
//   {
//     const auto averaged = ema.averaged();   // the model has the averages until the end of the scope
//     test(m);
//   }
//
// The first update copies the weights, as torch.optim.swa_utils.AveragedModel does.

#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::optim {

struct EmaOptions {
  double decay = 0.999;  // average = decay · average + (1 - decay) · weight
};

class SYSTOLE_API Ema {
 public:
  explicit Ema(Parameters parameters, EmaOptions options = {});
  template <nn::Module M>
  explicit Ema(const M& module, EmaOptions options = {}) : Ema(nn::parameters(module), options) {}

  void update();                     // after the optimiser; may be compiled
  void update(const Tensor& apply);  // where `apply` (one bool) holds

  // Gives the model the averages; then its own weights again. Meanwhile update() throws kInvalidArgument. A
  // checkpoint is made before, since state() does not have the weights.
  void swap();
  bool is_swapped() const { return !kept_.empty(); }
  // Swapped until the end of the scope.
  class SYSTOLE_API Scope {
   public:
    explicit Scope(Ema& ema) : ema_(ema) { ema_.swap(); }
    ~Scope() { ema_.swap(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Ema& ema_;
  };
  [[nodiscard]] Scope averaged() { return Scope(*this); }

  const Parameters& averages() const { return averages_; }  // under the parameters' names
  Variable updates() const { return updates_; }             // i32
  const Parameters& state() const { return state_; }        // "ema.updates", "ema.average.fc1.weight", …

 private:
  void update_where(const Tensor* apply);

  EmaOptions options_;
  Parameters parameters_, averages_, state_;
  Variable updates_;
  std::vector<Tensor> kept_;  // the weights, while the model has the averages
};

}  // namespace systole::optim
