#pragma once

// A workload made ready to be timed: weights and data on the current device, the program compiled and its
// first results known.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/workloads.h"
#include "systole/ir/graph.h"
#include "systole/tensor/tensor.h"

namespace systole::cli::bench {

inline constexpr std::string_view kOneStep = "compile";  // a launch per step, always the same batch
inline constexpr std::string_view kManySteps =
    "compile+many";  // a launch for kStackedBatches steps, one batch each; of training only
inline constexpr std::int64_t kStackedBatches = 50;

// Means over all elements. The magnitude's is the peers' checksum; it says nothing of a softmax, whose rows
// add up to 1 whatever they are.
struct Checksums {
  double magnitude = 0, square = 0;
};
Checksums checksums(const Tensor& x);

// Until the value is made; it stays where it is, where that can be waited for.
void wait_for(const Tensor& x);

struct Prepared {
  std::vector<double> first_losses;    // of three steps, of training
  std::optional<Checksums> checksums;  // of the first result, of what does not train
  std::int64_t steps_per_call = 1;
  std::function<void(std::int64_t)> run;  // makes this many calls and waits for the last
};

Prepared prepare(const Workload& work, const std::string& mode);

// What one call of it computes, for one device; nothing is run, and no data is made.
ir::Graph graph_of(const Workload& work);

}  // namespace systole::cli::bench
