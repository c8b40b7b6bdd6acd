#include "systole/ir/rewriter.h"

#include <fmt/format.h>
#include <unordered_map>

namespace systole::ir {

namespace {

// Sub-graphs are shared, so each is rewritten once.
using Done = std::unordered_map<const Graph*, GraphRef>;

Graph rewrite_graph(const Graph& graph, const Rule& rule, const RewriteOptions& options, Done& done);

GraphRef rewrite_shared(const GraphRef& graph, const Rule& rule, const RewriteOptions& options, Done& done) {
  if (const auto it = done.find(graph.get()); it != done.end()) return it->second;
  auto fresh = std::make_shared<const Graph>(rewrite_graph(*graph, rule, options, done));
  // An untouched body stays the same object, so that sharing survives.
  const GraphRef result = fresh->same_structure(*graph) ? graph : fresh;
  done.emplace(graph.get(), result);
  return result;
}

Graph rewrite_graph(const Graph& graph, const Rule& rule, const RewriteOptions& options, Done& done) {
  Graph out(graph.name());
  out.set_comments(graph.comments());
  if (graph.mesh()) out.set_mesh(*graph.mesh());
  std::vector<Values> mapped(static_cast<std::size_t>(graph.size()));
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    Values& results = mapped[static_cast<std::size_t>(i)];
    if (node.op == Op::input) {
      const auto& attrs = node.as<InputAttrs>();
      const Value input = out.input(attrs.name, node.types[0], attrs.alias);
      if (!node.shardings.empty() && node.shardings[0]) out.set_sharding(input, *node.shardings[0]);
      if (node.debug) out.set_debug(input.id().node, *node.debug);
      results = {input};
      continue;
    }
    Values operands;
    operands.reserve(node.operands.size());
    for (ValueId v : node.operands)
      operands.push_back(mapped[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
    std::optional<Values> replaced = rule({graph, node, i, out, operands});
    if (replaced) {
      if (replaced->size() != node.types.size())
        throw Error(ErrorKind::kInternal, std::string(name(node.op)),
                    "a rewrite gives the wrong number of results");
      for (std::size_t r = 0; r < replaced->size(); ++r)
        if (!((*replaced)[r].type() == node.types[r]))
          throw Error(ErrorKind::kInternal, std::string(name(node.op)), "a rewrite changes a type",
                      node.types[r].to_string(), (*replaced)[r].type().to_string());
      results = std::move(*replaced);
      continue;
    }
    std::vector<GraphRef> graphs = node.graphs;
    if (options.subgraphs)
      for (GraphRef& g : graphs) g = rewrite_shared(g, rule, options, done);
    results = copy_node(out, node, operands, std::move(graphs));
  }
  for (const Output& o : graph.outputs())
    out.output(mapped[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.index)],
               o.name);
  return out;
}

}  // namespace

Graph rewrite(const Graph& graph, const Rule& rule, const RewriteOptions& options) {
  Done done;
  return rewrite_graph(graph, rule, options, done);
}

Values copy_node(Graph& into, const Node& node, const Values& operands, std::vector<GraphRef> graphs) {
  const Values results = into.add_multi(node.op, operands, node.attrs, std::move(graphs));
  for (std::size_t r = 0; r < node.shardings.size(); ++r)
    if (node.shardings[r] && into.mesh()) into.set_sharding(results[r], *node.shardings[r]);
  if (node.debug) into.set_debug(into.size() - 1, *node.debug);
  return results;
}

}  // namespace systole::ir
