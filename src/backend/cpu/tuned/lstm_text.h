#pragma once

// The C text of an LSTM's loops, for sizes that are known. Results are those of row after row, whichever rows
// a call is given.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/patterns/recurrence.h"

namespace systole::cpu {

// Of its operands: which buffer each is; results follow the inputs, then the workspace.
using patterns::LstmLoop;

std::int64_t lstm_workspace(const LstmLoop& loop);  // bytes, for r in the order in which it is read
// Puts r in that order.
std::string lstm_pack_text(const LstmLoop& loop, const std::string& name);
std::int64_t lstm_pack_items(const LstmLoop& loop);
// An item is a row of the batch.
std::string lstm_loop_text(const LstmLoop& loop, const std::string& name);

}  // namespace systole::cpu
