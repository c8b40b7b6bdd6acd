#pragma once

// The steps of an epoch as launches. A launch runs `steps` steps of `batch` samples, which are those from
// `first` on in the epoch's order. The plan follows from sizes alone, never from the clock, so that a resumed
// run launches what the first one would have.

#include <cstdint>
#include <string_view>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::training {

struct Launch {
  std::int64_t first = 0, steps = 0, batch = 0;
  std::int64_t samples() const { return steps * batch; }
  bool operator==(const Launch&) const = default;
};

struct EpochShape {
  std::int64_t samples = 0, batch = 0;
  std::int64_t steps = 0;  // at most; 0: all
  bool drop_last = false;
};

// Full batches in launches of one size, as near to `per_launch` steps as leaves few over; what is left over
// goes step by step, and last the samples that do not fill a batch.
std::vector<Launch> plan_epoch(const EpochShape& epoch, std::int64_t per_launch);
// What is left of a plan after so many steps.
std::vector<Launch> rest_of(const std::vector<Launch>& plan, std::int64_t done);

std::int64_t step_count(const EpochShape& epoch);

// Whether a launch on it goes on while the host does something else.
bool is_accelerator(std::string_view device);

// How many steps one launch should have, for it to take about a tenth of a second on a processor, less on
// accelerators, by the work in the graph of a step.
std::int64_t steps_per_launch(const ir::Graph& step, std::string_view device);

// Whether convolutions are many times slower in a loop than outside: those of XLA on the processor are.
bool loops_slowly(std::string_view device);

// The largest divisor of `samples` that is a good batch to evaluate with, so that one program serves all of
// them; else 256.
std::int64_t evaluation_batch(std::int64_t samples);

}  // namespace systole::training
