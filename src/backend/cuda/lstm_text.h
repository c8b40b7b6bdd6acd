#pragma once

// The loops of an LSTM as CUDA source (ops/composites/recurrent.h), one launch for all steps.

#include <cstdint>
#include <string>

#include "backend/patterns/recurrence.h"

namespace systole::cuda {

inline constexpr int kLstmThreads = 256;
inline constexpr std::int64_t kLstmUnits = 32;        // hidden units of a block
inline constexpr std::int64_t kLstmMostHidden = 256;  // eight blocks, as many as any card's cluster has

// The loop's blocks, of kLstmThreads threads.
std::int64_t lstm_blocks(const patterns::LstmLoop& loop);
// The kernel `name`; its parameters are the composite's operands and results, in order.
std::string lstm_loop_text(const patterns::LstmLoop& loop, const std::string& name);

}  // namespace systole::cuda
