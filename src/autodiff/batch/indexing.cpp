// Rules of ops that index. Where the examples share their indices, the new axis is one more axis of every
// slice; where each has its own, the op's batch axes pair the examples. Slices whose starts differ by example
// become gather and scatter.

#include <cstdint>
#include <limits>
#include <utility>

#include "autodiff/batch/batch.h"

namespace systole::autodiff::batch {

namespace {

Ints range(std::int64_t first, std::int64_t count) {
  Ints out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

bool any_from(const Flags& flags, std::size_t first) {
  for (std::size_t i = first; i < flags.size(); ++i)
    if (flags[i]) return true;
  return false;
}

// The slice size of a paired axis: one example's, of which an empty batch has none.
Shape paired_slices(const Mapped& m, const Shape& sizes) {
  Shape out{m.size() == Dim(0) ? Dim(0) : Dim(1)};
  for (const Dim& d : sizes) out.push_back(d);
  return out;
}

// A scalar index as i64, in which every dtype's indices keep their order; beyond the end stays beyond it.
Value wide_index(Value start) {
  if (start.dtype() == DType::u64) {
    const auto end = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    start = ops::min(start, start.graph().constant(Literal::scalar(end)));
  }
  return ops::convert(start, DType::i64);
}

// The operands from `first` on, scalars per example, as index vectors [size, starts].
Value index_vectors(const Mapped& m, std::size_t first) {
  Values columns;
  for (std::size_t i = first; i < m.x.size(); ++i) {
    const Value start = wide_index(m.x[i]);
    columns.push_back(m.spread(m.batched[i] ? ops::reshape(start, {m.size(), 1}) : start, m.batched[i], {1}));
  }
  return ops::concat(columns, 1);
}

Values with_zero_start(const Mapped& m, Values operands, std::size_t first) {
  operands.push_back(ops::full(m.graph, {DType::i32, {}}, 0));
  operands.insert(operands.end(), m.x.begin() + static_cast<std::ptrdiff_t>(first), m.x.end());
  return operands;
}

}  // namespace

Value map_gather(const Mapped& m) {
  ir::GatherAttrs a = m.as<ir::GatherAttrs>();
  const bool x = m.batched[0], indices = m.batched[1];
  a.offset_axes = shifted(a.offset_axes);
  if (indices) {
    a.index_batch_axes = shifted(a.index_batch_axes);
    ++a.index_vector_axis;
  }
  if (x) {
    a.collapsed_axes = shifted(a.collapsed_axes);
    a.operand_batch_axes = shifted(a.operand_batch_axes);
    a.start_index_map = shifted(a.start_index_map);
    a.slice_sizes = indices ? paired_slices(m, a.slice_sizes) : m.with_axis(a.slice_sizes);
  }
  if (x && indices) {
    a.operand_batch_axes = with_front(0, a.operand_batch_axes);
    a.index_batch_axes = with_front(0, a.index_batch_axes);
  } else if (x) {
    a.offset_axes = with_front(0, a.offset_axes);
  }
  return m.add(m.x, std::move(a));
}

Value map_scatter(const Mapped& m) {
  ir::ScatterAttrs a = m.as<ir::ScatterAttrs>();
  a.update_window_axes = shifted(a.update_window_axes);
  a.inserted_axes = shifted(a.inserted_axes);
  a.operand_batch_axes = shifted(a.operand_batch_axes);
  a.index_map = shifted(a.index_map);
  if (m.batched[1]) {
    a.operand_batch_axes = with_front(0, a.operand_batch_axes);
    a.index_batch_axes = with_front(0, shifted(a.index_batch_axes));
    ++a.index_vector_axis;
  } else {
    a.update_window_axes = with_front(0, a.update_window_axes);
  }
  const Value x = m.spread(0), updates = m.spread(2);
  return m.add({x, m.x[1], updates}, std::move(a));
}

Value map_dynamic_slice(const Mapped& m) {
  const Shape& sizes = m.as<ir::DynamicSliceAttrs>().sizes;
  if (!any_from(m.batched, 1))
    return m.add(with_zero_start(m, {m.x[0]}, 1), ir::DynamicSliceAttrs{m.with_axis(sizes)});
  ir::GatherAttrs a;  // clamps as dynamic_slice does
  a.offset_axes = range(1, sizes.rank());
  a.index_vector_axis = 1;
  a.start_index_map = range(m.batched[0] ? 1 : 0, sizes.rank());
  a.slice_sizes = sizes;
  if (m.batched[0]) {
    a.operand_batch_axes = a.index_batch_axes = {0};
    a.slice_sizes = paired_slices(m, sizes);
  }
  return ops::gather(m.x[0], index_vectors(m, 1), std::move(a));
}

Value map_dynamic_update_slice(const Mapped& m) {
  const Value x = m.spread(0), update = m.spread(1);
  if (!any_from(m.batched, 2)) return m.add(with_zero_start(m, {x, update}, 2));
  const Shape whole = m.example(0), block = m.example(1);
  // scatter skips what does not fit, so the starts are clamped before.
  Values limits;
  for (std::size_t i = 0; i < whole.size(); ++i)
    limits.push_back(ops::reshape(ops::dimension(m.graph, whole[i] - block[i], DType::i64), {1}));
  const Value starts = index_vectors(m, 2), low = ops::full(m.graph, {DType::i64, {}}, 0);
  const Value high = m.spread(ops::concat(limits, 0), false, {whole.rank()});
  ir::ScatterAttrs a;
  a.update_window_axes = a.index_map = range(1, whole.rank());
  a.operand_batch_axes = a.index_batch_axes = {0};
  a.index_vector_axis = 1;
  a.unique = true;
  return ops::scatter(x, ops::clamp(low, starts, high), update, std::move(a));
}

}  // namespace systole::autodiff::batch
