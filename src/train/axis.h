#pragma once

// An axis of a chart: which values it spans, and where it has ticks with which labels.

#include <string>
#include <vector>

namespace systole::training {

struct Tick {
  double value = 0;
  std::string label;  // empty: a line without a number
};

struct Axis {
  double low = 0, high = 1;  // of a logarithmic axis, of the values themselves
  bool logarithmic = false;
  std::vector<Tick> ticks;

  double place(double value) const;  // 0 at low, 1 at high
};

struct AxisOptions {
  bool logarithmic = false;
  bool integers = false;  // ticks at whole numbers only
  double margin = 0.05;   // of the span, at both ends
  int most_ticks = 8;
};
// For values from low to high, which are finite, and above 0 on a logarithmic axis.
Axis make_axis(double low, double high, const AxisOptions& options);

}  // namespace systole::training
