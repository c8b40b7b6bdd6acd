#pragma once

// A model run forwards, always on the same batch. Its weights are inputs of the program, not constants.

#include "cli/bench/prepared.h"
#include "systole/ir/graph.h"

namespace systole::cli::bench {

Prepared prepare_inference(const Workload& work);

ir::Graph forward_graph(const Workload& work);  // nothing is run

}  // namespace systole::cli::bench
