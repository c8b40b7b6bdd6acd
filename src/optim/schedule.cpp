// Schedules. Each is one generic function of an arithmetic and the step: Host computes with numbers, Traced
// with Tensors. What is decided by the count is decided in integers, so that no rounding moves a milestone.

#include "systole/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "optim/common.h"
#include "systole/base/error.h"
#include "systole/tensor/math.h"
#include "tensor/record.h"

namespace systole::optim {

namespace {

using std::numbers::pi;

struct Host {
  using Integer = std::int64_t;
  using Real = double;
  static Real real(Integer i) { return static_cast<double>(i); }
  static Real number(double x) { return x; }
  static Integer divided(Integer a, std::int64_t b) { return a / b; }  // of a ≥ 0
  static Integer least(Integer a, std::int64_t b) { return std::min(a, b); }
  static Integer most(Integer a, std::int64_t b) { return std::max(a, b); }
  static Real power(double base, Real x) { return std::pow(base, x); }
  static Real to_power(Real x, double exponent) { return std::pow(x, exponent); }
  static Real cosine(Real x) { return std::cos(x); }
  template <class T>
  static T chosen(bool condition, T a, T b) {
    return condition ? a : b;
  }
  static Real at(const Schedule& schedule, Integer step) { return schedule.at(step); }
};

struct Traced {
  using Integer = Tensor;
  using Real = Tensor;
  Real real(const Integer& i) const { return recording::as_dtype(i, dtype); }
  Real number(double x) const { return recording::scalar(x, dtype, false); }
  static Integer divided(const Integer& a, std::int64_t b) { return floor_divide(a, b); }
  static Integer least(const Integer& a, std::int64_t b) { return min(a, Tensor(b)); }
  static Integer most(const Integer& a, std::int64_t b) { return max(a, Tensor(b)); }
  static Real power(double base, const Real& x) { return exp(x * std::log(base)); }
  static Real to_power(const Real& x, double exponent) { return pow(x, exponent); }
  static Real cosine(const Real& x) { return cos(x); }
  static Tensor chosen(const Tensor& condition, const Tensor& a, const Tensor& b) {
    return where(condition, a, b);
  }
  Real at(const Schedule& schedule, const Integer& step) const { return schedule.at(step, dtype); }

  DType dtype;
};

template <class F>
Schedule made(F formula) {
  return {[formula](std::int64_t step) { return formula(Host{}, step); },
          [formula](const Tensor& step, DType dtype) { return formula(Traced{dtype}, step); }};
}

void check_count(std::string_view where, std::string_view what, std::int64_t value, std::int64_t least) {
  if (value < least || value > std::numeric_limits<std::int32_t>::max())
    refuse(where, std::string(what), fmt::format("at least {} and below 2^31", least), std::to_string(value));
}

void check_rate(std::string_view where, double lr) { check_number(where, "lr", lr, 0, kInfinity); }

void check_gamma(std::string_view where, double gamma) {
  if (!(gamma > 0 && std::isfinite(gamma))) refuse(where, "gamma", "above 0", fmt::format("{}", gamma));
}

void check_rising(std::string_view where, std::string_view what, const std::vector<std::int64_t>& steps,
                  bool may_repeat) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    check_count(where, what, steps[i], 0);
    if (i > 0 && (may_repeat ? steps[i] < steps[i - 1] : steps[i] <= steps[i - 1]))
      refuse(where, std::string(what), "rising steps", fmt::format("{}", fmt::join(steps, ", ")));
  }
}

// From `first` to `last` as `part` goes from 0 to 1.
template <class N, class Real>
Real eased(N n, double first, double last, Real part, bool straight) {
  if (straight) return part * (last - first) + first;
  return (n.cosine(part * pi) + 1) * ((first - last) / 2) + last;
}

}  // namespace

Schedule::Schedule(OnHost on_host, AsTensor as_tensor)
    : on_host_(std::move(on_host)), as_tensor_(std::move(as_tensor)) {
  if (!on_host_ || !as_tensor_) refuse("schedule", "its functions", "two functions", "an empty one");
}

double Schedule::at(std::int64_t step) const {
  check_count("schedule", "step", step, 0);
  return is_constant() ? rate_ : on_host_(step);
}

Tensor Schedule::at(const Tensor& step, DType dtype) const {
  const Type& type = recording::checked(step, "schedule").type;
  if (is_float(type.dtype) || type.dtype == DType::boolean || type.shape.rank() != 0)
    refuse("schedule", "step", "an integer scalar", type.to_string());
  if (!is_float(dtype)) refuse("schedule", "dtype", "a floating-point dtype", std::string(name(dtype)));
  if (is_constant()) return recording::scalar(rate_, dtype, false);
  return recording::as_dtype(as_tensor_(step, dtype), dtype);
}

Schedule Schedule::every(std::int64_t steps) const {
  check_count("schedule", "every", steps, 1);
  if (is_constant() || steps == 1) return *this;
  return made([self = *this, steps](auto n, auto step) { return n.at(self, n.divided(step, steps)); });
}

Schedule Schedule::after_warmup(std::int64_t steps, double start) const {
  check_count("warmup", "steps", steps, 0);
  check_number("warmup", "start", start, 0, kInfinity);
  if (steps == 0) return *this;
  return made([self = *this, steps, start, peak = at(0)](auto n, auto step) {
    const auto part = n.real(n.least(step, steps)) / static_cast<double>(steps);
    const auto rising = (part * (1 - start) + start) * peak;
    return n.chosen(step < steps, rising, n.at(self, n.most(step - steps, 0)));
  });
}

