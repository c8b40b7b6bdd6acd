#include "profile/plain.h"

#include <utility>

#include "systole/base/error.h"
#include "systole/tensor.h"
#include "systole/tensor/kernels.h"

namespace systole::profiling {

Profile compared(std::int64_t steps, const std::function<Profile()>& record,
                 const std::function<double(const Profile&)>& plain) {
  constexpr std::size_t kMost = 3;
  constexpr double kLong = 10;  // seconds in all
  std::vector<Profile> recorded;
  std::vector<double> times;
  for (double sum = 0; recorded.size() < kMost && sum < kLong;) {
    recorded.push_back(record());
    const double seconds = plain(recorded.back());
    if (seconds <= 0) {
      if (recorded.size() > 1) recorded.pop_back();  // it is not whole
      break;
    }
    times.push_back(seconds);
    sum += seconds + recorded.back().seconds + recorded.back().unrecorded_seconds;
  }
  const auto middle = recorded.begin() + static_cast<std::ptrdiff_t>(recorded.size() / 2);
  std::nth_element(recorded.begin(), middle, recorded.end(),
                   [](const Profile& a, const Profile& b) { return a.seconds < b.seconds; });
  Profile made = std::move(*middle);
  if (!times.empty())
    made.plain_seconds = median(times) * static_cast<double>(made.steps) / static_cast<double>(steps);
  return made;
}

void wait_for_devices(const Profile& profile) {
  for (const Profile::Device& each : profile.devices) try {
      synchronize(DeviceName::parse(each.device));
    } catch (const Error& error) {  // it has done its work when a run returns
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
}

}  // namespace systole::profiling
