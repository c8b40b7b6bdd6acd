#pragma once

// LSTMs with their loops over the steps as one kernel each way (ops/composites/recurrent.h). The products
// over all steps stay with whoever does products. Rows of the batch never meet in a loop, so threads take
// rows and go through all steps without waiting for each other.

#include "backend/cpu/tuned/tuned.h"

namespace systole::cpu {

// The graph with every `lstm` and `lstm_grad` that kernels are written for cut into products and loops. A
// loop whose gradient is in the same graph keeps what that reads.
ir::Graph with_lstm_loops(const ir::Graph& graph);

bool is_recurrence(const ir::Node& node);
Tuned make_recurrence(const lower::Region& region, const std::string& kernel_name);

}  // namespace systole::cpu
