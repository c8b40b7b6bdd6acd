#pragma once

// data::open with what it learns beside the samples.

#include <cstdint>
#include <string_view>

#include "systole/data/sets.h"

namespace systole::data {

struct Opened {
  TrainTest both;
  std::int32_t rate = 0;  // of sound, samples in a second
};
Opened open_all(std::string_view spec);

}  // namespace systole::data
