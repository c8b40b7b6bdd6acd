#pragma once

// Time of repeated work and what follows from several measurements of it.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace systole::cli::bench {

struct Effort {
  double seconds = 1;  // of one repetition
  int repetitions = 5;
  double singly = 2;  // seconds of calls one by one
};

struct Window {
  double seconds = 0;     // per iteration: the median of the repetitions
  double spread_pct = 0;  // slowest less fastest, of the median
  int repetitions = 0;
  std::int64_t iterations = 0;  // per repetition
};

// `run(n)` makes n iterations and returns when they are done.
Window measure(const std::function<void(std::int64_t)>& run, const Effort& effort);

// The time of single calls.
struct Latency {
  double seconds = 0;     // the median
  double p99 = 0;         // all but one call in a hundred take less
  double spread_pct = 0;  // the third quartile less the first, of the median
  std::int64_t calls = 0;
};
// `call` returns when it is done. At least ten are measured, after three that are not.
Latency latency(const std::function<void()>& call, double seconds);

// The share of the machine's processors that other processes use from construction on, in percent; nothing
// where the system does not tell. A measurement on a processor counts when it is small.
class ForeignLoad {
 public:
  ForeignLoad() : start_(sample()) {}
  std::optional<double> percent() const;

 private:
  struct Sample {
    double all = 0, others = 0;  // in ticks
  };
  static std::optional<Sample> sample();
  std::optional<Sample> start_;
};

double median(std::vector<double> values);  // of at least one
// Between the two values next to it, in proportion. `sorted` has at least one.
double percentile(const std::vector<double>& sorted, double percent);

struct Interval {
  double low = 0, high = 0;
};
// The middle 90 % of medians of samples drawn with replacement from `values`, 10,000 of them, always the
// same.
Interval median_interval(const std::vector<double>& values);

}  // namespace systole::cli::bench
