// Builders of ops that move elements. Lists that may be left out are filled in, axes come out in [0, rank).

#include <string>
#include <utility>

#include "ops/common.h"
#include "systole/base/error.h"

namespace systole::ops {

using ir::Op;

Value reshape(Value x, Shape shape) {
  return graph_of("reshape", {x}).add(Op::reshape, {x}, ir::ReshapeAttrs{std::move(shape)});
}

Value transpose(Value x, Ints permutation) {
  Graph& graph = graph_of("transpose", {x});
  return graph.add(Op::transpose, {x},
                   ir::TransposeAttrs{normalize_axes(std::move(permutation), x.rank(), "transpose")});
}

Value broadcast(Value x, Shape shape, Ints axes) {
  Graph& graph = graph_of("broadcast", {x});
  axes = normalize_axes(std::move(axes), shape.rank(), "broadcast");
  return graph.add(Op::broadcast, {x}, ir::BroadcastAttrs{std::move(shape), std::move(axes)});
}

Value broadcast_to(Value x, Shape shape) {
  graph_of("broadcast_to", {x});
  if (x.shape() == shape) return x;
  const int added = shape.rank() - x.rank();
  const auto fail = [&] {
    throw Error(ErrorKind::kShape, "broadcast_to", "the shape does not stretch to the one wanted",
                shape.to_string(), x.type().to_string());
  };
  if (added < 0) fail();
  Ints axes;
  for (int i = 0; i < x.rank(); ++i) {
    const auto from = static_cast<std::size_t>(i), to = static_cast<std::size_t>(added + i);
    if (x.shape()[from] != shape[to] && x.shape()[from] != Dim(1)) fail();
    axes.push_back(added + i);
  }
  return broadcast(x, std::move(shape), std::move(axes));
}

Value slice(Value x, Ints starts, Shape limits, Ints strides) {
  Graph& graph = graph_of("slice", {x});
  strides = filled(std::move(strides), x.shape().size(), 1);
  return graph.add(Op::slice, {x}, ir::SliceAttrs{std::move(starts), std::move(limits), std::move(strides)});
}

Value slice_axis(Value x, std::int64_t axis, std::int64_t start, std::int64_t limit, std::int64_t stride) {
  graph_of("slice_axis", {x});
  const auto at = static_cast<std::size_t>(normalize_axis(axis, x.rank(), "slice_axis"));
  Ints starts(x.shape().size(), 0), strides(x.shape().size(), 1);
  Shape limits = x.shape();
  starts[at] = start;
  limits[at] = limit;
  strides[at] = stride;
  return slice(x, std::move(starts), std::move(limits), std::move(strides));
}

Value pad(Value x, Value value, Ints low, Ints high, Ints interior) {
  Graph& graph = graph_of("pad", {x, value});
  interior = filled(std::move(interior), x.shape().size(), 0);
  return graph.add(Op::pad, {x, value}, ir::PadAttrs{std::move(low), std::move(high), std::move(interior)});
}

Value concat(ValueList xs, std::int64_t axis) {
  Graph& graph = graph_of("concat", xs);
  return graph.add(Op::concat, xs, ir::AxisAttrs{normalize_axis(axis, xs[0].rank(), "concat")});
}

Value reverse(Value x, Ints axes) {
  Graph& graph = graph_of("reverse", {x});
  return graph.add(Op::reverse, {x}, ir::AxesAttrs{sorted_axes(std::move(axes), x.rank(), "reverse")});
}

Value gather(Value x, Value indices, ir::GatherAttrs attrs) {
  Graph& graph = graph_of("gather", {x, indices});
  if (attrs.index_vector_axis < 0)
    attrs.index_vector_axis = normalize_axis(attrs.index_vector_axis, indices.rank(), "gather");
  const bool has_vectors = attrs.index_vector_axis < indices.rank();
  const int result_rank = indices.rank() - (has_vectors ? 1 : 0) + static_cast<int>(attrs.offset_axes.size());
  attrs.offset_axes = normalize_axes(std::move(attrs.offset_axes), result_rank, "gather");
  attrs.collapsed_axes = normalize_axes(std::move(attrs.collapsed_axes), x.rank(), "gather");
  attrs.operand_batch_axes = normalize_axes(std::move(attrs.operand_batch_axes), x.rank(), "gather");
  attrs.index_batch_axes = normalize_axes(std::move(attrs.index_batch_axes), indices.rank(), "gather");
  attrs.start_index_map = normalize_axes(std::move(attrs.start_index_map), x.rank(), "gather");
  return graph.add(Op::gather, {x, indices}, std::move(attrs));
}

Value scatter(Value x, Value indices, Value updates, ir::ScatterAttrs attrs) {
  Graph& graph = graph_of("scatter", {x, indices, updates});
  if (attrs.index_vector_axis < 0)
    attrs.index_vector_axis = normalize_axis(attrs.index_vector_axis, indices.rank(), "scatter");
  attrs.update_window_axes = normalize_axes(std::move(attrs.update_window_axes), updates.rank(), "scatter");
  attrs.inserted_axes = normalize_axes(std::move(attrs.inserted_axes), x.rank(), "scatter");
  attrs.operand_batch_axes = normalize_axes(std::move(attrs.operand_batch_axes), x.rank(), "scatter");
  attrs.index_batch_axes = normalize_axes(std::move(attrs.index_batch_axes), indices.rank(), "scatter");
  attrs.index_map = normalize_axes(std::move(attrs.index_map), x.rank(), "scatter");
  return graph.add(Op::scatter, {x, indices, updates}, std::move(attrs));
}

Value dynamic_slice(Value x, ValueList starts, Shape sizes) {
  Values operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return graph_of("dynamic_slice", operands)
      .add(Op::dynamic_slice, operands, ir::DynamicSliceAttrs{std::move(sizes)});
}

Value dynamic_update_slice(Value x, Value update, ValueList starts) {
  Values operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return graph_of("dynamic_update_slice", operands).add(Op::dynamic_update_slice, operands);
}

Value take(Value x, Value indices, std::int64_t axis) {
  graph_of("take", {x, indices});
  axis = normalize_axis(axis, x.rank(), "take");
  // The result is x's shape with `axis` replaced by all axes of indices.
  ir::GatherAttrs attrs;
  attrs.slice_sizes = x.shape();
  attrs.slice_sizes[static_cast<std::size_t>(axis)] = 1;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    if (i < axis) attrs.offset_axes.push_back(i);
    if (i > axis) attrs.offset_axes.push_back(i - 1 + indices.rank());
  }
  attrs.collapsed_axes = {axis};
  attrs.start_index_map = {axis};
  attrs.index_vector_axis = indices.rank();
  return gather(x, indices, std::move(attrs));
}

}  // namespace systole::ops
