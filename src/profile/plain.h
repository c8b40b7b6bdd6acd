#pragma once

// What a program takes without the profiler: several times by the clock, of which the median counts, as one
// alone may have met anything.

#include <algorithm>
#include <functional>
#include <vector>

namespace systole::profiling {

inline double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

// `run` runs it and returns the seconds. What takes long varies little, and is run less often.
inline double plain_seconds(const std::function<double()>& run) {
  constexpr std::size_t kMost = 5, kFew = 3;
  constexpr double kShort = 1, kLong = 10;  // seconds in all
  std::vector<double> all;
  double sum = 0;
  while (all.empty() || (all.size() < kMost && sum < (all.size() < kFew ? kLong : kShort)))
    sum += all.emplace_back(run());
  return median(all);
}

}  // namespace systole::profiling
