#pragma once

// A model run forwards, always on the same batch. Its weights are inputs of the program, not constants.

#include "cli/bench/prepared.h"

namespace systole::cli::bench {

Prepared prepare_inference(const Workload& work);

}  // namespace systole::cli::bench
