#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::codegen {

// Of kernels that go over rows in passes: the full values that a pass needs and an earlier one has computed,
// those nearest to what the later pass wants. `wanted` are by pass the nodes that it reduces or stores.
std::set<std::int32_t> read_again(const ir::Graph& graph, std::int64_t full_count,
                                  const std::vector<std::vector<std::int32_t>>& wanted,
                                  const std::function<bool(const ir::Node&)>& is_keepable);

}  // namespace systole::codegen
