#pragma once

// How a sharded graph lies on one device of its mesh, before a partitioner has seen it: the shardings of
// inputs followed through the ops. Where an op mixes dimensions the split is given up, so that sizes are
// never taken for smaller than they are.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "systole/base/shape.h"
#include "systole/ir/graph.h"

namespace systole::tpu {

using Parts = Ints;  // for each dimension, the number of devices that share it

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
inline bool is_in(const Ints& axes, std::size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(axis)) != axes.end();
}

Parts whole(const Type& type);
// The larger of the two for every dimension.
Parts joined(Parts a, const Parts& b);
// As the value's own sharding says; nothing when it has none.
std::optional<Parts> own_parts(const ir::Node& node, std::size_t result, const std::optional<ir::Mesh>& mesh);
// Of the first result of a node without sub-graphs.
Parts parts_through(const ir::Graph& graph, const ir::Node& node, const std::vector<Parts>& operands);

}  // namespace systole::tpu
