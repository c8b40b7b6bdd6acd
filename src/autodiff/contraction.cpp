// Rules of contractions: a product's cotangent meets the other operand along that operand's free axes.

#include <algorithm>

#include "autodiff/rules.h"

#pragma GCC diagnostic error "-Wswitch"  // an op without a rule does not compile

namespace systole::autodiff {

namespace {

using namespace ops;

bool contains(const Ints& list, std::int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// The gradient by one operand of a dot product, whose result has axes (batch, free of a, free of b): dy meets
// the other operand along that operand's free axes.
Value dot_grad(Value x, Value other, Value dy, const Ints& x_batch, const Ints& other_batch,
               const Ints& x_contract, const Ints& other_contract, bool x_is_first) {
  const auto batches = static_cast<std::int64_t>(x_batch.size());
  Ints x_free, other_free;
  for (std::int64_t i = 0; i < x.rank(); ++i)
    if (!contains(x_batch, i) && !contains(x_contract, i)) x_free.push_back(i);
  for (std::int64_t i = 0; i < other.rank(); ++i)
    if (!contains(other_batch, i) && !contains(other_contract, i)) other_free.push_back(i);
  Ints dy_batch, dy_other;
  for (std::int64_t i = 0; i < batches; ++i) dy_batch.push_back(i);
  const std::int64_t skip = batches + (x_is_first ? static_cast<std::int64_t>(x_free.size()) : 0);
  for (std::size_t i = 0; i < other_free.size(); ++i) dy_other.push_back(skip + static_cast<std::int64_t>(i));
  // The operands of the backward product have dy's dtype; it may be wider than x's.
  const Value product =
      dot_general(dy, convert(other, dy.dtype()), dy_other, other_free, dy_batch, other_batch);
  // product has axes (batch, free of x, contracting axes of other in their own order): back to x's order.
  Ints order(static_cast<std::size_t>(x.rank()));
  std::int64_t at = 0;
  for (std::int64_t axis : x_batch) order[static_cast<std::size_t>(axis)] = at++;
  for (std::int64_t axis : x_free) order[static_cast<std::size_t>(axis)] = at++;
  Ints sorted = other_contract;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t axis : sorted) {
    const auto which = std::find(other_contract.begin(), other_contract.end(), axis) - other_contract.begin();
    order[static_cast<std::size_t>(x_contract[static_cast<std::size_t>(which)])] = at++;
  }
  return convert(transpose(product, order), x.dtype());
}

Cotangents dot_rule(const Adjoint& a) {
  const auto& d = a.as<ir::DotAttrs>();
  Cotangents out(2);
  if (a.needed[0])
    out[0] = dot_grad(a.x[0], a.x[1], a.dy(), d.a_batch, d.b_batch, d.a_contract, d.b_contract, true);
  if (a.needed[1])
    out[1] = dot_grad(a.x[1], a.x[0], a.dy(), d.b_batch, d.a_batch, d.b_contract, d.a_contract, false);
  return out;
}

// Batch groups are feature groups of an operand whose batch is cut into parts that stand beside each other as
// features.
class GroupedOperand {
 public:
  GroupedOperand(Value x, const ir::ConvolutionAttrs& attrs)
      : groups_(attrs.batch_groups), shape_(x.shape()) {
    const ir::ConvolutionAxes axes = ir::parse_convolution_layout(attrs.layout);
    batch_ = static_cast<std::size_t>(axes.operand_batch);
    feature_ = static_cast<std::size_t>(axes.operand_feature);
    for (std::size_t i = 0; i < shape_.size(); ++i) {
      if (i == batch_) split_.push_back(groups_);
      split_.push_back(i == batch_ ? floor_div(shape_[i], groups_) : shape_[i]);
    }
    // Axes of the split operand with the group's axis moved before the feature axis.
    for (std::int64_t i = 0; i < split_.rank(); ++i) {
      if (i == static_cast<std::int64_t>(batch_)) continue;
      const auto original = static_cast<std::size_t>(i > static_cast<std::int64_t>(batch_) ? i - 1 : i);
      if (original == feature_) order_.push_back(static_cast<std::int64_t>(batch_));
      order_.push_back(i);
    }
  }
  Value as_features(Value x) const {
    Shape merged = shape_;
    merged[batch_] = floor_div(shape_[batch_], groups_);
    merged[feature_] = shape_[feature_] * Dim(groups_);
    return reshape(transpose(reshape(x, split_), order_), merged);
  }
  Value as_batch(Value x) const {
    Shape moved;
    Ints inverse(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      moved.push_back(split_[static_cast<std::size_t>(order_[i])]);
      inverse[static_cast<std::size_t>(order_[i])] = static_cast<std::int64_t>(i);
    }
    return reshape(transpose(reshape(x, moved), inverse), shape_);
  }

