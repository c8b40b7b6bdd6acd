#pragma once

// E1: the MLP of T1 on MNIST through the Trainer, five epochs of whole batches, as the peers' suite measures
// it: pictures normalised and in memory before the clock starts.

#include <filesystem>
#include <string_view>
#include <vector>

#include "systole/runtime.h"

namespace systole::cli::bench {

inline constexpr std::string_view kEndToEnd = "E1";
inline constexpr std::int64_t kEndToEndBatch = 64;

struct EndToEnd {
  std::vector<double> epochs;  // seconds
  double test_accuracy = 0;
  std::int64_t test_images = 0;
};
EndToEnd run_end_to_end(const std::filesystem::path& mnist, std::int64_t batch, runtime::Math math);

}  // namespace systole::cli::bench
