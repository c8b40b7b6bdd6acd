// Dead code: nodes from which no output can be reached go. Inputs stay, since they are the signature; so do
// unused carries of loops, for the same reason.

#include <vector>

#include "compile/match.h"
#include "compile/subgraphs.h"
#include "systole/compile/passes.h"
#include "systole/ir/rewriter.h"

namespace systole::passes {

namespace {

std::vector<bool> live_nodes(const ir::Graph& graph) {
  std::vector<bool> live(static_cast<std::size_t>(graph.size()));
  for (const ir::Output& output : graph.outputs()) live[static_cast<std::size_t>(output.value.node)] = true;
  for (std::int32_t i = graph.size(); i-- > 0;)
    if (live[static_cast<std::size_t>(i)])
      for (ir::ValueId v : graph.node(i).operands) live[static_cast<std::size_t>(v.node)] = true;
  return live;
}

// Not a rewrite: that gives every result of every node a successor, and dead ones have none.
ir::Graph swept(const ir::Graph& graph, Subgraphs& subgraphs) {
  const std::vector<bool> live = live_nodes(graph);
  ir::Graph out(graph.name());
  out.set_comments(graph.comments());
  if (graph.mesh()) out.set_mesh(*graph.mesh());
  std::vector<Values> mapped(live.size());
  const auto find = [&](ir::ValueId v) {
    return mapped[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  };
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(i);
    Values& results = mapped[static_cast<std::size_t>(i)];
    if (node.op == Op::input) {
      const auto& attrs = node.as<ir::InputAttrs>();
      results = {out.input(attrs.name, node.types[0], attrs.alias)};
      if (!node.shardings.empty() && node.shardings[0]) out.set_sharding(results[0], *node.shardings[0]);
      if (node.debug) out.set_debug(results[0].id().node, *node.debug);
    } else if (live[static_cast<std::size_t>(i)]) {
      Values operands;
      for (ir::ValueId v : node.operands) operands.push_back(find(v));
      results =
          ir::copy_node(out, node, operands,
                        subgraphs.turned(node, [&](const ir::Graph& g) { return swept(g, subgraphs); }));
    }
  }
  for (const ir::Output& output : graph.outputs()) out.output(find(output.value), output.name);
  return out;
}

}  // namespace

ir::Graph dce(const ir::Graph& graph) {
  Subgraphs subgraphs;
  return swept(graph, subgraphs);
}

}  // namespace systole::passes
