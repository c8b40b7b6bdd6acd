#include "train/axis.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace systole::training {

namespace {

// 1, 2, 2.5 or 5 times a power of ten, such that at most `most` steps cover the span.
double nice_step(double span, int most, bool integers) {
  const double raw = span / most;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= raw * (1 - 1e-9) && !(integers && std::floor(factor * power) != factor * power)) {
      step = factor * power;
      break;
    }
  return integers ? std::max(step, 1.0) : step;
}

// One form for all labels of an axis: with the digits that the step needs.
std::string label(double value, double step, double largest) {
  if (std::abs(value) < step * 1e-9) return "0";
  if (largest >= 1e6 || step < 1e-5) return fmt::format("{:.{}g}", value, 4);
  int digits = 0;
  for (double s = step; digits < 6 && std::abs(s - std::round(s)) > 1e-9 * s; s *= 10) ++digits;
  return fmt::format("{:.{}f}", value, digits);
}

std::string power_label(double value) {
  const double exponent = std::round(std::log10(value));
  return exponent >= -4 && exponent <= 5 ? fmt::format("{:g}", value) : fmt::format("{:.0e}", value);
}

void linear_ticks(Axis& axis, const AxisOptions& options) {
  const double step = nice_step(axis.high - axis.low, options.most_ticks, options.integers);
  const double largest = std::max(std::abs(axis.low), std::abs(axis.high));
  const double slack = 1e-9 * step;
  for (double n = std::ceil((axis.low - slack) / step); n * step <= axis.high + slack; ++n)
    axis.ticks.push_back({n * step, label(n * step, step, largest)});
}

void logarithmic_ticks(Axis& axis, const AxisOptions& options) {
  const int first = static_cast<int>(std::floor(std::log10(axis.low))),
            last = static_cast<int>(std::ceil(std::log10(axis.high)));
  const int every = std::max(1, (last - first + options.most_ticks - 1) / options.most_ticks);
  const bool few = std::log10(axis.high / axis.low) < 2.5;
  for (int power = first; power <= last; ++power)
    for (int digit = 1; digit < 10; ++digit) {
      const double value = digit * std::pow(10, power);
      if (value < axis.low * (1 - 1e-9) || value > axis.high * (1 + 1e-9) || (digit > 1 && every > 1))
        continue;
      const bool named = digit == 1 ? (power - first) % every == 0 : few && (digit == 2 || digit == 5);
      axis.ticks.push_back({value, !named       ? ""
                                   : digit == 1 ? power_label(value)
                                                : fmt::format("{:g}", value)});
    }
}

}  // namespace

double Axis::place(double value) const {
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

Axis make_axis(double low, double high, const AxisOptions& options) {
  Axis axis;
  axis.logarithmic = options.logarithmic;
  if (options.logarithmic) {
    const double ratio = high / low > 1 + 1e-9 ? std::pow(high / low, options.margin) : 2;
    axis.low = low / ratio;
    axis.high = high * ratio;
    logarithmic_ticks(axis, options);
    if (std::count_if(axis.ticks.begin(), axis.ticks.end(), [](const Tick& t) { return !t.label.empty(); }) <
        2) {
      axis.ticks.clear();  // less than a decade: its numbers are those of a plain axis
      linear_ticks(axis, options);
    }
    return axis;
  }
  const double span = high - low;
  // All values are one, up to rounding: some room around it.
  const double least = std::max({std::abs(low), std::abs(high), 1e-300}) * 1e-9;
  const double room = span > least                   ? span * options.margin
                      : options.integers || low == 0 ? 0.5
                                                     : std::max(std::abs(low) * 0.1, 1e-300);
  axis.low = low - room;
  axis.high = high + room;
  linear_ticks(axis, options);
  return axis;
}

}  // namespace systole::training
