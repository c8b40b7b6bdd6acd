// Builders of products: dot_general and what is made of it, convolution and the triangular factorisations.

#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <utility>

#include "ops/common.h"
#include "systole/base/error.h"

namespace systole::ops {

using ir::Op;

Value dot_general(Value a, Value b, Ints a_contract, Ints b_contract, Ints a_batch, Ints b_batch,
                  std::optional<DType> dtype) {
  Graph& graph = graph_of("dot_general", {a, b});
  ir::DotAttrs attrs;
  attrs.a_batch = normalize_axes(std::move(a_batch), a.rank(), "dot_general");
  attrs.b_batch = normalize_axes(std::move(b_batch), b.rank(), "dot_general");
  attrs.a_contract = normalize_axes(std::move(a_contract), a.rank(), "dot_general");
  attrs.b_contract = normalize_axes(std::move(b_contract), b.rank(), "dot_general");
  attrs.dtype = dtype;
  return graph.add(Op::dot_general, {a, b}, std::move(attrs));
}

namespace {

// The axes before the last two.
Shape leading(const Shape& shape) { return Shape(std::span<const Dim>(shape.begin(), shape.end() - 2)); }

Value with_leading(Value x, Shape shape) {
  shape.push_back(x.shape()[x.shape().size() - 2]);
  shape.push_back(x.shape()[x.shape().size() - 1]);
  return broadcast_to(x, std::move(shape));
}

}  // namespace

Value matmul(Value a, Value b) {
  graph_of("matmul", {a, b});
  const auto both = [&] { return fmt::format("{} and {}", a.type().to_string(), b.type().to_string()); };
  if (a.rank() == 0 || b.rank() == 0)
    throw Error(ErrorKind::kShape, "matmul", "an operand is a scalar", "vectors or matrices", both());
  if (a.dtype() != b.dtype())
    throw Error(ErrorKind::kDType, "matmul", "the operands differ in dtype; convert first", {}, both());
  const std::int64_t b_contract = b.rank() == 1 ? 0 : b.rank() - 2;
  const Dim inner = a.shape()[a.shape().size() - 1], other = b.shape()[static_cast<std::size_t>(b_contract)];
  if (inner != other)
    throw Error(ErrorKind::kShape, "matmul", "the contracted sizes differ",
                fmt::format("{} there as well", inner.to_string()), both());
  // Free axes of a come before those of b, so that one of rank at most 2 needs no batch axes.
  if (b.rank() <= 2) return dot_general(a, b, {-1}, {b_contract});
  if (a.rank() == 1) return dot_general(b, a, {-2}, {0});
  const std::optional<Shape> batch = broadcast_shape(leading(a.shape()), leading(b.shape()));
  if (!batch) refuse_broadcast("matmul", {a, b});
  a = with_leading(a, *batch);
  b = with_leading(b, *batch);
  const Ints axes = other_axes({a.rank() - 2, a.rank() - 1}, a.rank());
  return dot_general(a, b, {-1}, {-2}, axes, axes);
}

Value convolution(Value x, Value kernel, ir::ConvolutionAttrs attrs) {
  Graph& graph = graph_of("convolution", {x, kernel});

  const std::size_t spatial = static_cast<std::size_t>(std::max(x.rank() - 2, 0));
  for (Ints* ones : {&attrs.strides, &attrs.operand_dilation, &attrs.kernel_dilation})
    *ones = filled(*ones, spatial, 1);
  for (Ints* zeros : {&attrs.pad_low, &attrs.pad_high, &attrs.reverse}) *zeros = filled(*zeros, spatial, 0);
  return graph.add(Op::convolution, {x, kernel}, std::move(attrs));
}

Value cholesky(Value a, bool lower) {
  return graph_of("cholesky", {a}).add(Op::cholesky, {a}, ir::CholeskyAttrs{lower});
}

Value triangular_solve(Value a, Value b, ir::TriangularSolveAttrs attrs) {
  return graph_of("triangular_solve", {a, b}).add(Op::triangular_solve, {a, b}, attrs);
}

}  // namespace systole::ops
