#pragma once

// Finds work that a library does along with a product, in a whole graph: a bias, relu, gelu, gelu's gradient
// on the way back, gradients of biases. The product becomes a composite (on_result.h) with as many results as
// are wanted. What else reads gelu's operand reads it as the library stores it; what else reads relu's
// operand reads its result, where that says the same. So nothing is kept for the way back but what the
// library keeps.

#include <cstdint>
#include <functional>
#include <string>

#include "compile/target.h"

namespace systole::patterns {

// One call for the product and the work, or two: the flat regions of both, the bytes that do not go through
// memory when it is one. Empty when it is to be one, else why not.
using Judge =
    std::function<std::string(const lower::Region& whole, const lower::Region& bare, std::int64_t saved)>;

// Dead nodes are left for the passes.
ir::Graph with_epilogues(const ir::Graph& graph, const Judge& judge);

}  // namespace systole::patterns
