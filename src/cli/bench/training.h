#pragma once

// A workload made ready to be timed: model, optimiser and data on the current device, the step compiled and
// its first losses known.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/workloads.h"
#include "systole/ir/graph.h"
#include "systole/tensor/mesh.h"

namespace systole::cli::bench {

inline constexpr std::string_view kOneStep = "compile";  // a launch per step, always the same batch
inline constexpr std::string_view kManySteps =
    "compile+many";  // a launch for kStackedBatches steps, one batch each
inline constexpr std::int64_t kStackedBatches = 50;

struct Prepared {
  std::vector<double> first_losses;  // of three steps
  std::int64_t steps_per_call = 1;
  std::function<void(std::int64_t)> run;  // makes this many calls and waits for the last
};

Prepared prepare(const Workload& work, const std::string& mode);

// One step over all devices of the mesh as a graph, with the batch split among them: forward, backward,
// optimiser. Nothing is run, and no data is made.
ir::Graph step_graph(const Workload& work, const DeviceMesh& mesh);

}  // namespace systole::cli::bench
