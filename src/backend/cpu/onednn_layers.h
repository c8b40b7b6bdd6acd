#pragma once

// Whole layers by oneDNN, where it does what the graph says and takes no longer than generated kernels: means
// over windows. What is left out, and why:
//
//   maxima        the library's pass over what is no number
//   batch norms   it sums each channel in one run, which rounds more than is promised when it is long; short
//                 ones, and those for inference, generated kernels do together with their neighbours
//   lstm, gru     its kernels take as long as ours or longer, which join the step with what stands around it

#include "backend/cpu/onednn_plan.h"

namespace systole::cpu {

// The region's anchor is a layer (patterns/layers.h).
Made make_onednn_layer(const lower::Region& region);

}  // namespace systole::cpu
