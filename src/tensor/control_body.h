#pragma once

// What loops over traced bodies share.

#include <cstddef>
#include <span>
#include <vector>

#include "systole/ir/graph.h"
#include "tensor/trace.h"

namespace systole::recording {

// Which inputs of a traced body, after its stand-ins, are carried from round to round (assigned Variables)
// and which stay the same (Variables only read, captures).
struct Signature {
  Signature(const Traced& traced, std::size_t stand_ins);
  std::vector<std::size_t> carried, constant;
};

// The graph with its inputs in another order and only some of its outputs.
ir::GraphRef with_inputs(const ir::Graph& graph, std::span<const std::size_t> order,
                         std::span<const std::size_t> outputs);

// The type of one entry along axis 0.
inline Type entry_type(const Type& type) {
  Type entry{type.dtype, {}};
  for (std::size_t i = 1; i < type.shape.size(); ++i) entry.shape.push_back(type.shape[i]);
  return entry;
}

}  // namespace systole::recording
