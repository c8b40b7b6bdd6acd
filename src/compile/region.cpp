// A group cut out of its graph.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "compile/fuse.h"
#include "systole/ir/rewriter.h"

namespace systole::lower {

GroupRegion region_of(const ir::Graph& graph, const Group& group,
                      const std::function<bool(std::int32_t)>& is_wanted) {
  GroupRegion out;
  ir::Graph& region = out.region.graph;
  std::map<std::pair<std::int32_t, std::int32_t>, ir::Value> known;
  std::vector<std::int32_t> nodes;
  std::merge(group.nodes.begin(), group.nodes.end(), group.inlined.begin(), group.inlined.end(),
             std::back_inserter(nodes));
  const std::set<std::int32_t> inside(nodes.begin(), nodes.end());
  for (const std::int32_t i : nodes)
    for (const ir::ValueId v : graph.node(i).operands)
      if (!inside.contains(v.node) && !known.contains({v.node, v.index})) {
        known[{v.node, v.index}] = region.input(fmt::format("i{}", out.inputs.size()), graph.type(v));
        out.inputs.push_back(v);
      }
  for (const std::int32_t i : nodes) {
    const ir::Node& node = graph.node(i);
    ir::Values operands;
    for (const ir::ValueId v : node.operands) operands.push_back(known.at({v.node, v.index}));
    const ir::Values results = ir::copy_node(region, node, operands, node.graphs);
    for (std::size_t r = 0; r < results.size(); ++r) known[{i, static_cast<std::int32_t>(r)}] = results[r];
    if (i == group.anchor) out.region.anchor = results[0].id().node;
  }
  for (const std::int32_t i : group.nodes) {
    if (!is_wanted(i)) continue;
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(graph.node(i).types.size()); ++r) {
      region.output(known.at({i, r}));
      out.outputs.push_back({i, r});
    }
  }
  return out;
}

}  // namespace systole::lower
