// Composites replaced by their bodies, innermost first. What came from a composite says so in its debug
// scope. A graph counts its sub-graphs at each use (Graph::expanded_size), so inlining never makes it larger
// than it was allowed to be.

#include "compile/match.h"
#include "compile/subgraphs.h"
#include "systole/compile/passes.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"

namespace systole::passes {

namespace {

std::string joined(std::string outer, const std::string& inner) {
  if (!outer.empty() && !inner.empty()) outer += '/';
  return outer + inner;
}

// Puts the nodes from `first` on under the scope of the composite.
void set_scope(Graph& graph, std::int32_t first, const ir::Node& composite) {
  const std::string& name = composite.as<ir::CompositeAttrs>().name;
  const std::string scope = joined(composite.debug ? composite.debug->scope : "", name);
  for (std::int32_t i = first; i < graph.size(); ++i) {
    ir::DebugInfo debug = graph.node(i).debug ? *graph.node(i).debug : ir::DebugInfo{};
    debug.scope = joined(scope, debug.scope);
    graph.set_debug(i, std::move(debug));
  }
}

void set_shardings(Graph& graph, std::int32_t first, const ir::Node& composite, const Values& results) {
  for (std::size_t i = 0; i < composite.shardings.size(); ++i)
    if (composite.shardings[i] && results[i].id().node >= first)
      graph.set_sharding(results[i], *composite.shardings[i]);
}

using Keep = std::function<bool(const ir::Node&)>;

ir::Graph inlined(const ir::Graph& graph, Subgraphs& subgraphs, const Keep& keep, KeptBodies bodies) {
  const auto rule = [&](const ir::Rewrite& r) -> std::optional<Values> {
    const bool is_kept = r.node.op == Op::composite && keep && keep(r.node);
    if (is_kept && bodies == KeptBodies::as_they_are)
      return ir::copy_node(r.graph, r.node, r.operands, r.node.graphs);
    std::vector<ir::GraphRef> graphs =
        subgraphs.turned(r.node, [&](const ir::Graph& g) { return inlined(g, subgraphs, keep, bodies); });
    if (r.node.op != Op::composite || is_kept)
      return ir::copy_node(r.graph, r.node, r.operands, std::move(graphs));
    const std::int32_t first = r.graph.size();
    Values results = ir::inline_graph(r.graph, *graphs[0], r.operands);
    set_scope(r.graph, first, r.node);
    set_shardings(r.graph, first, r.node, results);
    return results;
  };
  return ir::rewrite(graph, rule, {.subgraphs = false});
}

}  // namespace

ir::Graph inline_composites(const ir::Graph& graph) { return inline_composites_except(graph, {}); }

ir::Graph inline_composites_except(const ir::Graph& graph, const Keep& keep, KeptBodies bodies) {
  Subgraphs subgraphs;
  return inlined(graph, subgraphs, keep, bodies);
}

}  // namespace systole::passes