namespace schedules {

Schedule constant(double lr) {
  check_rate("constant", lr);
  return lr;
}

Schedule step(double lr, std::int64_t size, double gamma) {
  check_rate("step", lr);
  check_count("step", "size", size, 1);
  check_gamma("step", gamma);
  return made([=](auto n, auto step) { return n.power(gamma, n.real(n.divided(step, size))) * lr; });
}

Schedule multi_step(double lr, std::vector<std::int64_t> milestones, double gamma) {
  check_rate("multi_step", lr);
  check_rising("multi_step", "milestones", milestones, true);
  check_gamma("multi_step", gamma);
  return made([=](auto n, auto step) {
    auto rate = n.number(lr);
    double next = lr;
    for (const std::int64_t milestone : milestones)
      rate = n.chosen(step >= milestone, n.number(next *= gamma), rate);
    return rate;
  });
}

Schedule exponential(double lr, double gamma) {
  check_rate("exponential", lr);
  check_gamma("exponential", gamma);
  return made([=](auto n, auto step) { return n.power(gamma, n.real(step)) * lr; });
}

Schedule cosine(double lr, std::int64_t steps, double min) {
  check_rate("cosine", lr);
  check_count("cosine", "steps", steps, 1);
  check_number("cosine", "min", min, 0, kInfinity);
  return made([=](auto n, auto step) {
    return eased(n, lr, min, n.real(n.least(step, steps)) / static_cast<double>(steps), false);
  });
}

Schedule cosine_restarts(double lr, std::int64_t steps, std::int64_t multiplier, double min) {
  check_rate("cosine_restarts", lr);
  check_count("cosine_restarts", "steps", steps, 1);
  check_count("cosine_restarts", "multiplier", multiplier, 1);
  check_number("cosine_restarts", "min", min, 0, kInfinity);
  if (multiplier == 1)
    return made([=](auto n, auto step) {
      const auto past = step - n.divided(step, steps) * steps;
      return eased(n, lr, min, n.real(past) / static_cast<double>(steps), false);
    });
  // The starts and lengths of the cycles after the first, as far as a step can count.
  std::vector<std::pair<std::int64_t, std::int64_t>> cycles;
  constexpr std::int64_t kLast = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t start = steps, length = steps; start <= kLast; start += length)
    cycles.emplace_back(start, length *= multiplier);
  return made([=](auto n, auto step) {
    auto past = step;
    auto length = n.number(static_cast<double>(steps));
    for (const auto& [start, its_length] : cycles) {
      past = n.chosen(step >= start, step - start, past);
      length = n.chosen(step >= start, n.number(static_cast<double>(its_length)), length);
    }
    return eased(n, lr, min, n.real(past) / length, false);
  });
}

Schedule polynomial(double lr, std::int64_t steps, double power, double end) {
  check_rate("polynomial", lr);
  check_count("polynomial", "steps", steps, 1);
  check_number("polynomial", "power", power, 0, kInfinity);
  check_number("polynomial", "end", end, 0, kInfinity);
  return made([=](auto n, auto step) {
    const auto left = 1.0 - n.real(n.least(step, steps)) / static_cast<double>(steps);
    return n.to_power(left, power) * (lr - end) + end;
  });
}

Schedule linear(double lr, std::int64_t steps, double end) { return polynomial(lr, steps, 1, end); }

Schedule one_cycle(double lr, std::int64_t steps, OneCycleOptions o) {
  check_rate("one_cycle", lr);
  check_count("one_cycle", "steps", steps, 1);
  check_number("one_cycle", "peak", o.peak, 0, 1);
  for (const auto& [what, value] : {std::pair("div", o.div), std::pair("final_div", o.final_div)})
    if (!(value > 0 && std::isfinite(value))) refuse("one_cycle", what, "above 0", fmt::format("{}", value));
  struct Phase {
    double end, first, last;  // the step it ends at, its rates
  };
  const double first = lr / o.div, last = first / o.final_div, total = static_cast<double>(steps);
  std::vector<Phase> phases{{o.peak * total - 1, first, lr}};
  if (o.three_phase) phases.push_back({2 * o.peak * total - 2, lr, first});
  phases.push_back({total - 1, o.three_phase ? first : lr, last});
  return made([=](auto n, auto step) {
    const auto now = n.real(n.least(step, steps - 1));
    auto rate = n.number(0);
    for (std::size_t i = 0; i < phases.size(); ++i) {
      const double start = i == 0 ? 0 : phases[i - 1].end, length = phases[i].end - start;
      const auto value =
          eased(n, phases[i].first, phases[i].last, (now - start) / (length > 0 ? length : 1.0), o.straight);
      rate = i == 0 ? value : n.chosen(step > static_cast<std::int64_t>(std::floor(start)), value, rate);
    }
    return rate;
  });
}

Schedule sequence(std::vector<Schedule> parts, std::vector<std::int64_t> starts) {
  if (parts.empty() || starts.size() + 1 != parts.size())
    refuse("sequence", "starts", "one less than the schedules",
           fmt::format("{} for {} schedules", starts.size(), parts.size()));
  check_rising("sequence", "starts", starts, false);
  return made([=](auto n, auto step) {
    auto rate = n.at(parts.front(), step);
    for (std::size_t i = 0; i < starts.size(); ++i)
      rate = n.chosen(step >= starts[i], n.at(parts[i + 1], n.most(step - starts[i], 0)), rate);
    return rate;
  });
}

}  // namespace schedules

}  // namespace systole::optim
