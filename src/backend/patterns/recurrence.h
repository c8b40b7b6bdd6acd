#pragma once

// LSTMs cut into products over all steps, which stay with whoever does products, and their loops as one
// composite each way (ops/composites/recurrent.h), for backends that have kernels for these.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compile/target.h"

namespace systole::patterns {

struct LstmLoop {
  std::int64_t length = 0, batch = 0, hidden = 0;
  bool is_grad = false;
  bool keeps = false;                 // forwards: what the way back reads
  std::vector<std::size_t> operands;  // which of the region's inputs each is
  std::size_t inputs = 0;             // of the region
};

// Whether a backend has kernels for the loops of an LSTM of f32 of these sizes; of `keeps` nothing is known
// yet.
using SuitsLstm = std::function<bool(const LstmLoop&)>;

// The graph with every `lstm` and `lstm_grad` that is suited cut into products and loops. A loop whose
// gradient is in the same graph keeps what that reads.
ir::Graph with_lstm_loops(const ir::Graph& graph, const SuitsLstm& suits);

bool is_lstm_loop(const ir::Node& node);
// Empty when the region is such a loop and nothing else, or why not.
std::string read_lstm_loop(const lower::Region& region, LstmLoop& out);

}  // namespace systole::patterns
