#pragma once

// From what a timeline recorded to a Profile: times by step, gaps of the device, levels of memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "runtime/timeline.h"
#include "systole/profile.h"

namespace systole {

struct Profile::Recording {
  timeline::Collected collected;
};

namespace profiling {

// Without roofs, and so without least times and their order. `steps` are the times at which one was done;
// where events found no room, all is of the steps before.
Profile summary(timeline::Collected collected, std::span<const std::int64_t> steps = {});

// Gives rows of the roof's device what it allows them and sorts rows by the time lost.
void place_under(const Roof& roof, Profile& profile);

// Of the devices that did much.
void measure_roofs(Profile& profile);

// A folder for its files, made before there are any, so that one that cannot be is told early: throws kIo. A
// new one goes again when nothing was written to it.
class Folder {
 public:
  explicit Folder(std::filesystem::path folder);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

 private:
  const std::filesystem::path folder_;
  bool is_new_;
};

// By begin.
std::vector<Profile::Span> first_spans(const timeline::Collected& collected, std::size_t most);

}  // namespace profiling
}  // namespace systole
