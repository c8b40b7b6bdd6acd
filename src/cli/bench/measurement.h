#pragma once

// One timed window of a workload in the metric that suits it, the same as the peers': training and large
// batches by samples_per_s, small batches forwards by ms of single calls, kernels by GB/s or TFLOP/s.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/bench/prepared.h"
#include "cli/bench/timing.h"

namespace systole::cli::bench {

inline constexpr std::string_view kSamples = "samples_per_s", kMilliseconds = "ms";

struct Measurement {
  std::string metric;
  double value = 0;
  nlohmann::ordered_json extra;  // how it was measured: ms of a step, spread, repetitions
};
Measurement measured(const Workload& work, const Prepared& prepared, const Effort& effort);

double times_as_fast(const std::string& metric, double ours, double theirs);

double rounded(double value, int digits);  // to significant ones

}  // namespace systole::cli::bench
