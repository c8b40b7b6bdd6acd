// Rules of movement ops: elements go back where they came from; what was copied is summed.

#include <algorithm>

#include "autodiff/rules.h"

#pragma GCC diagnostic error "-Wswitch"  // an op without a rule does not compile

namespace systole::autodiff {

namespace {

using namespace ops;

Value zero(Value like) { return scalar_like(like, 0); }

Cotangents broadcast_rule(const Adjoint& a) {
  const auto& attrs = a.as<ir::BroadcastAttrs>();
  const Shape& from = a.x[0].shape();
  Ints summed;
  for (std::int64_t axis = 0; axis < attrs.shape.rank(); ++axis) {
    const auto* it = std::find(attrs.axes.begin(), attrs.axes.end(), axis);
    const bool repeated =
        it == attrs.axes.end() || !(from[static_cast<std::size_t>(it - attrs.axes.begin())] ==
                                    attrs.shape[static_cast<std::size_t>(axis)]);
    if (repeated) summed.push_back(axis);
  }
  return {reshape(sum(a.dy(), summed), from)};
}

// Pads dy with the elements that the slice left out.
Cotangents slice_rule(const Adjoint& a) {
  const auto& s = a.as<ir::SliceAttrs>();
  const Shape &from = a.x[0].shape(), &to = a.y[0].shape();
  Ints high, interior;
  for (std::size_t i = 0; i < from.size(); ++i) {
    interior.push_back(s.strides[i] - 1);
    const Dim covered = to[i] == Dim(0) ? Dim(0) : (to[i] - Dim(1)) * Dim(s.strides[i]) + Dim(1);
    const Dim rest = from[i] - Dim(s.starts[i]) - covered;
    if (!rest.is_static()) a.refuse("a slice of a symbolic axis that depends on its size");
    high.push_back(rest.value());
  }
  return {pad(a.dy(), zero(a.dy()), s.starts, high, interior)};
}

Cotangents pad_rule(const Adjoint& a) {
  const auto& p = a.as<ir::PadAttrs>();
  const Value dy = a.dy();
  Ints low, high, all;
  for (std::size_t i = 0; i < p.low.size(); ++i) {
    low.push_back(-p.low[i]);
    high.push_back(-p.high[i]);
    all.push_back(static_cast<std::int64_t>(i));
  }
  const Value unpadded = pad(dy, zero(dy), low, high);
  Ints starts(p.low.size(), 0), strides;
  for (std::int64_t n : p.interior) strides.push_back(n + 1);
  const Value dx = slice(unpadded, starts, unpadded.shape(), strides);
  // The padding value gets what x does not: dy where x, put through the same pad, leaves a hole.
  const Value kept =
      pad(broadcast_to(scalar_like(dy, 1), a.x[0].shape()), zero(dy), p.low, p.high, p.interior);
  return {dx, sum(dy * (1 - kept), all)};
}

Cotangents concat_rule(const Adjoint& a) {
  const std::int64_t axis = a.as<ir::AxisAttrs>().axis;
  Cotangents out;
  std::int64_t start = 0;
  for (const Value& x : a.x) {
    const Dim size = x.shape()[static_cast<std::size_t>(axis)];
    if (!size.is_static()) a.refuse("a concatenation along a symbolic axis");
    out.push_back(slice_axis(a.dy(), axis, start, start + size.value()));
    start += size.value();
  }
  return out;
}

// Start indices moved so that every window lies inside; `limits` holds the last start along each indexed
// axis.
Value clamped_starts(const Adjoint& a, Value indices, const Ints& index_map, std::int64_t vector_axis,
                     const Ints& limits) {
  const bool scalars = vector_axis == indices.rank();
  Literal bounds = Literal::uninitialized({DType::i64, {static_cast<std::int64_t>(index_map.size())}});
  std::copy(limits.begin(), limits.end(), bounds.mutable_values<std::int64_t>().begin());
  Value high = convert(a.graph.constant(bounds), indices.dtype());
  high = scalars ? broadcast_to(reshape(high, {}), indices.shape())
                 : broadcast(high, indices.shape(), {vector_axis});
  return clamp(scalar_like(indices, 0), indices, high);
}

Cotangents gather_rule(const Adjoint& a) {
  const auto& g = a.as<ir::GatherAttrs>();
  Ints limits;
  for (std::int64_t axis : g.start_index_map) {
    const Dim last =
        a.x[0].shape()[static_cast<std::size_t>(axis)] - g.slice_sizes[static_cast<std::size_t>(axis)];
    if (!last.is_static()) a.refuse("a gather along a symbolic axis");
    limits.push_back(last.value());
  }
  // gather clamps and scatter skips: clamping first makes them agree.
  const Value starts = clamped_starts(a, a.x[1], g.start_index_map, g.index_vector_axis, limits);
  ir::ScatterAttrs s;
  s.combine = Combine::sum;
  s.update_window_axes = g.offset_axes;
  s.inserted_axes = g.collapsed_axes;
  s.operand_batch_axes = g.operand_batch_axes;
  s.index_batch_axes = g.index_batch_axes;
  s.index_map = g.start_index_map;
  s.index_vector_axis = g.index_vector_axis;
  return {scatter(zeros_like(a.x[0]), starts, a.dy(), s), std::nullopt};
}

bool contains(const Ints& list, std::int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// The size of a scatter's windows along each axis of its operand.
Shape window_sizes(const ir::ScatterAttrs& s, int rank, const Shape& updates) {
  Shape sizes;
  std::size_t next = 0;
  for (std::int64_t axis = 0; axis < rank; ++axis)
    sizes.push_back(contains(s.inserted_axes, axis) || contains(s.operand_batch_axes, axis)
                        ? Dim(1)
                        : updates[static_cast<std::size_t>(s.update_window_axes[next++])]);
  return sizes;
}

// The gather that reads what a scatter's updates were written to.
Value gather_windows(const Adjoint& a, const ir::ScatterAttrs& s, Value from) {
  ir::GatherAttrs g;
  g.offset_axes = s.update_window_axes;
  g.collapsed_axes = s.inserted_axes;
  g.operand_batch_axes = s.operand_batch_axes;
  g.index_batch_axes = s.index_batch_axes;
  g.start_index_map = s.index_map;
  g.index_vector_axis = s.index_vector_axis;
  g.slice_sizes = window_sizes(s, from.rank(), a.x[2].shape());
  return gather(from, a.x[1], g);
}

// Each element remembers the number of the update that it holds, so that skipped windows and overwritten
// updates get nothing.
Cotangents scatter_set_rule(const Adjoint& a, const ir::ScatterAttrs& s) {
  const Value dy = a.dy(), x = a.x[0], updates = a.x[2];
  const Value numbers =
      reshape(iota(a.graph, {DType::i64, {updates.shape().elements()}}, 0), updates.shape());
  const Value none = broadcast_to(constant(a.graph, Literal::scalar(std::int64_t{-1})), x.shape());
  const Value holder = scatter(none, a.x[1], numbers, s);
  const Value mine = equal(gather_windows(a, s, holder), numbers);
  return {where(equal(holder, none), dy), std::nullopt, where(mine, gather_windows(a, s, dy))};
}

// Whether each update is applied: a window that clamping would move is skipped.
Value applied(const Adjoint& a, const ir::ScatterAttrs& s) {
  const Value x = a.x[0], indices = a.x[1], updates = a.x[2];
  const Shape window = window_sizes(s, x.rank(), updates.shape());
  Ints limits;
  for (std::int64_t axis : s.index_map) {
    const Dim last = x.shape()[static_cast<std::size_t>(axis)] - window[static_cast<std::size_t>(axis)];
    if (!last.is_static()) a.refuse("a scatter along a symbolic axis");
    limits.push_back(last.value());
  }
  Value inside = equal(clamped_starts(a, indices, s.index_map, s.index_vector_axis, limits), indices);
  if (s.index_vector_axis < indices.rank())
    inside = reduce(inside, Combine::bitwise_and, {s.index_vector_axis});
  Ints batch;
  for (std::int64_t axis = 0; axis < updates.rank(); ++axis)
    if (!contains(s.update_window_axes, axis)) batch.push_back(axis);
  return broadcast(inside, updates.shape(), batch);
}

Cotangents scatter_sum_rule(const Adjoint& a, const ir::ScatterAttrs& s) {
  const Value dy = a.dy(), inside = applied(a, s);
  return {dy, std::nullopt, where(inside, gather_windows(a, s, dy))};
}

// Of an element and its updates those that equal the result share dy.
Cotangents scatter_extreme_rule(const Adjoint& a, const ir::ScatterAttrs& s) {
  const Value x = a.x[0], updates = a.x[2], y = a.y[0], inside = applied(a, s);
  const Value kept = convert(equal(x, y), x.dtype());
  const Value met = bitwise_and(inside, equal(updates, gather_windows(a, s, y)));
  ir::ScatterAttrs counting = s;
  counting.combine = Combine::sum;
  const Value winners = scatter(kept, a.x[1], convert(met, x.dtype()), counting);
  const Value share = div(a.dy(), winners);
  return {mul(kept, share), std::nullopt, where(met, gather_windows(a, s, share))};
}

// y = x·u where an update is applied.
Cotangents scatter_product_rule(const Adjoint& a, const ir::ScatterAttrs& s) {
  if (!s.unique)
    a.refuse(
        "an element's product may have many updates, and each one's gradient is the product of the others; "
        "with `unique` there is one");
  const Value dy = a.dy(), inside = applied(a, s);
  const Value dx = scatter(dy, a.x[1], a.x[2], s);
  return {dx, std::nullopt, where(inside, gather_windows(a, s, mul(dy, a.x[0])))};
}

Cotangents scatter_rule(const Adjoint& a) {
  const auto& s = a.as<ir::ScatterAttrs>();
  switch (s.combine) {
    case Combine::set: return scatter_set_rule(a, s);
    case Combine::sum: return scatter_sum_rule(a, s);
    case Combine::prod: return scatter_product_rule(a, s);
    case Combine::max:
    case Combine::min: return scatter_extreme_rule(a, s);
    case Combine::bitwise_and:
    case Combine::bitwise_or: break;
  }
  a.refuse("bits have no gradient");
}

}  // namespace

Cotangents movement_rule(const Adjoint& a) {
  switch (a.node.op) {
    case Op::reshape: return {reshape(a.dy(), a.x[0].shape())};
    case Op::transpose: {
      const Ints& perm = a.as<ir::TransposeAttrs>().permutation;
      Ints inverse(perm.size());
      for (std::size_t i = 0; i < perm.size(); ++i)
        inverse[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
      return {transpose(a.dy(), inverse)};
    }
    case Op::broadcast: return broadcast_rule(a);
    case Op::slice: return slice_rule(a);
    case Op::pad: return pad_rule(a);
    case Op::concat: return concat_rule(a);
    case Op::reverse: return {reverse(a.dy(), a.as<ir::AxesAttrs>().axes)};
    case Op::gather: return gather_rule(a);
    case Op::scatter: return scatter_rule(a);
    case Op::dynamic_slice: {
      const Values starts(a.x.begin() + 1, a.x.end());
      Cotangents out(a.x.size());
      out[0] = dynamic_update_slice(zeros_like(a.x[0]), a.dy(), starts);
      return out;
    }
    case Op::dynamic_update_slice: {
      const Values starts(a.x.begin() + 2, a.x.end());
      Cotangents out(a.x.size());
      out[0] = dynamic_update_slice(a.dy(), zeros_like(a.x[1]), starts);
      out[1] = dynamic_slice(a.dy(), starts, a.x[1].shape());
      return out;
    }
#define SYSTOLE_CASE_movement(name)
#include "autodiff/other_ops.def"
    break;
  }
  a.refuse("it has no rule here");
}

}  // namespace systole::autodiff
