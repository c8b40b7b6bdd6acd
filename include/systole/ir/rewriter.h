#pragma once

// The one way to change a graph: walk it in order, rebuild each node into a new Graph, or put something else
// there.

#include <functional>
#include <optional>

#include "systole/base/export.h"
#include "systole/ir/graph.h"

namespace systole::ir {

// What a rule sees: the old node, the new graph under construction and the node's operands there.
struct Rewrite {
  const Graph& old_graph;
  const Node& node;
  std::int32_t index;  // of the node in old_graph
  Graph& graph;
  const Values& operands;
};

// The replacement of every result of the node, or nothing to copy the node as it is.
using Rule = std::function<std::optional<Values>(const Rewrite&)>;

struct RewriteOptions {
  bool subgraphs = true;  // apply the rule inside sub-graphs too; composite and kernel bodies count
};

// Inputs, outputs, names, mesh, shardings and debug info are kept. A rule is not asked about inputs.
SYSTOLE_API Graph rewrite(const Graph& graph, const Rule& rule, const RewriteOptions& options = {});

// Adds a copy of `node` on `operands`, keeping types' symbols, shardings and debug info; `graphs` replaces
// its sub-graphs.
SYSTOLE_API Values copy_node(Graph& into, const Node& node, const Values& operands,
                             std::vector<GraphRef> graphs);

}  // namespace systole::ir
