#pragma once

// Training: model, optimiser and data on the current device, a step compiled.

#include <string>

#include "cli/bench/prepared.h"
#include "systole/ir/graph.h"
#include "systole/tensor/mesh.h"

namespace systole::cli::bench {

Prepared prepare_training(const Workload& work, const std::string& mode);

// One step over all devices of the mesh as a graph, with the batch split among them: forward, backward,
// optimiser. Nothing is run, and no data is made.
ir::Graph step_graph(const Workload& work, const DeviceMesh& mesh);
ir::Graph step_graph(const Workload& work);  // for one device

}  // namespace systole::cli::bench
