#pragma once

// What the TPU compiler said, for people and for programs.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "systole/backend/tpu.h"

namespace systole::cli {

struct TpuResult {
  std::string model, dtype;  // dtype empty: the graph's own
  std::int64_t batch = 0;    // over all devices; 0: unknown
  tpu::Report report;
};

// Rows are figures, columns topologies, in as many blocks as the width needs; then where the first one loses
// time.
std::string tpu_table(const std::vector<TpuResult>& results, int width);
nlohmann::ordered_json tpu_json(const TpuResult& result);

std::string topology_table(const std::vector<tpu::Topology>& topologies);
nlohmann::ordered_json topology_json(const tpu::Topology& topology);

std::string with_prefix(double value, std::string_view unit);  // "1.97 TFLOP", "12.3 µs"

}  // namespace systole::cli
