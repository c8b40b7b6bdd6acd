#pragma once

// Passes over graphs.

#include <string_view>

#include "systole/base/dtype.h"
#include "systole/base/export.h"
#include "systole/compile/passes.h"
#include "systole/ir/graph.h"

namespace systole::passes {

// The graph in mixed precision, to be differentiated afterwards: contractions take and give `dtype` (bf16 or
// f16), what loses digits runs in f32, everything else follows its operands; autocast.cpp has the rules.
// Inputs and outputs keep their types, so gradients by f32 inputs are f32. Throws kDType for another dtype.
SYSTOLE_API ir::Graph autocast(const ir::Graph& graph, DType dtype);
// A composite of this name, whose body is what its node carries, stays as it is.
inline constexpr std::string_view kFullPrecision = "full_precision";

}  // namespace systole::passes
