#pragma once

// A graph as StableHLO text in its generic form, which every PJRT plugin parses. Composites are inlined,
// random_bits becomes integer arithmetic, scans become while loops.

#include <cstdint>
#include <string>

#include "systole/ir/graph.h"

namespace systole::codegen {

// Whose annotations say how a sharded graph is split; the compile options must ask for the same.
enum class Partitioner : std::uint8_t { gspmd, shardy };

struct StableHloOptions {
  // Inputs whose memory may be taken by the output their `alias` names get tf.aliasing_output.
  bool donate = true;
  // f32 contractions may run in the device's own matrix format (TF32, bf16) instead of full f32.
  bool reduced_precision = false;
  Partitioner partitioner = Partitioner::gspmd;
};

// What the program must be compiled for. A graph with collectives runs as replicas of one partition, one with
// shardings as partitions of one replica; without a mesh both are 1.
struct DeviceCounts {
  std::int64_t replicas = 1, partitions = 1;
};
DeviceCounts device_counts(const ir::Graph& graph);

// `graph` is static. Throws kUnsupported naming the op for what StableHLO cannot say (a kernel without a
// body).
std::string stablehlo(const ir::Graph& graph, const StableHloOptions& options = {});

}  // namespace systole::codegen
