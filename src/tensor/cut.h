#pragma once

// Records as a graph, for eager evaluation and for traces alike.

#include <cstdint>
#include <span>
#include <vector>

#include "systole/ir/graph.h"
#include "tensor/record.h"

namespace systole::recording {

struct CutOutput {
  std::int32_t position;
  std::int32_t result = 0;
};

// The graph of `order`, operands first. `input` gives, by position, the number of the input that stands for a
// record, or -1; `same` the position of an equal record before it, or its own (empty: all differ).
ir::Graph build_graph(std::span<Record* const> order, std::span<const Type> inputs,
                      std::span<const std::int32_t> input, std::span<const std::int32_t> same,
                      std::span<const CutOutput> outputs);

// Words that are equal exactly when the attributes, types or literals are.
using Words = std::vector<std::uint64_t>;
void append(Words& words, const ir::Attrs& attrs);
void append(Words& words, const Type& type);
void append(Words& words, const Literal& literal);

}  // namespace systole::recording
