#pragma once

// A rate that falls when a measured quantity no longer gets better:
// torch.optim.lr_scheduler.ReduceLROnPlateau. Acts on the host, once per epoch, through the optimiser's
// rates.
//
//   optim::Plateau plateau(opt, {.factor = 0.5, .patience = 3});
//   for (…) { train(); plateau.update(validation_loss); }

#include <cstdint>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/optim/optimizer.h"
#include "systole/tensor/variable.h"

namespace systole::optim {

struct PlateauOptions {
  bool larger_is_better = false;
  double factor = 0.1;         // by which the rates are multiplied …
  std::int32_t patience = 10;  // … after more epochs than these without improvement
  double threshold = 1e-4;     // the least improvement that counts, as a part of the best
  bool absolute = false;       // the threshold is a difference
  std::int32_t cooldown = 0;   // epochs after a reduction that are not counted
  double min_lr = 0;
  double eps = 1e-8;  // a smaller change of the rate is left out
};

class SYSTOLE_API Plateau {
 public:
  // The optimiser must live as long; its rates must be constants.
  explicit Plateau(Optimizer& optimizer, PlateauOptions options = {});

  bool update(double measured);  // after each epoch; whether the rates were lowered

  const Parameters& state() const { return state_; }  // "plateau.best", "plateau.waited", "plateau.cooldown"

 private:
  Optimizer* optimizer_;
  PlateauOptions options_;
  Variable best_, waited_, cooldown_;
  Parameters state_;
};

}  // namespace systole::optim
