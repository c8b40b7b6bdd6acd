#pragma once

// Indices that lie outside: gather, dynamic_slice and dynamic_update_slice clamp them, scatter skips them
// (docs/ir.md), and a cross_entropy label outside the classes gives NaN. A checked program counts them as one
// more output, which a program without the check does not have.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::recording {

// The setting, or what SYSTOLE_CHECK says.
bool checks_indices(std::optional<bool> setting = {});

// An op with indices.
struct IndexSite {
  std::string op;        // "embedding of f32[4,2] (emb.weight)"
  std::string operand;   // "i32[3] (argument 0)"
  std::string expected;  // "0 to 3"
  Shape shape;           // of the indices
};

struct IndexChecked {
  ir::Graph graph;
  std::vector<IndexSite> sites;  // empty: the graph is as it was
};

// The composite through which a loss passes its labels in a program that is checked: the identity, with the
// attributes loss (its name), classes and perhaps ignore_index.
inline constexpr std::string_view kCheckedLabels = "checked_labels";

// The graph with one more output before output `position`: i64[sites,3] with the number of indices outside,
// the place of the first and its value. `names` are those of the inputs, for messages. A loop adds up what
// its rounds count; composites that hold such an op are written out.
IndexChecked with_index_counts(const ir::Graph& graph, std::vector<std::string> names, std::size_t position);

// Throws kInvalidArgument naming the first op with indices outside. `report` is that output, or has an axis
// of steps before its own.
void refuse_outside(std::string_view where, std::span<const IndexSite> sites, const Literal& report);

}  // namespace systole::recording
