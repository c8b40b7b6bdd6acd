// Builders of collectives. Their groups come from the graph's mesh, which must be set first.

#include <utility>

#include "ops/common.h"

namespace systole::ops {

using ir::Op;

Value all_reduce(Value x, Combine kind, std::vector<std::string> mesh_axes) {
  return graph_of("all_reduce", {x}).add(Op::all_reduce, {x}, ir::AllReduceAttrs{kind, std::move(mesh_axes)});
}

Value all_gather(Value x, std::int64_t axis, std::vector<std::string> mesh_axes) {
  Graph& graph = graph_of("all_gather", {x});
  axis = normalize_axis(axis, x.rank(), "all_gather");
  return graph.add(Op::all_gather, {x}, ir::AllGatherAttrs{axis, std::move(mesh_axes)});
}

Value reduce_scatter(Value x, Combine kind, std::int64_t axis, std::vector<std::string> mesh_axes) {
  Graph& graph = graph_of("reduce_scatter", {x});
  axis = normalize_axis(axis, x.rank(), "reduce_scatter");
  return graph.add(Op::reduce_scatter, {x}, ir::ReduceScatterAttrs{kind, axis, std::move(mesh_axes)});
}

Value all_to_all(Value x, std::int64_t split_axis, std::int64_t concat_axis,
                 std::vector<std::string> mesh_axes) {
  Graph& graph = graph_of("all_to_all", {x});
  split_axis = normalize_axis(split_axis, x.rank(), "all_to_all");
  concat_axis = normalize_axis(concat_axis, x.rank(), "all_to_all");
  return graph.add(Op::all_to_all, {x}, ir::AllToAllAttrs{split_axis, concat_axis, std::move(mesh_axes)});
}

Value collective_permute(Value x, Ints sources, Ints targets, std::vector<std::string> mesh_axes) {
  return graph_of("collective_permute", {x})
      .add(Op::collective_permute, {x},
           ir::PermuteAttrs{std::move(mesh_axes), std::move(sources), std::move(targets)});
}

Value device_index(Graph& graph, std::vector<std::string> mesh_axes) {
  return graph.add(Op::device_index, {}, ir::MeshAxesAttrs{std::move(mesh_axes)});
}

}  // namespace systole::ops
