#pragma once

// One operation on large arrays. Inputs are arguments or Variables; all but the matrix product work in place,
// on their own last result, as the peers' do, so that no memory is made anew.

#include "cli/bench/prepared.h"
#include "systole/ir/graph.h"

namespace systole::cli::bench {

Prepared prepare_kernel(const Workload& work);

ir::Graph kernel_graph(const Workload& work);  // of one call; nothing is run

// What one call moves and computes at least. An exponential, an error function, a root and a division count
// as one operation each.
struct Cost {
  double bytes = 0, operations = 0;
  double intensity() const { return operations / bytes; }
};
Cost cost(const Workload& work);

bool is_square(const Workload& work);  // whether it works on matrices of batch² elements

// Reads and writes every element of an array: -x, into new memory or over x.
enum class Copy { fresh, in_place };
Prepared prepare_copy(std::int64_t elements, Copy form);

}  // namespace systole::cli::bench
