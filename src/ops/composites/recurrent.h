#pragma once

// An LSTM cut where a backend may cut it: the products over all steps on one side, and on the other its loops
// as composites, whose bodies are the loops of `lstm` and `lstm_grad` themselves.

#include <string_view>

#include "systole/ir/graph.h"

namespace systole::ops {

// (x's share of the gates [t,b,4h], bias [4h], h0, c0 [b,h], r [4h,h]) → y [t,b,h], h, c [b,h]. Where it
// keeps what the way back reads: h0 and every h [t+1,b,h] in place of y, then the gates [t,b,4h] after their
// functions, and c0 and every c [t+1,b,h].
inline constexpr std::string_view kLstmLoop = "lstm_loop";
// (grad_y [t,b,h], grad_h, grad_c [b,h], gates, c0 and every c, r) → the gradients by h0, c0 and the gates
// before their functions [t,b,4h].
inline constexpr std::string_view kLstmLoopGrad = "lstm_loop_grad";

struct LstmKept {
  ir::Value states, gates, cells;
};

// `lstm` of these operands by products and kLstmLoop; it keeps what it is given a place for.
ir::Values lstm_by_loop(const ir::Values& operands, LstmKept* kept = nullptr);
// `lstm_grad` of these operands by products and kLstmLoopGrad.
ir::Values lstm_grad_by_loop(const ir::Values& operands, const LstmKept& kept);

}  // namespace systole::ops