 private:
  std::int64_t groups_;
  Shape shape_, split_;
  std::size_t batch_ = 0, feature_ = 0;
  Ints order_;
};

Cotangents convolution_rule(const Adjoint& a) {
  ir::ConvolutionAttrs c = a.as<ir::ConvolutionAttrs>();
  const Value dy = a.dy();
  std::optional<GroupedOperand> grouped;
  Value x = a.x[0];
  if (c.batch_groups > 1) {
    grouped.emplace(x, c);
    x = grouped->as_features(x);
    c.feature_groups = c.batch_groups;
    c.batch_groups = 1;
  }
  Cotangents out(2);
  if (a.needed[0]) {
    const Value dx = convert(conv_input_grad(dy, convert(a.x[1], dy.dtype()), x.shape(), c), x.dtype());
    out[0] = grouped ? grouped->as_batch(dx) : dx;
  }
  if (a.needed[1])
    out[1] = convert(conv_weight_grad(dy, convert(x, dy.dtype()), a.x[1].shape(), c), a.x[1].dtype());
  return out;
}

Value matrix_transpose(Value x) {
  Ints order;
  for (std::int64_t i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

// 1 on and below the diagonal (above it when `upper`), `diagonal` on it.
Value triangle(Value like, bool upper, double diagonal) {
  const Type type{DType::i32, like.shape()};
  const Value row = iota(like.graph(), type, like.rank() - 2),
              column = iota(like.graph(), type, like.rank() - 1);
  const Value inside = upper ? less(row, column) : less(column, row);
  const Value on = mul(convert(equal(row, column), like.dtype()), scalar_like(like, diagonal));
  return add(convert(inside, like.dtype()), on);
}

// For lower L: the gradient by a is S = L⁻ᵀ·Φ(Lᵀ·dL)·L⁻¹, where Φ keeps the lower triangle and halves the
// diagonal. Only one triangle of a is read, so the symmetric gradient is folded onto it.
Cotangents cholesky_rule(const Adjoint& a) {
  const bool lower = a.as<ir::CholeskyAttrs>().lower;
  const Value l = lower ? a.y[0] : matrix_transpose(a.y[0]);
  const Value dl = lower ? a.dy() : matrix_transpose(a.dy());
  const Value phi =
      mul(matmul(matrix_transpose(l), mul(dl, triangle(dl, false, 1))), triangle(l, false, 0.5));
  ir::TriangularSolveAttrs left;
  left.transpose_a = true;
  const Value half = triangular_solve(l, phi, left);
  ir::TriangularSolveAttrs right;
  right.left_side = false;
  const Value s = triangular_solve(l, half, right);
  const Value symmetric = add(s, matrix_transpose(s));
  return {mul(symmetric, triangle(symmetric, !lower, 0.5))};
}

// op(a)·x = b: db solves the transposed system, da = -db·xᵀ on the triangle that is read.
Cotangents triangular_solve_rule(const Adjoint& a) {
  const auto& t = a.as<ir::TriangularSolveAttrs>();
  ir::TriangularSolveAttrs flipped = t;
  flipped.transpose_a = !t.transpose_a;
  const Value db = triangular_solve(a.x[0], a.dy(), flipped);
  const Value x = a.y[0];
  // d op(a) = -db·xᵀ on the left, -xᵀ·db on the right.
  const Value dop = neg(t.left_side ? matmul(db, matrix_transpose(x)) : matmul(matrix_transpose(x), db));
  const Value da = t.transpose_a ? matrix_transpose(dop) : dop;
  return {mul(da, triangle(da, !t.lower, t.unit_diagonal ? 0 : 1)), db};
}

}  // namespace

Cotangents contraction_rule(const Adjoint& a) {
  switch (a.node.op) {
    case Op::dot_general: return dot_rule(a);
    case Op::convolution: return convolution_rule(a);
    case Op::cholesky: return cholesky_rule(a);
    case Op::triangular_solve: return triangular_solve_rule(a);
#define SYSTOLE_CASE_contraction(name)
#include "autodiff/other_ops.def"
      break;
  }
  a.refuse("it has no rule here");
}

}  // namespace systole::autodiff
