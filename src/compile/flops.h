#pragma once

// How many arithmetic operations a graph needs, for rates: two for each pair that a contraction multiplies
// and adds, one for each result of elementwise work and each element that is reduced, none for movement.
// Loops count as often as they run, those of unknown length once.

#include <cstdint>

#include "systole/base/dtype.h"
#include "systole/ir/attrs.h"
#include "systole/ir/graph.h"

namespace systole::passes {

double flops(const ir::Graph& graph);

// What they are done in: the operands' of the largest contraction, else the first result's.
DType flops_dtype(const ir::Graph& graph);

// Pairs of a result and a kernel position that meet an element along one axis of a convolution, not padding
// or a hole between elements.
double convolution_meetings(std::int64_t in, std::int64_t kernel, std::int64_t out,
                            const ir::ConvolutionAttrs& attrs, std::size_t axis);

}  // namespace systole::passes
