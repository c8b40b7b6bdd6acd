// Products and linear algebra of Tensors. Numbers by numpy 2.2 and scipy; gradients by finite differences.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "error_check.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "tensor_check.h"

namespace systole {
namespace {

const DType f32 = DType::f32, f64 = DType::f64, i32 = DType::i32;

Tensor range(Shape shape, DType dtype = DType::f64) { return reshape(arange(shape.count(), dtype), shape); }

const Tensor kA = tensor({{2.0, 1.0, 0.5}, {1.0, 3.0, -1.0}, {0.25, -2.0, 4.0}}, DType::f64);
const Tensor kB = tensor({1.0, 2.0, 3.0}, DType::f64);
const Tensor kSpd = tensor({{4.0, 2.0, 0.6}, {2.0, 5.0, 1.0}, {0.6, 1.0, 3.0}}, DType::f64);
const Tensor kExchanged = tensor({{0.0, 2.0, 1.0}, {1.0, 0.0, 3.0}, {2.0, 1.0, 0.0}}, DType::f64);
const std::vector<double> kInverse{0.6956521739130435,   -0.3478260869565218, -0.17391304347826086,
                                   -0.2956521739130435,  0.5478260869565218,  0.17391304347826086,
                                   -0.19130434782608696, 0.2956521739130435,  0.34782608695652173};

using Function = std::function<Tensor(const Tensor&)>;

// The gradient of f, whose value is one number, by central differences.
std::vector<double> differences(const Function& f, const Tensor& x, double h = 1e-5) {
  std::vector<double> slopes;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const Tensor step = reshape(zeros({x.size()}, f64).at({i}).set(h), x.shape());
    slopes.push_back((f(x + step) - f(x - step)).item<double>() / (2 * h));
  }
  return slopes;
}

void expect_gradient(const Function& f, const Tensor& x) {
  expect_tensor(grad(f)(x), x.type(), differences(f, x), 1e-7);
  const Function norm_of_gradient = [&](const Tensor& t) { return sum(square(grad(f)(t))); };
  expect_tensor(grad(norm_of_gradient)(x), x.type(), differences(norm_of_gradient, x), 1e-6);
}

TEST(Products, MatmulAsNumpys) {
  expect_tensor(matmul(range({2, 2, 3}), range({3, 2})), {f64, {2, 2, 2}}, {10, 13, 28, 40, 46, 67, 64, 94});
  expect_tensor(matmul(kB, range({3, 4})), {f64, {4}}, {32, 38, 44, 50});
  expect_tensor(matmul(kB, kB), {f64, {}}, {14});
  expect_tensor(matmul(tensor({{1, 2}}), tensor({{0.5}, {0.25}})), {f32, {1, 1}}, {1});
  expect_tensor(matmul(zeros({2, 0}), zeros({0, 1})), {f32, {2, 1}}, {0, 0});
  const std::string message = error_of(ErrorKind::kShape, [] { matmul(ones({2, 3}), ones({4, 2})); });
  EXPECT_NE(message.find("matmul"), std::string::npos);
  EXPECT_NE(message.find("f32[2,3] and f32[4,2]"), std::string::npos) << message;
  error_of(ErrorKind::kShape, [] { matmul(ones({2}), 2.0); });
}

TEST(Products, DotOuterTensordotTrace) {
  expect_tensor(dot(kB, kB), {f64, {}}, {14});
  expect_tensor(dot(2, kB), {f64, {3}}, {2, 4, 6});
  expect_tensor(dot(range({2, 2}), range({2, 2, 2})), {f64, {2, 2, 2}}, {2, 3, 6, 7, 6, 11, 26, 31});
  expect_tensor(outer(tensor({1, 2}), tensor({3, 4, 5})), {i32, {2, 3}}, {3, 4, 5, 6, 8, 10});
  expect_tensor(tensordot(range({2, 3, 2}), range({3, 2})), {f64, {2}}, {55, 145});
  expect_tensor(tensordot(range({2, 3, 2}), range({3, 2}), {1, 2}, {0, 1}), {f64, {2}}, {55, 145});
  expect_tensor(tensordot(range({2, 3}), range({2, 3}), {0}, {0}), {f64, {3, 3}},
                {9, 12, 15, 12, 17, 22, 15, 22, 29});
  expect_tensor(tensordot(tensor({1, 2}), tensor({3, 4}), 0), {i32, {2, 2}}, {3, 4, 6, 8});
  error_of(ErrorKind::kShape, [] { tensordot(ones({2, 3}), ones({2, 3}), {1}, {0}); });
  error_of(ErrorKind::kInvalidArgument, [] { tensordot(ones({2}), ones({2}), 2); });
  expect_tensor(trace(kA), {f64, {}}, {9});
  expect_tensor(trace(range({2, 2, 2}, i32)), {DType::i64, {2}}, {3, 11});
  expect_tensor(trace(tensor({{200, 1}, {1, 100}}, DType::u8)), {DType::u64, {}}, {300});
}

TEST(Einsum, Formulas) {
  const Tensor b = range({2, 3}), c = range({3, 4}), d = range({4});
  expect_tensor(einsum("ij,jk,k->i", {b, c, d}), {f64, {2}}, {162, 504});
  expect_tensor(einsum("ii->i", {kA}), {f64, {3}}, {2, 3, 4});
  expect_tensor(einsum("ii", {kA}), {f64, {}}, {9});
  expect_tensor(einsum("ij", {b}), {f64, {2, 3}}, {0, 1, 2, 3, 4, 5});
  expect_tensor(einsum("ji", {b}), {f64, {3, 2}}, {0, 3, 1, 4, 2, 5});
  expect_tensor(einsum("...ij,...jk->...ik", {range({2, 2, 3}), range({1, 3, 1})}), {f64, {2, 2, 1}},
                {5, 14, 23, 32});
  expect_tensor(einsum("i, j -> ji", {kB, d}), {f64, {4, 3}}, {0, 0, 0, 1, 2, 3, 2, 4, 6, 3, 6, 9});
  expect_tensor(einsum("ij->", {b}), {f64, {}}, {15});
  expect_tensor(einsum("ij,ij->i", {b, b}), {f64, {2}}, {5, 50});
  expect_tensor(einsum("iji->j", {range({2, 3, 2}, i32)}), {i32, {3}}, {7, 11, 15});
  // As narrow as its operands, unlike sum: np.einsum("i->", np.array([200, 201], np.uint8)) is uint8 145.
  expect_tensor(einsum("i->", {tensor({200, 201}, DType::u8)}), {DType::u8, {}}, {145});
  expect_tensor(einsum("bi,bj->bij", {b, range({2, 2})}), {f64, {2, 3, 2}},
                {0, 0, 0, 1, 0, 2, 6, 9, 8, 12, 10, 15});
  expect_tensor(einsum("ij,jk", {b, c}), {f64, {2, 4}}, {20, 23, 26, 29, 56, 68, 80, 92});
  expect_tensor(einsum("a...,b...->ab...", {b, b + 1}), {f64, {2, 2, 3}},
                {0, 2, 6, 0, 5, 12, 3, 8, 15, 12, 20, 30});
  expect_tensor(einsum(",i->i", {tensor(2), tensor({1.5, 2.5})}), {f32, {2}}, {3, 5});
  // Axes of size 1 broadcast: Σ_i 2·(1 + 2 + 3).
  expect_tensor(einsum("i,i->", {tensor({2}), tensor({1, 2, 3})}), {i32, {}}, {12});
}

TEST(Einsum, ErrorsNameTheFormula) {
  const Tensor x = ones({2, 3});
  const std::string message = error_of(ErrorKind::kShape, [&] { einsum("ij,jk->ik", {x, x}); });
  EXPECT_NE(message.find("ij,jk->ik"), std::string::npos) << message;
  EXPECT_NE(message.find("'j'"), std::string::npos) << message;
  error_of(ErrorKind::kShape, [&] { einsum("i->i", {x}); });
  error_of(ErrorKind::kInvalidArgument, [&] { einsum("ij->ik", {x}); });
  error_of(ErrorKind::kInvalidArgument, [&] { einsum("ij->ii", {x}); });
  error_of(ErrorKind::kInvalidArgument, [&] { einsum("ij,ij->i", {x}); });
  error_of(ErrorKind::kInvalidArgument, [&] { einsum("ij", {x, x}); });
  error_of(ErrorKind::kInvalidArgument, [&] { einsum("i?->i", {x}); });
  error_of(ErrorKind::kInvalidArgument, [&] { einsum("..i->i", {x}); });
  error_of(ErrorKind::kInvalidArgument, [&] { einsum("i", std::vector<Tensor>{}); });
}

TEST(Einsum, Gradients) {
  expect_gradient([](const Tensor& x) { return sum(square(einsum("ij,jk,ik->k", {x, kA, x}))); }, kSpd);
  expect_gradient([](const Tensor& x) { return sum(pow(einsum("ii->i", {x}), 3)); }, kA);
}

TEST(Triangular, CholeskyAndSolves) {
  const std::vector<double> l{2, 0, 0, 1, 2, 0, 0.3, 0.35, 1.6695807857064};
  expect_tensor(cholesky(kSpd), {f64, {3, 3}}, l, 1e-13);
  expect_tensor(transpose(cholesky(kSpd, false)), {f64, {3, 3}}, l, 1e-13);
  expect_tensor(triangular_solve(kA, kB), {f64, {3}}, {0.5, 0.5, 0.96875});
  expect_tensor(triangular_solve(kA, kB, {.lower = false, .transpose = true}), {f64, {3}},
                {0.5, 0.5, 0.8125});
  expect_tensor(triangular_solve(kA, kB, {.unit_diagonal = true}), {f64, {3}}, {1, 1, 4.75});
  expect_tensor(triangular_solve(stack({kA, kA * 2}), unsqueeze(kB, 1)), {f64, {2, 3, 1}},
                {0.5, 0.5, 0.96875, 0.25, 0.25, 0.484375});
  error_of(ErrorKind::kShape, [] { cholesky(ones({2, 3})); });
  error_of(ErrorKind::kShape, [] { triangular_solve(kA, ones({2})); });
}

TEST(Square, SolveInverseDeterminant) {
  expect_tensor(solve(kA, kB), {f64, {3}}, {-0.5217391304347826, 1.3217391304347825, 1.4434782608695653},
                1e-14);
  expect_tensor(inverse(kA), {f64, {3, 3}}, kInverse, 1e-14);
  expect_tensor(det(kA), {f64, {}}, {14.375}, 1e-14);
  // The first pivot is 0 without an exchange of rows.
  expect_tensor(solve(kExchanged, kB), {f64, {3}},
                {1.3076923076923077, 0.3846153846153846, 0.23076923076923078}, 1e-14);
  expect_tensor(det(kExchanged), {f64, {}}, {13}, 1e-14);
  const auto [sign, log_size] = slogdet(-kExchanged);
  expect_tensor(sign, {f64, {}}, {-1});
  expect_tensor(log_size, {f64, {}}, {2.5649493574615367}, 1e-14);
}

TEST(Square, Batches) {
  const Tensor both = stack({kA, flip(kA, {0})});
  expect_tensor(det(both), {f64, {2}}, {14.375, -14.375}, 1e-14);
  std::vector<double> expected = kInverse;
  const double second[] = {-0.34782608695652173, -0.6956521739130436, 1.391304347826087,
                           0.34782608695652173,  1.0956521739130436,  -0.591304347826087,
                           0.6956521739130435,   0.591304347826087,   -0.3826086956521739};
  expected.insert(expected.end(), std::begin(second), std::end(second));
  expect_tensor(solve(both, stack({eye(3, 3, f64), eye(3, 3, f64) * 2})), {f64, {2, 3, 3}}, expected, 1e-13);
  expect_tensor(solve(both, kB)[0], {f64, {3}}, {-0.5217391304347826, 1.3217391304347825, 1.4434782608695653},
                1e-14);
}

TEST(Square, MappedOverABatch) {
  const Tensor both = stack({kA, kExchanged});
  const auto one = [](const Tensor& a) { return solve(a, kB); };
  expect_tensor(vmap(one)(both), {f64, {2, 3}},
                {-0.5217391304347826, 1.3217391304347825, 1.4434782608695653, 1.3076923076923077,
                 0.3846153846153846, 0.23076923076923078},
                1e-14);
  const Tensor slopes = vmap(grad([](const Tensor& a) { return det(a); }))(both);
  expect_tensor(slopes[0], {f64, {3, 3}}, {10, -4.25, -2.75, -5, 7.875, 4.25, -2.5, 2.5, 5}, 1e-13);
}

TEST(Square, CornersAndDTypes) {
  expect_tensor(solve(tensor({{4}}), tensor({2})), {f32, {1}}, {0.5});
  expect_tensor(det(tensor({{1, 2}, {3, 4}})), {f32, {}}, {-2}, 1e-6);
  expect_tensor(inverse(tensor({{2.0, 0.0}, {0.0, 4.0}}, DType::bf16)), {DType::bf16, {2, 2}},
                {0.5, 0, 0, 0.25});
  expect_tensor(det(tensor({{1.0, 2.0}, {2.0, 4.0}})), {f32, {}}, {0});
  expect_tensor(det(zeros({2, 2})), {f32, {}}, {0});
  expect_tensor(det(zeros({0, 0})), {f32, {}}, {1});
  expect_tensor(solve(zeros({0, 0}), zeros({0})), {f32, {0}}, {});
  expect_tensor(slogdet(zeros({2, 2})).first, {f32, {}}, {0});
  error_of(ErrorKind::kShape, [] { solve(ones({2, 3}), ones({2})); });
  error_of(ErrorKind::kShape, [] { det(ones({3})); });
  const std::string message = error_of(ErrorKind::kShape, [] { solve(kA, ones({2}, f64)); });
  EXPECT_NE(message.find("solve"), std::string::npos);
  EXPECT_NE(message.find("f64[3,3] and f64[2]"), std::string::npos) << message;
}

TEST(Square, GradientsOfFirstAndSecondOrder) {
  const Tensor w = tensor({0.5, -1.0, 2.0}, f64);
  expect_gradient([&](const Tensor& a) { return sum(solve(a, kB) * w); }, kA);
  expect_gradient([&](const Tensor& b) { return sum(square(solve(kExchanged, b)) * w); }, kB);
  expect_gradient([](const Tensor& a) { return det(a); }, kExchanged);
  expect_gradient([](const Tensor& a) { return slogdet(a).second; }, kA);
  expect_gradient([&](const Tensor& a) { return sum(inverse(a) * outer(w, kB)); }, kExchanged);
  expect_gradient([](const Tensor& a) { return sum(det(stack({a, matmul(a, a)}))); }, kA);
  // d det(a) = det(a)·a⁻ᵀ.
  expect_tensor(grad([](const Tensor& a) { return det(a); })(kA), {f64, {3, 3}},
                {10, -4.25, -2.75, -5, 7.875, 4.25, -2.5, 2.5, 5}, 1e-13);
}

}  // namespace
}  // namespace systole
