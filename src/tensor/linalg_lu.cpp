// Square systems by LU decomposition with partial pivoting: P·a = L·U, where P exchanges rows so that each
// pivot is the largest of its column. The decomposition is a composite that carries its own backward, written
// in triangular solves and products, so that derivatives of every order are as stable as the decomposition
// and need none of its loop's residuals. L (its diagonal of ones left out) and U share one matrix.

#include <string>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/functions.h"
#include "tensor/linalg_common.h"
#include "tensor/record.h"

namespace systole {

using namespace recording;
using ir::Combine;
using ir::Graph;
using ir::GraphRef;
using ir::Op;
using ir::Value;
using ir::Values;

namespace {

Shape without_last(const Shape& shape, std::size_t n) {
  return Shape(std::span<const Dim>(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(n)));
}

// A value per matrix, row or column, repeated over whole matrices.
Value per_matrix(Value x, const Shape& shape) {
  return ops::spread(x, shape, {shape.rank() - 2, shape.rank() - 1});
}
Value per_row(Value x, const Shape& shape) { return ops::spread(x, shape, {shape.rank() - 1}); }
Value per_column(Value x, const Shape& shape) { return ops::spread(x, shape, {shape.rank() - 2}); }

Value zero(Value like) { return ops::scalar_like(like, 0); }

// The elements where `mask` holds, of which there is one along `axis`.
Value pick(Value mask, Value x, std::int64_t axis) { return ops::sum(ops::select(mask, x, zero(x)), {axis}); }

// One column: (matrix, order of rows, sign of the order, column k) to the same after step k.
Values lu_step(Value m, Value order, Value sign, Value k) {
  Graph& graph = m.graph();
  const Shape shape = m.shape(), line = order.shape();
  const Value row = ops::iota(graph, {DType::i32, shape}, -2),
              column = ops::iota(graph, {DType::i32, shape}, -1);
  const Value place = ops::iota(graph, {DType::i32, line}, -1);
  const Value in_column = ops::equal(column, k), in_row = ops::equal(row, k), here = ops::equal(place, k);

  const Value size = ops::abs(pick(in_column, m, -1));
  const Value candidate = ops::select(ops::less(place, k), ops::scalar_like(size, -1), size);
  const Value p = ops::arg_reduce(candidate, Combine::max, -1);  // the pivot's row, per matrix

  const Value in_pivot_row = ops::equal(row, per_matrix(p, shape));
  const Value pivot_row = pick(in_pivot_row, m, -2), old_row = pick(in_row, m, -2);
  const Value lower = ops::select(in_pivot_row, per_column(old_row, shape), m);
  const Value exchanged = ops::select(in_row, per_column(pivot_row, shape), lower);

  // A column of zeros has no pivot and nothing to eliminate.
  const Value pivot = pick(here, pivot_row, -1);
  const Value divisor = ops::select(ops::equal(pivot, zero(pivot)), ops::scalar_like(pivot, 1), pivot);
  const Value below = ops::greater(row, k), right = ops::greater(column, k);
  const Value factor = ops::div(per_row(pick(in_column, exchanged, -1), shape), per_matrix(divisor, shape));
  const Value eliminated = ops::sub(exchanged, ops::mul(factor, per_column(pivot_row, shape)));
  const Value next = ops::select(ops::bitwise_and(below, right), eliminated,
                                 ops::select(ops::bitwise_and(below, in_column), factor, exchanged));

  const auto spread = [&](Value x) { return ops::spread(x, line, {line.rank() - 1}); };
  const Value at_pivot = ops::equal(place, spread(p));
  const Value pivot_place = spread(pick(at_pivot, order, -1)), old_place = spread(pick(here, order, -1));
  const Value next_order = ops::select(here, pivot_place, ops::select(at_pivot, old_place, order));
  const Value next_sign = ops::select(ops::equal(p, k), sign, ops::neg(sign));
  return {next, next_order, next_sign};
}

// a to (L and U in one matrix, order: row i of P·a is row order[i] of a, sign of the order).
Values lu_body(Value a) {
  Graph& graph = a.graph();
  const Shape line = without_last(a.shape(), 1), batch = without_last(a.shape(), 2);
  const Dim n = line[line.size() - 1];
  const std::vector<Type> types{a.type(), {DType::i32, line}, {DType::i32, batch}, {DType::i32, {}}};
  const GraphRef step =
      ir::make_graph("lu_step", types, [](const Values& v) { return lu_step(v[0], v[1], v[2], v[3]); });
  const Value order = ops::iota(graph, {DType::i32, line}, -1), sign = ops::full(graph, types[2], 1);
  const Value columns = ops::iota(graph, {DType::i32, {n}}, 0);
  return ops::scan(step, {a, order, sign}, {columns}, {}, n);
}

Value transposed_matrix(Value x) {
  Ints order = ops::other_axes({}, x.rank());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return ops::transpose(x, order);
}

// x where row - column is at least `least` (at most -least when not `lower`), else 0.
Value triangle(Value x, bool lower, double least) {
  const Type type{DType::i32, x.shape()};
  const Value row = ops::iota(x.graph(), type, -2), column = ops::iota(x.graph(), type, -1);
  const Value distance = lower ? ops::sub(row, column) : ops::sub(column, row);
  return ops::select(ops::greater_equal(distance, ops::scalar_like(distance, least)), x, zero(x));
}

constexpr ir::TriangularSolveAttrs kUnitLower{.left_side = true, .lower = true, .unit_diagonal = true};
constexpr ir::TriangularSolveAttrs kUpper{.left_side = true, .lower = false};

// da = Pᵀ·L⁻ᵀ·(tril(Lᵀ·dL, -1) + triu(dU·Uᵀ))·U⁻ᵀ, where dL and dU are the triangles of the cotangent.
Value lu_backward(Value packed, Value order, Value cotangent) {
  const Type type{DType::i32, packed.shape()};
  const Value row = ops::iota(packed.graph(), type, -2), column = ops::iota(packed.graph(), type, -1);
  const Value strict = triangle(packed, true, 1);
  const Value l = ops::add(strict, ops::convert(ops::equal(row, column), packed.dtype()));
  const Value u = triangle(packed, false, 0);
  const Value dl = triangle(cotangent, true, 1), du = triangle(cotangent, false, 0);
  const Value left = triangle(ops::matmul(transposed_matrix(l), dl), true, 1);
  const Value inner = ops::add(left, triangle(ops::matmul(du, transposed_matrix(u)), false, 0));
  ir::TriangularSolveAttrs by_l = kUnitLower, by_u = kUpper;
  by_l.transpose_a = by_u.transpose_a = true;
  by_u.left_side = false;
  const Value rows = ops::triangular_solve(packed, ops::triangular_solve(packed, inner, by_l), by_u);
  const std::int64_t rank = packed.rank();
  ir::ScatterAttrs s;
  s.combine = Combine::sum;
  s.update_window_axes = {rank - 1};
  s.inserted_axes = s.index_map = {rank - 2};
  s.operand_batch_axes = s.index_batch_axes = ops::other_axes({rank - 2, rank - 1}, packed.rank());
  s.index_vector_axis = order.rank();
  s.unique = true;
  return ops::scatter(ops::full(packed.graph(), packed.type(), 0), order, rows, s);
}

struct Lu {
  Tensor packed, order, sign;
};

Lu lu(const Tensor& a) {
  const std::vector<Type> operands{a.type()};
  const GraphRef body = ir::make_graph("lu", operands, [](const Values& v) { return lu_body(v[0]); });
  std::vector<Type> types{a.type()};  // operands, results, cotangents of the float results
  for (std::size_t i = 0; i < body->outputs().size(); ++i) types.push_back(body->output_type(i));
  types.push_back(a.type());
  const GraphRef backward = ir::make_graph(
      "lu_backward", types, [](const Values& v) { return Values{lu_backward(v[1], v[2], v[4])}; });
  const std::vector<Tensor> results =
      record_multi(Op::composite, {&a, 1}, ir::CompositeAttrs{"lu", {}}, {body, backward});
  return {results[0], results[1], results[2]};
}

// Row i of the result is row order[i] of b.
Tensor ordered_rows(const Tensor& b, const Tensor& order) {
  const std::int64_t rank = b.rank();
  ir::GatherAttrs g;
  g.offset_axes = {rank - 1};
  g.collapsed_axes = g.start_index_map = {rank - 2};
  g.operand_batch_axes = g.index_batch_axes = ops::other_axes({rank - 2, rank - 1}, b.rank());
  g.index_vector_axis = order.rank();
  g.slice_sizes = Shape(Ints(b.shape().size(), 1));
  g.slice_sizes[b.shape().size() - 1] = b.shape()[b.shape().size() - 1];
  return record(Op::gather, {b, order}, std::move(g));
}

bool has_no_rows(const Tensor& a) { return a.shape()[a.shape().size() - 1] == Dim(0); }

Tensor wide_square(const Tensor& a, std::string_view where) {
  check_square(a, where);
  const Tensor x = as_float(a);
  return as_dtype(x, ops::compute_dtype(x.dtype()));
}

Tensor in_dtype_of(const Tensor& a, const Tensor& x) {
  return is_float(a.dtype()) ? as_dtype(x, a.dtype()) : x;
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) {
  const System s = make_system(a, b, "solve");
  if (has_no_rows(s.a)) return s.result(s.b);
  const Lu f = lu(s.a);
  const Tensor y = record(Op::triangular_solve, {f.packed, ordered_rows(s.b, f.order)}, kUnitLower);
  return s.result(record(Op::triangular_solve, {f.packed, y}, kUpper));
}

Tensor inverse(const Tensor& a) {
  check_square(a, "inverse");
  const std::int64_t n = a.size(-1);
  return solve(a, eye(n, n, as_float(a).dtype()));
}

Tensor det(const Tensor& a) {
  const Tensor x = wide_square(a, "det");
  if (has_no_rows(x)) return in_dtype_of(a, ones(without_last(x.shape(), 2), x.dtype()));
  const Lu f = lu(x);
  return in_dtype_of(a, prod(diagonal(f.packed), {-1}) * as_dtype(f.sign, x.dtype()));
}

std::pair<Tensor, Tensor> slogdet(const Tensor& a) {
  const Tensor x = wide_square(a, "slogdet");
  const Shape batch = without_last(x.shape(), 2);
  if (has_no_rows(x))
    return {in_dtype_of(a, ones(batch, x.dtype())), in_dtype_of(a, zeros(batch, x.dtype()))};
  const Lu f = lu(x);
  const Tensor pivots = diagonal(f.packed);
  const Tensor signs = prod(sign(pivots), {-1}) * as_dtype(f.sign, x.dtype());
  return {in_dtype_of(a, signs), in_dtype_of(a, sum(log(abs(pivots)), {-1}))};
}

}  // namespace systole
