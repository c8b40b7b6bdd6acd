// Products, and what triangular_solve and cholesky give.

#include "systole/tensor/linalg.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/functions.h"
#include "tensor/linalg_common.h"
#include "tensor/record.h"

namespace systole {

using namespace recording;
using ir::Op;

namespace recording {

void check_square(const Tensor& a, std::string_view where) {
  const Shape& s = checked(a, where).type.shape;
  if (s.rank() < 2 || s[s.size() - 1] != s[s.size() - 2])
    throw Error(ErrorKind::kShape, std::string(where), "not a square matrix", "equal last two axes",
                a.type().to_string());
}

System make_system(const Tensor& a, const Tensor& b, std::string_view where) {
  check_square(a, where);
  const Tensor both[] = {a, b};
  std::vector<Tensor> x = promoted(both, where);
  System s;
  s.dtype = as_float(x[0]).dtype();
  for (Tensor& t : x) t = as_dtype(t, ops::compute_dtype(s.dtype));
  s.vector = b.rank() == 1;
  if (s.vector) x[1] = unsqueeze(x[1], -1);
  const auto fail = [&] {
    throw Error(ErrorKind::kShape, std::string(where), "the right-hand side does not fit the matrix",
                "as many rows, and a batch that broadcasts", show_types(both));
  };
  const Shape &m = x[0].shape(), &r = x[1].shape();
  if (r.rank() < 2 || r[r.size() - 2] != m[m.size() - 1]) fail();
  const auto leading = [](const Shape& shape) {
    return Shape(std::span<const Dim>(shape.begin(), shape.end() - 2));
  };
  const std::optional<Shape> batch = ops::broadcast_shape(leading(m), leading(r));
  if (!batch) fail();
  const auto with_batch = [&](const Tensor& t) {
    Shape shape = *batch;
    shape.push_back(t.shape()[t.shape().size() - 2]);
    shape.push_back(t.shape()[t.shape().size() - 1]);
    return stretched(t, shape);
  };
  s.a = with_batch(x[0]);
  s.b = with_batch(x[1]);
  return s;
}

Tensor System::result(const Tensor& x) const {
  const Tensor y = as_dtype(x, dtype);
  return vector ? squeeze(y, {-1}) : y;
}

}  // namespace recording

Tensor matmul(const Tensor& a, const Tensor& b) {
  const Tensor both[] = {a, b};
  const std::vector<Tensor> x = promoted(both, "matmul");
  return built({x[0], x[1]}, [](const ir::Values& v) { return ops::matmul(v[0], v[1]); });
}

Tensor dot(const Tensor& a, const Tensor& b) {
  if (checked(a, "dot").type.shape.rank() == 0 || checked(b, "dot").type.shape.rank() == 0) return a * b;
  return tensordot(a, b, {-1}, {b.rank() == 1 ? 0 : -2});
}

Tensor outer(const Tensor& a, const Tensor& b) { return unsqueeze(flatten(a), 1) * unsqueeze(flatten(b), 0); }

Tensor tensordot(const Tensor& a, const Tensor& b, Ints a_axes, Ints b_axes) {
  const Tensor both[] = {a, b};
  const std::vector<Tensor> x = promoted(both, "tensordot");
  a_axes = ops::normalize_axes(std::move(a_axes), a.rank(), "tensordot");
  b_axes = ops::normalize_axes(std::move(b_axes), b.rank(), "tensordot");
  bool fits = a_axes.size() == b_axes.size();
  for (std::size_t i = 0; fits && i < a_axes.size(); ++i)
    fits = a.shape()[static_cast<std::size_t>(a_axes[i])] == b.shape()[static_cast<std::size_t>(b_axes[i])];
  if (!fits)
    throw Error(ErrorKind::kShape, "tensordot", "the contracted axes differ in size", "equal sizes in pairs",
                fmt::format("{} over {} and {}", show_types(both), Shape(a_axes).to_string(),
                            Shape(b_axes).to_string()));
  ir::DotAttrs attrs;
  attrs.a_contract = std::move(a_axes);
  attrs.b_contract = std::move(b_axes);
  return record(Op::dot_general, {x[0], x[1]}, std::move(attrs));
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::int64_t axes) {
  if (axes < 0 || axes > checked(a, "tensordot").type.shape.rank() ||
      axes > checked(b, "tensordot").type.shape.rank()) {
    const Tensor both[] = {a, b};
    throw Error(ErrorKind::kInvalidArgument, "tensordot", fmt::format("cannot contract {} axes", axes), {},
                show_types(both));
  }
  Ints last, first;
  for (std::int64_t i = 0; i < axes; ++i) {
    last.push_back(i - axes);
    first.push_back(i);
  }
  return tensordot(a, b, std::move(last), std::move(first));
}

Tensor trace(const Tensor& a) { return sum(diagonal(a), {-1}); }

Tensor cholesky(const Tensor& a, Flag lower) {
  check_square(a, "cholesky");
  const Tensor x = as_float(a);
  const Tensor wide = as_dtype(x, ops::compute_dtype(x.dtype()));
  return as_dtype(record(Op::cholesky, {wide}, ir::CholeskyAttrs{lower}), x.dtype());
}

Tensor triangular_solve(const Tensor& a, const Tensor& b, TriangularOptions options) {
  const System s = make_system(a, b, "triangular_solve");
  return s.result(
      record(Op::triangular_solve, {s.a, s.b},
             ir::TriangularSolveAttrs{true, options.lower, options.unit_diagonal, options.transpose}));
}

}  // namespace systole
