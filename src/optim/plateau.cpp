#include "systole/optim/plateau.h"

#include <algorithm>
#include <vector>

#include "optim/common.h"

namespace systole::optim {

namespace {

Variable number(double value, const char* name) {
  return Variable(Tensor(Literal::full({DType::f64, {}}, value)), name, false);
}
Variable count(const char* name) { return Variable(Tensor(Literal::scalar<std::int32_t>(0)), name, false); }

}  // namespace

Plateau::Plateau(Optimizer& optimizer, PlateauOptions options) : optimizer_(&optimizer), options_(options) {
  check_number("plateau", "factor", options.factor, 0, 1);
  check_number("plateau", "patience", options.patience, 0, kInfinity);
  check_number("plateau", "threshold", options.threshold, 0, kInfinity);
  check_number("plateau", "cooldown", options.cooldown, 0, kInfinity);
  check_number("plateau", "min_lr", options.min_lr, 0, kInfinity);
  check_number("plateau", "eps", options.eps, 0, kInfinity);
  if (optimizer.has_schedule())
    refuse("plateau", "the optimiser's rate", "a constant", "a schedule, which would overwrite another rate");
  best_ = number(options.larger_is_better ? -kInfinity : kInfinity, "plateau.best");
  waited_ = count("plateau.waited");
  cooldown_ = count("plateau.cooldown");
  for (const Variable& variable : {best_, waited_, cooldown_}) state_.add(variable.name(), variable);
}

bool Plateau::update(double measured) {
  const PlateauOptions& o = options_;
  const double best = best_.item<double>(), sign = o.larger_is_better ? 1 : -1;
  const double wanted = o.absolute ? best + sign * o.threshold : best * (1 + sign * o.threshold);
  const bool is_better = o.larger_is_better ? measured > wanted : measured < wanted;
  int waited = is_better ? 0 : waited_.item<int>() + 1, cooldown = cooldown_.item<int>();
  if (is_better) best_.assign(Tensor(Literal::full({DType::f64, {}}, measured)));
  if (cooldown > 0) {
    --cooldown;
    waited = 0;
  }
  bool lowered = false;
  if (waited > o.patience) {
    std::vector<double> rates;
    for (const Variable& rate : optimizer_->lrs()) {
      const double old = rate.item<double>(), next = std::max(old * o.factor, o.min_lr);
      rates.push_back(old - next > o.eps ? next : old);
      lowered = lowered || rates.back() != old;
    }
    if (lowered) optimizer_->set_lrs(rates);
    cooldown = o.cooldown;
    waited = 0;
  }
  waited_.assign(Tensor(Literal::scalar<std::int32_t>(waited)));
  cooldown_.assign(Tensor(Literal::scalar<std::int32_t>(cooldown)));
  return lowered;
}

}  // namespace systole::optim
