#pragma once

// Movement that needs no copy: a value whose elements lie in another's memory at places that are sums of
// multiples of its indices. A contraction reads its operands so, whatever order they were computed in.

#include <cstdint>
#include <optional>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::lower {

struct Strided {
  // An axis is one or more pieces, the outermost first: 6 = 2 · 3 after a transpose and a reshape, say.
  struct Piece {
    std::int64_t size, stride;
  };
  ir::ValueId source;
  std::int64_t offset = 0;
  std::vector<std::vector<Piece>> axes;  // none for an axis of size 1
};

// `stops(node)` says which nodes are in memory; nothing when something between them and `v` is no such
// movement.
template <class Stops>
std::optional<Strided> strided(const ir::Graph& graph, ir::ValueId v, const Stops& stops);

// By one movement: reshape, transpose, broadcast or slice.
std::optional<Strided> moved(const ir::Graph& graph, const ir::Node& node, const Strided& operand);
Strided whole(const ir::Graph& graph, ir::ValueId v);

template <class Stops>
std::optional<Strided> strided(const ir::Graph& graph, ir::ValueId v, const Stops& stops) {
  if (stops(v.node)) return whole(graph, v);
  const ir::Node& node = graph.node(v.node);
  if (node.operands.size() != 1) return std::nullopt;
  const std::optional<Strided> operand = strided(graph, node.operands[0], stops);
  return operand ? moved(graph, node, *operand) : std::nullopt;
}

}  // namespace systole::lower
