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

// What a graph needs of a record, copied: the graph is built without the records' lock.
struct CutNode {
  enum class Kind : std::uint8_t { none, input, literal, result, op };
  Kind kind = Kind::none;  // none: an equal node before it takes its place
  ir::Op op = ir::Op::constant;
  std::uint32_t index = 0;                // of a result
  std::int32_t input = -1;                // the number of an input
  SmallVector<std::int32_t, 3> operands;  // positions
  ir::Attrs attrs;
  std::vector<ir::GraphRef> graphs;
  Literal literal;
};

// Of `order`, operands first. `input` gives, by position, the number of the input that stands for a record,
// or -1; `same` the position of an equal record before it, or its own (empty: all differ). The caller holds
// record_mutex().
std::vector<CutNode> cut_nodes(std::span<Record* const> order, std::span<const std::int32_t> input,
                               std::span<const std::int32_t> same);

// An output is of a node that is there: `same` is applied to it.
ir::Graph build_graph(std::span<const CutNode> nodes, std::span<const Type> inputs,
                      std::span<const CutOutput> outputs);

// Words that are equal exactly when the attributes, types or literals are.
using Words = std::vector<std::uint64_t>;
void append(Words& words, const ir::Attrs& attrs);
void append(Words& words, const Type& type);
void append(Words& words, const Literal& literal);

}  // namespace systole::recording
