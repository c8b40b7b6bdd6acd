#include "tensor/functions.h"

#include <optional>
#include <utility>
#include <vector>

namespace systole::recording {

Ints reduced_axes(const Axes& axes, const Tensor& x, std::string_view where) {
  const int rank = checked(x, where).type.shape.rank();
  return axes.are_all() ? ops::other_axes({}, rank) : ops::sorted_axes(axes.list(), rank, where);
}

std::string show_types(std::span<const Tensor> tensors) {
  std::string text;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i != 0) text += i + 1 == tensors.size() ? " and " : ", ";
    text += tensors[i].type().to_string();
  }
  return text;
}

Shape joint_shape(std::span<const Tensor> tensors, std::string_view where) {
  Shape shape;
  for (const Tensor& x : tensors) {
    const std::optional<Shape> joined = ops::broadcast_shape(shape, checked(x, where).type.shape);
    if (!joined)
      throw Error(ErrorKind::kShape, std::string(where), "shapes do not broadcast",
                  "equal sizes, or 1, counted from the last axis", show_types(tensors));
    shape = *joined;
  }
  return shape;
}

Tensor stretched(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Ints axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(shape.rank() - x.rank() + i);
  return record(ir::Op::broadcast, {x}, ir::BroadcastAttrs{shape, std::move(axes)});
}

Tensor reshaped(const Tensor& x, Shape shape) {
  if (x.shape() == shape) return x;
  return record(ir::Op::reshape, {x}, ir::ReshapeAttrs{std::move(shape)});
}

Tensor transposed(const Tensor& x, Ints permutation) {
  bool moves = false;
  for (std::size_t i = 0; i < permutation.size(); ++i)
    moves = moves || permutation[i] != static_cast<std::int64_t>(i);
  if (!moves && permutation.size() == x.shape().size()) return x;
  return record(ir::Op::transpose, {x}, ir::TransposeAttrs{std::move(permutation)});
}

Tensor iota(Type type, std::int64_t axis) {
  check_type(type, "iota");
  return record(ir::Op::iota, {}, ir::IotaAttrs{type.dtype, std::move(type.shape), axis});
}

Tensor reduced(const Tensor& x, ir::Combine kind, const Axes& which, bool keep, std::string_view where) {
  const Ints axes = reduced_axes(which, x, where);
  if (axes.empty()) return as_dtype(x, x.dtype());
  const Tensor result = record(ir::Op::reduce, {x}, ir::ReduceAttrs{kind, axes});
  if (!keep) return result;
  // A broadcast, since a reshape counts elements, and (N+1)*T has no form as a dimension.
  Shape shape = x.shape();
  for (const std::int64_t axis : axes) shape[static_cast<std::size_t>(axis)] = 1;
  if (shape == result.shape()) return result;
  return record(ir::Op::broadcast, {result}, ir::BroadcastAttrs{shape, ops::other_axes(axes, shape.rank())});
}

std::vector<Tensor> promoted(std::span<const Tensor> tensors, std::string_view where) {
  const DType dtype = common_dtype(tensors, where);
  std::vector<Tensor> out;
  for (const Tensor& x : tensors) out.push_back(as_dtype(x, dtype));
  return out;
}

Tensor as_number(const Tensor& x) {
  return checked(x, "convert").type.dtype == DType::boolean ? as_dtype(x, DType::i32) : x;
}

Tensor as_bool(const Tensor& x) {
  return checked(x, "convert").type.dtype == DType::boolean ? x : as_dtype(x, DType::boolean);
}

}  // namespace systole::recording
