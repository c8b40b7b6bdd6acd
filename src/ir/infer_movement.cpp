// Result types of movement ops.

#include <fmt/format.h>
#include <algorithm>

#include "ir/infer.h"

namespace systole::ir {

namespace {

bool contains(const Ints& list, std::int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

void check_sorted(const Call& c, const Ints& axes, const char* what) {
  if (!std::is_sorted(axes.begin(), axes.end())) c.fail_attr(fmt::format("{} must increase", what));
}

}  // namespace

Types infer_reshape(const Call& c) {
  const Shape& to = c.as<ReshapeAttrs>().shape;
  check_type({c.in[0].dtype, to}, "reshape");
  if (!(to.elements() == c.in[0].shape.elements()))
    c.fail_shape("the number of elements changes",
                 c.in[0].shape.elements().to_string() + " elements as in " + c.in[0].to_string(),
                 to.elements().to_string() + " in " + to.to_string());
  return {{c.in[0].dtype, to}};
}

Types infer_transpose(const Call& c) {
  const Ints& perm = c.as<TransposeAttrs>().permutation;
  c.check_length(perm.size(), c.in[0].shape.size(), "permutation");
  c.check_axes(perm, c.in[0].shape.rank(), "permutation");
  Shape shape;
  for (std::int64_t a : perm) shape.push_back(c.in[0].shape[static_cast<std::size_t>(a)]);
  return {{c.in[0].dtype, shape}};
}

Types infer_broadcast(const Call& c) {
  const auto& a = c.as<BroadcastAttrs>();
  c.check_length(a.axes.size(), c.in[0].shape.size(), "axes");
  c.check_axes(a.axes, a.shape.rank(), "axes");
  check_sorted(c, a.axes, "axes");
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    const Dim from = c.in[0].shape[i], to = a.shape[static_cast<std::size_t>(a.axes[i])];
    if (!(from == to) && !(from == Dim(1)))
      c.fail_shape(fmt::format("axis {} cannot stretch", i), fmt::format("size 1 or {}", to.to_string()),
                   from.to_string());
  }
  return {{c.in[0].dtype, a.shape}};
}

Types infer_slice(const Call& c) {
  const auto& a = c.as<SliceAttrs>();
  const Shape& from = c.in[0].shape;
  c.check_length(a.starts.size(), from.size(), "starts");
  c.check_length(a.limits.size(), from.size(), "limits");
  c.check_length(a.strides.size(), from.size(), "strides");
  Shape shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t start = a.starts[i], stride = a.strides[i];
    const Dim limit = a.limits[i];
    if (stride < 1) c.fail_attr(fmt::format("stride of axis {}", i), "1 or more", std::to_string(stride));
    const bool inside = !(limit.is_static() && from[i].is_static()) ? true : limit.value() <= from[i].value();
    if (start < 0 || !inside || (limit.is_static() && limit.value() < start))
      c.fail_shape(fmt::format("slice of axis {} outside the operand", i),
                   fmt::format("0 <= start <= limit <= {}", from[i].to_string()),
                   fmt::format("start {} limit {}", start, limit.to_string()));
    // Another symbol's limit is checked when numbers are bound.
    if (!limit.is_static() && limit.symbol_name() == from[i].symbol_name() &&
        limit.scale() == from[i].scale() && limit.offset() > from[i].offset())
      c.fail_shape(fmt::format("the limit of axis {} is above its size", i), from[i].to_string(),
                   limit.to_string());
    // ceil((limit - start) / stride)
    shape.push_back(floor_div(limit - Dim(start) + Dim(stride - 1), stride));
  }
  return {{c.in[0].dtype, shape}};
}

Types infer_pad(const Call& c) {
  const auto& a = c.as<PadAttrs>();
  const Shape& from = c.in[0].shape;
  c.check_scalar(1, DTypeSet(c.in[0].dtype));
  c.check_length(a.low.size(), from.size(), "low");
  c.check_length(a.high.size(), from.size(), "high");
  c.check_length(a.interior.size(), from.size(), "interior");
  Shape shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (a.interior[i] < 0)
      c.fail_attr(fmt::format("interior of axis {}", i), "0 or more", std::to_string(a.interior[i]));
    for (const std::int64_t padding : {a.low[i], a.high[i], a.interior[i]})
      c.check_distance(padding, "padding");
    const Dim size = dilated(from[i], (Dim(a.interior[i]) + Dim(1)).value()) + Dim(a.low[i]) + Dim(a.high[i]);
    if (size.is_static() && size.value() < 0)
      c.fail_shape(fmt::format("axis {} would have a negative size", i), "0 or more", size.to_string());
    shape.push_back(size);
  }
  return {{c.in[0].dtype, shape}};
}

