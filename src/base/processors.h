#pragma once

// How many processors this process may use: those of its affinity, and no more than the quotas of its control
// groups give it time for. A container with half a core sees all processors of its host otherwise.

#include <filesystem>
#include <optional>
#include <string>

namespace systole {

// Processors' worth of time that control groups of version 1 and 2 give, the least of a group and those above
// it; nothing without a quota. `root` is where /proc and /sys lie.
std::optional<double> processor_quota(const std::filesystem::path& root = "/");

// At least 1; a part of a processor counts as one.
int available_processors();

}  // namespace systole
