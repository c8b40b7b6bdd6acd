// The driver of vmap: walks a graph in order, copies what no mapped input reaches and asks the op's rule for
// the rest. Where a node came from is kept on everything built for it; shardings leave the new axis whole.

#include <fmt/format.h>
#include <algorithm>
#include <memory>

#include "autodiff/batch/batch.h"
#include "systole/autodiff.h"
#include "systole/base/error.h"
#include "systole/ir/rewriter.h"

namespace systole::autodiff {

namespace batch {

namespace {

Shape prefixed(Dim size, const Shape& example) {
  Shape shape{size};
  for (const Dim& d : example) shape.push_back(d);
  return shape;
}

ir::Sharding with_whole_axis(ir::Sharding sharding) {
  sharding.dims.insert(sharding.dims.begin(), ir::MeshAxisNames{});
  return sharding;
}

void set_origin(Graph& graph, const Node& node, std::int32_t first, const Values& results) {
  if (node.debug) {
    ir::DebugInfo place = *node.debug;
    place.names.clear();
    place.comment.clear();
    for (std::int32_t i = first; i < graph.size(); ++i)
      if (!graph.node(i).debug) graph.set_debug(i, place);
    const std::int32_t last = results.empty() ? -1 : results[0].id().node;
    if (last >= first && graph.node(last).types.size() == node.types.size())
      graph.set_debug(last, *node.debug);
  }
  for (std::size_t r = 0; r < node.shardings.size(); ++r)
    if (node.shardings[r] && graph.mesh() && results[r].id().node >= first)
      graph.set_sharding(results[r], results[r].type() == node.types[r]
                                         ? *node.shardings[r]
                                         : with_whole_axis(*node.shardings[r]));
}

}  // namespace

Graph Mapper::map(const Graph& graph, const Flags& inputs, const Flags& outputs) {
  const std::vector<Flags>& flow = values(graph, inputs);
  const auto has_axis = [&](ir::ValueId v) -> bool {
    return flow[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  };
  const auto wanted = [&](const Type& type, bool axis) {
    return axis ? Type{type.dtype, prefixed(size_, type.shape)} : type;
  };
  Graph out(graph.name());
  out.set_comments(graph.comments());
  if (graph.mesh()) out.set_mesh(*graph.mesh());
  std::vector<Values> mapped;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const Flags& results = flow[static_cast<std::size_t>(i)];
    const std::int32_t first = out.size();
    if (node.op == Op::input) {
      mapped.push_back({out.input(node.as<ir::InputAttrs>().name, wanted(node.types[0], results[0]))});
      set_origin(out, node, first, mapped.back());
      continue;
    }
    Values operands;
    Flags batched;
    for (ir::ValueId v : node.operands) {
      operands.push_back(mapped[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
      batched.push_back(has_axis(v));
    }
    if (std::find(batched.begin(), batched.end(), true) == batched.end()) {
      mapped.push_back(ir::copy_node(out, node, operands, node.graphs));
      continue;
    }
    mapped.push_back(map_node({node, out, operands, batched, results, *this}));
    for (std::size_t r = 0; r < node.types.size(); ++r)
      if (const Type type = wanted(node.types[r], results[r]); !(mapped.back()[r].type() == type))
        throw Error(ErrorKind::kInternal, fmt::format("vmap of {}", ir::name(node.op)),
                    "a result of the wrong type", type.to_string(), mapped.back()[r].type().to_string());
    set_origin(out, node, first, mapped.back());
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ir::Output& o = graph.outputs()[i];
    Value value = mapped[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.index)];
    if (outputs[i] && !has_axis(o.value)) value = ops::broadcast_to(value, prefixed(size_, value.shape()));
    out.output(value, o.name);
  }
  return out;
}

GraphRef Mapper::subgraph(const GraphRef& graph, const Flags& inputs, const Flags& outputs) {
  auto key = std::make_tuple(graph.get(), inputs, outputs);
  if (const auto found = subgraphs_.find(key); found != subgraphs_.end()) return found->second.mapped;
  auto mapped = std::make_shared<const Graph>(map(*graph, inputs, outputs));
  return subgraphs_.emplace(std::move(key), Subgraph{graph, std::move(mapped)}).first->second.mapped;
}

Shape Mapped::with_axis(const Shape& example) const { return prefixed(size(), example); }

Shape Mapped::example(std::size_t i) const {
  const Shape& shape = x[i].shape();
  return batched[i] ? Shape(std::span<const Dim>(shape.begin() + 1, shape.end())) : shape;
}

Value Mapped::spread(Value v, bool has_axis, const Shape& example) const {
  const int axes_there = v.rank() - (has_axis ? 1 : 0);
  if (has_axis && axes_there == example.rank()) return v;
  Ints axes;
  if (has_axis) axes.push_back(0);
  for (int i = 0; i < axes_there; ++i) axes.push_back(i + 1);
  return ops::broadcast(v, with_axis(example), std::move(axes));
}

Values Mapped::spread_all() const {
  Values all;
  for (std::size_t i = 0; i < x.size(); ++i) all.push_back(spread(i));
  return all;
}

void Mapped::refuse(std::string why) const {
  throw Error(ErrorKind::kUnsupported, fmt::format("vmap of {}", ir::name(node.op)), std::move(why));
}

}  // namespace batch

Batched vmap(const ir::Graph& graph, const std::vector<bool>& batched, Dim size) {
  if (batched.size() != graph.inputs().size())
    throw Error(ErrorKind::kInvalidArgument, "vmap of graph @" + graph.name(),
                "one flag per input says what is mapped", std::to_string(graph.inputs().size()),
                std::to_string(batched.size()));
  if (size.is_static() && size.value() < 0)
    throw Error(ErrorKind::kInvalidArgument, "vmap of graph @" + graph.name(), "the size of the mapped axis",
                "0 or more", size.to_string());
  batch::Mapper mapper(size);
  const std::vector<bool> outputs = mapper.outputs(graph, batched);
  return {mapper.map(graph, batched, outputs), outputs};
}

}  // namespace systole::autodiff
