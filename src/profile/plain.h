#pragma once

// A program with the profiler and without it, in turns: several times of each by the clock, of which the
// median counts, as one alone may have met anything, and what else the machine does changes meanwhile.

#include <algorithm>
#include <functional>
#include <vector>

#include "systole/profile.h"

namespace systole::profiling {

inline double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return all.size() % 2 == 1 ? *middle : (*middle + *std::max_element(all.begin(), middle)) / 2;
}

// `record` records it, `plain` runs as many steps as were asked for, waits for the devices of that recording
// and returns the seconds, or 0 where it was ended early, which ends all. What takes long varies little, and
// is run less often. The recording of median length, with plain_seconds.
Profile compared(std::int64_t steps, const std::function<Profile()>& record,
                 const std::function<double(const Profile&)>& plain);

// Until the devices that worked have done so.
void wait_for_devices(const Profile& profile);

}  // namespace systole::profiling
