#include "cli/bench/timing.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>

namespace systole::cli::bench {

Window measure(const std::function<void(std::int64_t)>& run, const Effort& effort) {
  const auto timed = [&](std::int64_t n) {
    const auto start = std::chrono::steady_clock::now();
    run(n);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::int64_t n = 1;
  double seconds = timed(1);
  while (seconds < effort.seconds / 4) {  // by growing trials, until one is long enough to scale up from
    const double guess = static_cast<double>(n) * effort.seconds / std::max(seconds, 1e-6) / 2;
    n = std::max(n + 1, std::min(n * 10, static_cast<std::int64_t>(guess)));
    seconds = timed(n);
  }
  n = std::max<std::int64_t>(1, std::llround(static_cast<double>(n) * effort.seconds / seconds));
  std::vector<double> times;
  for (int i = 0; i < effort.repetitions; ++i) times.push_back(timed(n) / static_cast<double>(n));
  const auto [fastest, slowest] = std::minmax_element(times.begin(), times.end());
  const double middle = median(times);
  return {middle, 100 * (*slowest - *fastest) / middle, effort.repetitions, n};
}

Latency latency(const std::function<void()>& call, double seconds) {
  constexpr int kWarm = 3, kFewest = 10;
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < kWarm; ++i) call();
  std::vector<double> times;
  const auto since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  for (const auto start = Clock::now(); times.size() < kFewest || since(start) < seconds;) {
    const auto before = Clock::now();
    call();
    times.push_back(since(before));
  }
  std::sort(times.begin(), times.end());
  const double middle = percentile(times, 50);
  return {middle, percentile(times, 99), 100 * (percentile(times, 75) - percentile(times, 25)) / middle,
          static_cast<std::int64_t>(times.size())};
}

std::optional<ForeignLoad::Sample> ForeignLoad::sample() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double ticks[8];  // user nice system idle iowait irq softirq steal
  stat >> cpu;
  for (double& tick : ticks) stat >> tick;
  rusage own{};
  if (!stat || cpu != "cpu" || ::getrusage(RUSAGE_SELF, &own) != 0) return std::nullopt;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  const double mine =
      (seconds(own.ru_utime) + seconds(own.ru_stime)) * static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double all = std::accumulate(std::begin(ticks), std::end(ticks), 0.0);
  return Sample{all, all - ticks[3] - ticks[4] - mine};
}

std::optional<double> ForeignLoad::percent() const {
  const std::optional<Sample> end = sample();
  if (!start_ || !end) return std::nullopt;
  return 100 * std::max(0.0, end->others - start_->others) / std::max(1.0, end->all - start_->all);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return percentile(values, 50);
}

double percentile(const std::vector<double>& sorted, double percent) {
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const std::size_t below = static_cast<std::size_t>(place), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Interval median_interval(const std::vector<double>& values) {
  constexpr std::size_t kSamples = 10'000;
  std::mt19937 chance(1);  // its numbers are fixed by the standard; distributions are not
  std::vector<double> medians, sample(values.size());
  for (std::size_t i = 0; i < kSamples; ++i) {
    for (double& value : sample) value = values[chance() % values.size()];
    medians.push_back(median(sample));
  }
  std::sort(medians.begin(), medians.end());
  return {medians[kSamples / 20], medians[kSamples - kSamples / 20 - 1]};
}

}  // namespace systole::cli::bench
