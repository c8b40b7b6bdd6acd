#pragma once

// From what a timeline recorded to a Profile: times by step, gaps of the device, levels of memory.

#include <cstddef>
#include <vector>

#include "runtime/timeline.h"
#include "systole/profile.h"

namespace systole {

struct Profile::Recording {
  timeline::Collected collected;
};

namespace profiling {

// Without roofs, and so without least times and their order.
Profile summary(timeline::Collected collected);

// Gives rows of the roof's device what it allows them and sorts rows by the time lost.
void place_under(const Roof& roof, Profile& profile);

// By begin.
std::vector<Profile::Span> first_spans(const timeline::Collected& collected, std::size_t most);

}  // namespace profiling
}  // namespace systole