Types infer_concat(const Call& c) {
  const std::int64_t axis = c.as<AxisAttrs>().axis;
  c.check_axis(axis, c.in[0].shape.rank(), "axis");
  Type out = c.in[0];
  for (std::size_t i = 1; i < c.in.size(); ++i) {
    bool fits = c.in[i].dtype == out.dtype && c.in[i].shape.size() == out.shape.size();
    for (std::size_t d = 0; fits && d < out.shape.size(); ++d)
      fits = d == static_cast<std::size_t>(axis) || c.in[i].shape[d] == out.shape[d];
    if (!fits)
      c.fail_shape(
          fmt::format("operand {} does not fit the first in dtype or in an axis other than {}", i, axis),
          c.in[0].to_string(), c.in[i].to_string());
    out.shape[static_cast<std::size_t>(axis)] =
        out.shape[static_cast<std::size_t>(axis)] + c.in[i].shape[static_cast<std::size_t>(axis)];
  }
  return {out};
}

Types infer_reverse(const Call& c) {
  c.check_axes(c.as<AxesAttrs>().axes, c.in[0].shape.rank(), "axes");
  return {c.in[0]};
}

namespace {

// indices' axes without the one that holds the index vectors; checks the index dtype and how many components
// a vector has.
Shape index_batch_shape(const Call& c, std::int64_t vector_axis, std::size_t components) {
  const Type& indices = c.in[1];
  c.check_dtype(1, kInts);
  if (vector_axis < 0 || vector_axis > indices.shape.rank())
    c.fail_attr("index_vector_axis out of range", fmt::format("0 to {}", indices.shape.rank()),
                std::to_string(vector_axis));
  Shape batch;
  for (int i = 0; i < indices.shape.rank(); ++i)
    if (i != vector_axis) batch.push_back(indices.shape[static_cast<std::size_t>(i)]);
  const Dim width =
      vector_axis == indices.shape.rank() ? Dim(1) : indices.shape[static_cast<std::size_t>(vector_axis)];
  if (!(width == Dim(static_cast<std::int64_t>(components))))
    c.fail_shape("index vectors and the axes they index differ in number", std::to_string(components),
                 width.to_string());
  return batch;
}

// Batching axes pair an axis of x with an axis of indices of the same size.
void check_batch_axes(const Call& c, const Ints& operand_axes, const Ints& index_axes,
                      std::int64_t vector_axis) {
  c.check_length(index_axes.size(), operand_axes.size(), "index_batch_axes");
  c.check_axes(index_axes, c.in[1].shape.rank(), "index_batch_axes");
  for (std::size_t i = 0; i < operand_axes.size(); ++i) {
    if (index_axes[i] == vector_axis) c.fail_attr("index_batch_axes contains index_vector_axis");
    const Dim a = c.in[0].shape[static_cast<std::size_t>(operand_axes[i])],
              b = c.in[1].shape[static_cast<std::size_t>(index_axes[i])];
    if (!(a == b)) c.fail_shape("paired batch axes differ in size", a.to_string(), b.to_string());
  }
}

}  // namespace

Types infer_gather(const Call& c) {
  const auto& a = c.as<GatherAttrs>();
  const Shape& x = c.in[0].shape;
  c.check_length(a.slice_sizes.size(), x.size(), "slice_sizes");
  c.check_axes(a.start_index_map, x.rank(), "start_index_map");
  Ints dropped = a.collapsed_axes;
  for (std::int64_t axis : a.operand_batch_axes) dropped.push_back(axis);
  c.check_axes(dropped, x.rank(), "collapsed_axes with operand_batch_axes");
  check_sorted(c, a.collapsed_axes, "collapsed_axes");
  check_sorted(c, a.operand_batch_axes, "operand_batch_axes");
  check_sorted(c, a.offset_axes, "offset_axes");
  for (std::int64_t axis : a.start_index_map)
    if (contains(a.operand_batch_axes, axis))
      c.fail_attr("start_index_map contains a batch axis", {}, std::to_string(axis));
  const Shape batch = index_batch_shape(c, a.index_vector_axis, a.start_index_map.size());
  check_batch_axes(c, a.operand_batch_axes, a.index_batch_axes, a.index_vector_axis);
  Shape window;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Dim size = a.slice_sizes[i];
    const bool fits = size == x[i] || (size.is_static() && size.value() >= 0 &&
                                       (!x[i].is_static() || size.value() <= x[i].value()));
    if (!fits)
      c.fail_shape(fmt::format("slice_sizes[{}] does not fit the operand", i), "at most " + x[i].to_string(),
                   size.to_string());
    if (!contains(dropped, static_cast<std::int64_t>(i)))
      window.push_back(size);
    else if (!size.is_static() || size.value() > 1)
      c.fail_shape(fmt::format("axis {} is collapsed or batched", i), "slice size 1", size.to_string());
  }
  c.check_length(a.offset_axes.size(), window.size(), "offset_axes");
  const int rank = batch.rank() + window.rank();
  c.check_axes(a.offset_axes, rank, "offset_axes");
  Shape shape;
  std::size_t next_batch = 0, next_window = 0;
  for (int i = 0; i < rank; ++i)
    shape.push_back(contains(a.offset_axes, i) ? window[next_window++] : batch[next_batch++]);
  return {{c.in[0].dtype, shape}};
}

