#pragma once

// tpu::resolve() with what it looks at besides variables, for tests.

#include <chrono>
#include <filesystem>
#include <string_view>

#include "systole/backend/tpu.h"

namespace systole::tpu {

struct Machine {
  std::filesystem::path root = "/";                 // of the device files
  std::chrono::milliseconds metadata_limit{3'000};  // for all questions together
};

Cluster resolve(std::string_view name, Metadata metadata, const Machine& machine);

}  // namespace systole::tpu
