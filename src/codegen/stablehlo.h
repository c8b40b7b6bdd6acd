#pragma once

// A graph as StableHLO text in its generic form, which every PJRT plugin parses. Composites are inlined,
// random_bits becomes integer arithmetic, scans become while loops.

#include <string>

#include "systole/ir/graph.h"

namespace systole::codegen {

struct StableHloOptions {
  // Inputs whose memory may be taken by the output their `alias` names get tf.aliasing_output.
  bool donate = true;
};

// `graph` is static. Throws kUnsupported naming the op for what StableHLO cannot say (a kernel without a body).
std::string stablehlo(const ir::Graph& graph, const StableHloOptions& options = {});

}  // namespace systole::codegen
