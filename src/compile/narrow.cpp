#include "compile/narrow.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "systole/ir/rewriter.h"

namespace systole::lower {

namespace {

bool is_wide(const ir::Node& node) {
  return (node.op == ir::Op::concat || node.op == ir::Op::sort) && node.operands.size() > kMostJoined;
}

// Operands after the first follow it, and equal elements keep their order: each part sorts the first again.
ir::Values sorted_in_parts(const ir::Rewrite& rewrite) {
  ir::Values results;
  for (std::size_t i = 1; i < rewrite.operands.size(); i += kMostJoined - 1) {
    const std::size_t end = std::min(i + kMostJoined - 1, rewrite.operands.size());
    ir::Values part{rewrite.operands[0]};
    for (std::size_t k = i; k < end; ++k) part.push_back(rewrite.operands[k]);
    const ir::Values sorted = rewrite.graph.add_multi(ir::Op::sort, part, rewrite.node.attrs);
    results.insert(results.end(), sorted.begin() + (results.empty() ? 0 : 1), sorted.end());
  }
  return results;
}

std::optional<ir::Values> in_parts(const ir::Rewrite& rewrite) {
  if (!is_wide(rewrite.node)) return std::nullopt;
  if (rewrite.node.op == ir::Op::sort) return sorted_in_parts(rewrite);
  ir::Values parts = rewrite.operands;
  while (parts.size() > 1) {
    ir::Values joined;
    for (std::size_t i = 0; i < parts.size(); i += kMostJoined) {
      const std::span<const ir::Value> all(parts);
      const ir::ValueList some(all.subspan(i, std::min(kMostJoined, parts.size() - i)));
      joined.push_back(some.size() == 1 ? some[0]
                                        : rewrite.graph.add(ir::Op::concat, some, rewrite.node.attrs));
    }
    parts = std::move(joined);
  }
  return parts;
}

}  // namespace

ir::Graph with_narrow_nodes(const ir::Graph& graph) {
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_wide)) return graph;
  return ir::rewrite(graph, in_parts, {.subgraphs = false});
}

}  // namespace systole::lower
