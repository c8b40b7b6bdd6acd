#include "compile/product_work.h"

#include <algorithm>
#include <set>

namespace systole::lower {

namespace {

using Nodes = std::set<std::int32_t>;

// Of the group's nodes those that others read or that leave the graph.
Nodes stored_of(const Groups& groups, std::int32_t group) {
  Nodes stored;
  for (const std::int32_t i : groups[group].nodes)
    if (groups.is_output(i)) stored.insert(i);
  for (const std::int32_t reader : groups[group].readers)
    for (const Link& link : groups.sources(reader))
      if (groups.of(link.source) == group) stored.insert(link.source);
  return stored;
}

// The work of its group that makes the node of the product at every point, and of what the product waits for
// anyway; none when it takes more, in memory too: an f32 of a product in f16 is made again where it is read.
Nodes work_for(const ir::Graph& graph, Groups& groups, std::int32_t product, std::int32_t node) {
  const Type& made = graph.node(groups[product].anchor).types[0];
  if (size_of(graph.node(node).types[0].dtype) > size_of(made.dtype)) return {};
  const std::int64_t points = made.shape.count();
  Nodes work = {node};
  std::vector<std::int32_t> stack = {node};
  bool reads_product = false;
  while (!stack.empty()) {
    const std::int32_t i = stack.back();
    stack.pop_back();
    if (ir::info(graph.node(i).op).op_class != ir::OpClass::elementwise ||
        graph.node(i).types[0].shape.count() != points)
      return {};
    for (const Link& link : groups.sources(i)) {
      const std::int32_t source = groups.of(link.source);
      if (source == groups.of(node)) {
        if (work.insert(link.source).second) stack.push_back(link.source);
      } else if (source == product) {
        if (link.reads != Link::Reads::same) return {};
        reads_product = true;
      } else if (source >= 0 && !groups.depends(source, product)) {
        return {};
      }
    }
  }
  return reads_product ? work : Nodes{};
}

}  // namespace

std::vector<std::int32_t> work_on_product(const ir::Graph& graph, Groups& groups, std::int32_t product,
                                          std::int32_t rows) {
  const Nodes stored = stored_of(groups, rows);
  Nodes found;
  for (const std::int32_t i : stored) {
    const Nodes work = work_for(graph, groups, product, i);
    const auto is_handed_on = [&](const Link& link) {
      return work.contains(link.source) && !stored.contains(link.source);
    };
    const bool hands_on_more =
        std::any_of(groups[rows].nodes.begin(), groups[rows].nodes.end(), [&](std::int32_t reader) {
          const std::vector<Link>& sources = groups.sources(reader);
          return !work.contains(reader) && std::any_of(sources.begin(), sources.end(), is_handed_on);
        });
    if (!hands_on_more) found.insert(work.begin(), work.end());
  }
  return {found.begin(), found.end()};
}

std::vector<std::int32_t> judgement_of_product(const ir::Graph& graph, Groups& groups, std::int32_t product,
                                               std::int32_t rows) {
  const std::vector<std::int32_t>& all = groups[rows].nodes;
  const auto is_reduction = [&](std::int32_t i) { return graph.node(i).op == ir::Op::reduce; };
  const auto found = std::find_if(all.begin(), all.end(), is_reduction);
  if (found == all.end() || std::count_if(all.begin(), all.end(), is_reduction) != 1) return {};
  const ir::Node& reduction = graph.node(*found);
  const std::int32_t judged = reduction.operands[0].node;
  if (reduction.as<ir::ReduceAttrs>().kind != ir::Combine::bitwise_and ||
      reduction.types[0].dtype != DType::boolean || reduction.types[0].shape.count() != 1 ||
      groups.of(judged) != rows)
    return {};
  const Nodes work = work_for(graph, groups, product, judged);
  const Nodes stored = stored_of(groups, rows);
  const auto is_left = [&](std::int32_t i) { return i != *found && !work.contains(i); };
  const bool is_all = std::all_of(all.begin(), all.end(), [&](std::int32_t i) {
    if (!is_left(i)) return i == *found || !stored.contains(i);
    const std::vector<Link>& sources = groups.sources(i);
    return std::none_of(sources.begin(), sources.end(),
                        [&](const Link& link) { return work.contains(link.source); });
  });
  if (work.empty() || !is_all) return {};
  std::vector<std::int32_t> nodes(work.begin(), work.end());
  nodes.push_back(*found);
  return nodes;
}

}  // namespace systole::lower
