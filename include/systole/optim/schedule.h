#pragma once

// Learning rates that change with the step. A Schedule is a function of the number of updates before this one
// and stands wherever a rate does:
//
//   optim::AdamW opt(model, {.lr = optim::schedules::cosine(3e-4, 10'000).after_warmup(500)});
//
// It is computed from the optimiser's count of steps, on the host and as tensor arithmetic by the same
// formula: in a compiled step the rate needs no host, however many steps a launch has, and a checkpoint that
// keeps the count keeps the schedule's place. The numbers are those of torch.optim.lr_scheduler, stepped
// after every update; past its end a schedule keeps its last rate. A rate that follows a measured quantity is
// optim/plateau.h.

#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "systole/base/export.h"
#include "systole/optim/options.h"
#include "systole/tensor/tensor.h"

namespace systole::optim {

class SYSTOLE_API Schedule {
 public:
  using OnHost = std::function<double(std::int64_t step)>;
  using AsTensor = std::function<Tensor(const Tensor& step, DType dtype)>;

  // The same rate at every step.
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
  Schedule(T rate) : rate_(static_cast<double>(rate)) {}
  // Any other: the same function for the host and as tensor arithmetic, which gets an integer scalar and
  // returns a scalar of the dtype.
  Schedule(OnHost on_host, AsTensor as_tensor);

  double at(std::int64_t step) const;                             // step counts from 0
  Tensor at(const Tensor& step, DType dtype = DType::f32) const;  // the same of an integer scalar
  bool is_constant() const { return !on_host_; }

  // Counted in epochs of so many steps: step(0.1, 30).every(steps_per_epoch).
  Schedule every(std::int64_t steps) const;
  // Before it, the rate rises linearly to this one's first in so many steps, from `start` times it. This one
  // then begins.
  Schedule after_warmup(std::int64_t steps, double start = 0) const;

 private:
  double rate_ = 0;  // of a constant one
  OnHost on_host_;
  AsTensor as_tensor_;
};

namespace schedules {

SYSTOLE_API Schedule constant(double lr);
// lr · gamma^⌊step / size⌋
SYSTOLE_API Schedule step(double lr, std::int64_t size, double gamma = 0.1);
// lr, times gamma at every milestone, which rise.
SYSTOLE_API Schedule multi_step(double lr, std::vector<std::int64_t> milestones, double gamma = 0.1);
// lr · gamma^step
SYSTOLE_API Schedule exponential(double lr, double gamma);
// Half a cosine from lr to `min` in so many steps.
SYSTOLE_API Schedule cosine(double lr, std::int64_t steps, double min = 0);
// The same again and again, each time `multiplier` times as long.
SYSTOLE_API Schedule cosine_restarts(double lr, std::int64_t steps, std::int64_t multiplier = 1,
                                     double min = 0);
// end + (lr - end) · (1 - step / steps)^power
SYSTOLE_API Schedule polynomial(double lr, std::int64_t steps, double power = 1, double end = 0);
SYSTOLE_API Schedule linear(double lr, std::int64_t steps, double end = 0);

struct OneCycleOptions {
  double peak = 0.3;  // where in the steps the rate, which begins at lr / div, is lr
  double div = 25;
  double final_div = 1e4;    // it ends at lr / div / final_div
  bool straight = false;     // lines instead of cosines
  bool three_phase = false;  // falls to lr / div as it rose, then to the end
};
SYSTOLE_API Schedule one_cycle(double lr, std::int64_t steps, OneCycleOptions options = {});

// One after the other: part i + 1 begins, at its own step 0, at step starts[i].
SYSTOLE_API Schedule sequence(std::vector<Schedule> parts, std::vector<std::int64_t> starts);

}  // namespace schedules

// By name, as a configuration gives it: make_schedule("cosine", 1e-3, {{"steps", 10'000}, {"warmup", 500}}).
// Options are the parameters' names above; every schedule takes "every", "warmup" and "warmup_start" too.
// Throws kNotFound for unknown names and options, with the nearest, and kInvalidArgument where one is
// missing.
SYSTOLE_API Schedule make_schedule(std::string_view name, double lr, const Options& options = {});
SYSTOLE_API std::vector<std::string_view> schedule_names();

}  // namespace systole::optim
