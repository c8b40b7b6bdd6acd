// numpy's indexing, by the plan of index_plan.h. Reading is a slice, then a gather. Writing goes the same way
// back: the view is read, changed by a scatter, and put in its place. The basic part alone is written without
// a scatter: by a block update, or padded to x's shape.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/frame.h"
#include "tensor/functions.h"
#include "tensor/index_plan.h"
#include "tensor/record.h"

namespace systole {

using namespace recording;
using ir::Combine;
using ir::Op;

namespace {

// The basic part.

// A block outside any trace: the places are numbers given along, so that a loop over x[i] compiles once.
std::optional<Tensor> read_block(const Tensor& x, const IndexPlan& plan) {
  if (tracing() || !plan.counts.is_static()) return std::nullopt;
  std::vector<Tensor> operands{x};
  for (std::size_t i = 0; i < plan.counts.size(); ++i) {
    if (plan.strides[i] != 1 && plan.counts[i].value() > 1) return std::nullopt;
    if (plan.reversed[i] != 0) return std::nullopt;
    const bool all = plan.counts[i] == x.shape()[i];
    operands.push_back(all ? constant(Literal::scalar<std::int64_t>(0))
                           : scalar(plan.starts[i], DType::i64, false));
  }
  return record_multi(Op::dynamic_slice, operands, ir::DynamicSliceAttrs{plan.counts})[0];
}

Tensor read_view(const Tensor& x, const IndexPlan& plan) {
  Tensor y = x;
  if (const std::optional<Tensor> block = plan.whole ? std::nullopt : read_block(x, plan)) {
    y = *block;
  } else if (!plan.whole) {
    Shape limits;
    Ints turned;
    for (std::size_t i = 0; i < plan.counts.size(); ++i) {
      const Dim n = plan.counts[i];
      limits.push_back(!n.is_static() ? n
                       : n == Dim(0)  ? Dim(plan.starts[i])
                                      : Dim(plan.starts[i] + (n.value() - 1) * plan.strides[i] + 1));
      if (plan.reversed[i] != 0) turned.push_back(static_cast<std::int64_t>(i));
    }
    y = record(Op::slice, {x}, ir::SliceAttrs{plan.starts, limits, plan.strides});
    if (!turned.empty()) y = record(Op::reverse, {y}, ir::AxesAttrs{turned});
  }
  return reshaped(y, plan.view);
}

Tensor combined(Combine combine, const Tensor& x, const Tensor& value) {
  switch (combine) {
    case Combine::sum: return add(x, value);
    case Combine::prod: return mul(x, value);
    case Combine::max: return max(x, value);
    case Combine::min: return min(x, value);
    default: return value;
  }
}

// `value` has the view's shape.
Tensor write_view(const Tensor& x, const IndexPlan& plan, Combine combine, const Tensor& value) {
  if (plan.counts.elements() == Dim(0)) return x;
  Tensor y = reshaped(value, plan.counts);
  Ints turned, low, high, interior;
  bool block = true;
  for (std::size_t i = 0; i < plan.counts.size(); ++i) {
    if (plan.reversed[i] != 0) turned.push_back(static_cast<std::int64_t>(i));
    const std::int64_t stride = plan.strides[i];
    block = block && stride == 1;
    low.push_back(plan.starts[i]);
    interior.push_back(stride - 1);
    const Dim n = plan.counts[i], size = x.shape()[i];
    high.push_back(n == size ? 0 : size.value() - (plan.starts[i] + (n.value() - 1) * stride + 1));
  }
  if (!turned.empty()) y = record(Op::reverse, {y}, ir::AxesAttrs{turned});
  if (plan.whole) return combined(combine, x, y);
  if (combine == Combine::set && block) {
    std::vector<Tensor> operands{x, y};
    for (const std::int64_t start : plan.starts) operands.push_back(constant(Literal::scalar(start)));
    return record_multi(Op::dynamic_update_slice, operands)[0];
  }
  const ir::PadAttrs attrs{low, high, interior};
  const Tensor spread = record(Op::pad, {y, constant_like(x, 0)}, attrs);
  if (combine == Combine::sum) return add(x, spread);
  const Tensor inside =
      record(Op::pad, {ones(plan.counts, DType::boolean), constant(Literal::scalar(false))}, attrs);
  return where(inside, combined(combine, x, spread), x);
}

// The advanced part.

// (joint…, number of axes): the index vectors.
Tensor index_vectors(const IndexPlan& plan) {
  return plan.indices.size() == 1 ? plan.indices[0] : stack(plan.indices, -1);
}

Tensor gather_view(const Tensor& view, const IndexPlan& plan) {
  ir::GatherAttrs g;
  g.offset_axes = plan.other_result_axes();
  g.collapsed_axes = plan.axes;
  g.start_index_map = plan.axes;
  g.index_vector_axis = plan.joint.rank();
  g.slice_sizes = view.shape();
  bool empty = false;
  for (const std::int64_t axis : plan.axes) {
    empty = empty || view.shape()[static_cast<std::size_t>(axis)] == Dim(0);
    g.slice_sizes[static_cast<std::size_t>(axis)] = 1;
  }
  if (empty) {  // nothing to take from, which is fine when nothing is asked for
    const Shape shape = plan.result();
    if (shape.elements() != Dim(0))
      throw Error(ErrorKind::kShape, std::string(kIndexing), "an index Tensor for an axis without elements",
                  {}, view.type().to_string());
    return zeros(shape, view.dtype());
  }
  return record(Op::gather, {view, index_vectors(plan)}, std::move(g));
}

Tensor scatter_view(const Tensor& view, const IndexPlan& plan, Combine combine, const Tensor& value) {
  ir::ScatterAttrs s;
  s.combine = combine;
  s.update_window_axes = plan.other_result_axes();
  s.inserted_axes = plan.axes;
  s.index_map = plan.axes;
  s.index_vector_axis = plan.joint.rank();
  return record(Op::scatter, {view, index_vectors(plan), value}, std::move(s));
}

Tensor read(const Tensor& x, std::span<const Index> indices) {
  const IndexPlan plan = make_index_plan(x, indices);
  const Tensor view = read_view(x, plan);
  return plan.axes.empty() ? view : gather_view(view, plan);
}

// A single mask with a value that is the same at each of its places needs no count.
std::optional<Tensor> write_masked(const Tensor& x, std::span<const Index> indices, Combine combine,
                                   const Tensor& value) {
  const Tensor* mask = indices.size() == 1 ? std::get_if<Tensor>(&indices[0].part()) : nullptr;
  if (mask == nullptr || checked(*mask, kIndexing).type.dtype != DType::boolean) return {};
  const int rest = x.rank() - mask->rank();
  if (rest < 0 || value.rank() > rest) return {};
  Ints axes;
  for (std::int64_t i = 0; i < mask->rank(); ++i) {
    axes.push_back(i);
    if (mask->shape()[static_cast<std::size_t>(i)] != x.shape()[static_cast<std::size_t>(i)]) return {};
  }
  const Tensor inside = record(Op::broadcast, {*mask}, ir::BroadcastAttrs{x.shape(), axes});
  return where(inside, combined(combine, x, broadcast_to(value, x.shape())), x);
}

Tensor write(const Tensor& x, std::span<const Index> indices, Combine combine, const Tensor& given) {
  const Tensor value = as_dtype(given, checked(x, kIndexing).type.dtype);
  if (const std::optional<Tensor> masked = write_masked(x, indices, combine, value)) return *masked;
  const IndexPlan plan = make_index_plan(x, indices);
  const Shape place = plan.result();
  const std::optional<Shape> joined = ops::broadcast_shape(place, value.shape());
  if (!joined || *joined != place)
    throw Error(ErrorKind::kShape, "at", "the value does not stretch to the place it is put",
                Type{x.dtype(), place}.to_string(), value.type().to_string());
  const Tensor wide = stretched(value, place);
  if (plan.axes.empty()) return write_view(x, plan, combine, wide);
  if (place.elements() == Dim(0)) return x;
  const Tensor changed = scatter_view(read_view(x, plan), plan, combine, wide);
  return write_view(x, plan, Combine::set, changed);
}

std::vector<Index> along(const Tensor& x, std::int64_t axis, const Tensor& indices, std::string_view where) {
  axis = normalize_axis(axis, checked(x, where).type.shape.rank(), where);
  std::vector<Index> list(static_cast<std::size_t>(axis), Index(all));
  list.emplace_back(indices);
  return list;
}

}  // namespace

Index::Index(Place place) : part_(place.number) {}
Index::Index(Places places) : part_(std::move(places.numbers)) {}
Index::Index(Slice slice) : part_(slice) {}
Index::Index(All) : part_(Slice{}) {}
Index::Index(Ellipsis) : part_(ellipsis) {}
Index::Index(NewAxis) : part_(newaxis) {}
Index::Index(const Index&) = default;
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(const Index&) = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

IndexedTensor::IndexedTensor(Tensor x, std::vector<Index> indices)
    : x_(std::move(x)), indices_(std::move(indices)) {}
Tensor IndexedTensor::get() const { return read(x_, indices_); }
Tensor IndexedTensor::set(const Tensor& value) const { return write(x_, indices_, Combine::set, value); }
Tensor IndexedTensor::add(const Tensor& value) const { return write(x_, indices_, Combine::sum, value); }
Tensor IndexedTensor::multiply(const Tensor& value) const {
  return write(x_, indices_, Combine::prod, value);
}
Tensor IndexedTensor::max(const Tensor& value) const { return write(x_, indices_, Combine::max, value); }
Tensor IndexedTensor::min(const Tensor& value) const { return write(x_, indices_, Combine::min, value); }

Tensor Tensor::operator[](const Index& index) const { return read(*this, {&index, 1}); }
Tensor Tensor::operator[](std::initializer_list<Index> indices) const {
  return read(*this, {indices.begin(), indices.size()});
}
Tensor Tensor::operator[](std::span<const Index> indices) const { return read(*this, indices); }

IndexedTensor Tensor::at(const Index& index) const { return {*this, {index}}; }
IndexedTensor Tensor::at(std::initializer_list<Index> indices) const { return {*this, indices}; }
IndexedTensor Tensor::at(std::span<const Index> indices) const {
  return {*this, {indices.begin(), indices.end()}};
}

Tensor take(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  return read(x, along(x, axis, indices, "take"));
}

Tensor take(const Tensor& x, const Tensor& indices) { return take(flatten(x), indices, 0); }

Tensor take_along_axis(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  const int rank = checked(x, "take_along_axis").type.shape.rank();
  axis = normalize_axis(axis, rank, "take_along_axis");
  const auto at = static_cast<std::size_t>(axis);
  const auto fail = [&] {
    const Tensor both[] = {x, indices};
    throw Error(ErrorKind::kShape, "take_along_axis",
                "the shapes differ in an axis other than the one indexed", "equal sizes or 1",
                show_types(both));
  };
  if (checked(indices, "take_along_axis").type.shape.rank() != rank) fail();
  Shape lines = x.shape(), wanted = indices.shape();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == at) continue;
    if (lines[i] != wanted[i] && lines[i] != Dim(1) && wanted[i] != Dim(1)) fail();
    lines[i] = wanted[i] = lines[i] == Dim(1) ? wanted[i] : lines[i];
  }
  if (lines[at] == Dim(0)) {
    if (wanted.elements() != Dim(0)) fail();
    return zeros(wanted, x.dtype());
  }
  ir::GatherAttrs g;
  g.operand_batch_axes = g.index_batch_axes = ops::other_axes({axis}, rank);
  g.collapsed_axes = g.start_index_map = {axis};
  g.index_vector_axis = rank;
  g.slice_sizes = Shape(Ints(lines.size(), 1));
  return record(Op::gather, {stretched(x, lines), stretched(wrapped_index(indices, x, at), wanted)},
                std::move(g));
}

Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype) {
  const Tensor places = as_dtype(indices, checked(indices, "one_hot").type.dtype);
  return built({places}, [&](const ir::Values& v) { return ops::one_hot(v[0], classes, dtype); });
}

Tensor gather(const Tensor& x, const Tensor& indices, ir::GatherAttrs attrs) {
  return built({x, indices}, [&](const ir::Values& v) { return ops::gather(v[0], v[1], attrs); });
}

Tensor scatter(const Tensor& x, const Tensor& indices, const Tensor& updates, ir::ScatterAttrs attrs) {
  const Tensor values = as_dtype(updates, checked(x, "scatter").type.dtype);
  return built({x, indices, values},
               [&](const ir::Values& v) { return ops::scatter(v[0], v[1], v[2], attrs); });
}

}  // namespace systole
