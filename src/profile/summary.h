#pragma once

// From what a timeline recorded to a Profile: times by step, gaps of the device, levels of memory.

#include "runtime/timeline.h"
#include "systole/profile.h"

namespace systole {

struct Profile::Recording {
  timeline::Collected collected;
};

namespace profiling {

// Without the roof, and so without least times and their order.
Profile summary(timeline::Collected collected);

// Gives rows what the roof allows them and sorts them by the time lost.
void place_under(const Roof& roof, Profile& profile);

}  // namespace profiling
}  // namespace systole