Types infer_scatter(const Call& c) {
  const auto& a = c.as<ScatterAttrs>();
  const Shape &x = c.in[0].shape, &updates = c.in[2].shape;
  if (c.in[2].dtype != c.in[0].dtype)
    c.fail(ErrorKind::kDType, "updates", c.in[0].to_string(), c.in[2].to_string());
  const bool bitwise = a.combine == Combine::bitwise_and || a.combine == Combine::bitwise_or;
  if (a.combine != Combine::set) c.check_dtype(0, bitwise ? kBits : kNumbers);
  c.check_axes(a.index_map, x.rank(), "index_map");
  Ints dropped = a.inserted_axes;
  for (std::int64_t axis : a.operand_batch_axes) dropped.push_back(axis);
  c.check_axes(dropped, x.rank(), "inserted_axes with operand_batch_axes");
  check_sorted(c, a.inserted_axes, "inserted_axes");
  check_sorted(c, a.operand_batch_axes, "operand_batch_axes");
  check_sorted(c, a.update_window_axes, "update_window_axes");
  for (std::int64_t axis : a.index_map)
    if (contains(a.operand_batch_axes, axis))
      c.fail_attr("index_map contains a batch axis", {}, std::to_string(axis));
  const Shape batch = index_batch_shape(c, a.index_vector_axis, a.index_map.size());
  check_batch_axes(c, a.operand_batch_axes, a.index_batch_axes, a.index_vector_axis);
  c.check_axes(a.update_window_axes, updates.rank(), "update_window_axes");
  c.check_length(a.update_window_axes.size(), x.size() - dropped.size(), "update_window_axes");
  c.check_length(updates.size(), batch.size() + a.update_window_axes.size(), "the shape of updates");
  std::size_t next_batch = 0, next_window = 0;
  for (int i = 0; i < updates.rank(); ++i) {
    const Dim size = updates[static_cast<std::size_t>(i)];
    if (!contains(a.update_window_axes, i)) {
      if (!(size == batch[next_batch]))
        c.fail_shape("updates do not fit the indices", batch[next_batch].to_string(), size.to_string());
      ++next_batch;
      continue;
    }
    while (contains(dropped, static_cast<std::int64_t>(next_window))) ++next_window;
    const Dim limit = x[next_window++];
    if (!(size == limit) && (!size.is_static() || (limit.is_static() && size.value() > limit.value())))
      c.fail_shape("an update window is larger than the operand", "at most " + limit.to_string(),
                   size.to_string());
  }
  return {c.in[0]};
}

namespace {

void check_starts(const Call& c, std::size_t first, std::size_t rank) {
  c.check_length(c.in.size() - first, rank, "the list of starts");
  for (std::size_t i = first; i < c.in.size(); ++i) c.check_scalar(i, kInts);
}

void check_block(const Call& c, const Shape& block) {
  const Shape& x = c.in[0].shape;
  c.check_length(block.size(), x.size(), "the block's shape");
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!(block[i] == x[i]) && !(block[i].is_static() && block[i].value() >= 0 &&
                                 (!x[i].is_static() || block[i].value() <= x[i].value())))
      c.fail_shape(fmt::format("axis {} of the block does not fit the operand", i),
                   "at most " + x[i].to_string(), block[i].to_string());
}

}  // namespace

Types infer_dynamic_slice(const Call& c) {
  check_starts(c, 1, c.in[0].shape.size());
  check_block(c, c.as<DynamicSliceAttrs>().sizes);
  return {{c.in[0].dtype, c.as<DynamicSliceAttrs>().sizes}};
}

Types infer_dynamic_update_slice(const Call& c) {
  check_starts(c, 2, c.in[0].shape.size());
  if (c.in[1].dtype != c.in[0].dtype)
    c.fail(ErrorKind::kDType, "the update", c.in[0].to_string(), c.in[1].to_string());
  check_block(c, c.in[1].shape);
  return {c.in[0]};
}

}  // namespace systole::ir
