// Transforms on functions of Tensors. Numbers are worked out by hand or by finite differences in f64.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "error_check.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/control.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"

namespace systole {
namespace {

using Doubles = std::vector<double>;

Tensor vec(Doubles v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return Tensor(Literal::of<double>(Shape{n}, std::span<const double>(v)));
}
Tensor f64(double v) { return Tensor(Literal::scalar(v)); }

void expect_near(const Tensor& got, const Doubles& expected, double tolerance = 1e-12) {
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << i;
}

TEST(Grad, OfASumOfSquares) {
  const auto df = grad([](const Tensor& x) { return sum(x * x); });
  auto copy = df;
  expect_near(copy(vec({1, 2, 3})), {2, 4, 6});
}

TEST(Grad, OfGradOfGrad) {
  auto f = [](const Tensor& x) { return x * x * x * x; };
  expect_near(grad(f)(f64(2)), {32});
  expect_near(grad(grad(f))(f64(2)), {48});
  expect_near(grad(grad(grad(f)))(f64(2)), {48});
  auto g = [](const Tensor& x) { return tanh(x) * max(x, 0) * max(x, 0); };
  const double x = 0.7, t = std::tanh(x), s = 1 - t * t;
  // (t·x²)'' = t''x² + 4t'x + 2t with t' = s, t'' = -2ts
  expect_near(grad(grad(g))(f64(x)), {-2 * t * s * x * x + 4 * s * x + 2 * t});
}

TEST(Grad, ByTheArgumentsAskedFor) {
  auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) { return sum(a * b + c); };
  const Tensor a = vec({1, 2}), b = vec({3, 4}), c = vec({5, 6});
  expect_near(grad<1>(f)(a, b, c), {1, 2});
  const auto [value, grads] = value_and_grad<0, 2>(f)(a, b, c);
  EXPECT_EQ(value.item<double>(), 22);
  expect_near(std::get<0>(grads), {3, 4});
  expect_near(std::get<1>(grads), {1, 1});
}

TEST(Grad, OfAStructOfTensors) {
  struct Weights {
    Tensor w, b;
  };
  auto f = [](const Weights& p, const Tensor& x) { return sum(p.w * x + p.b); };
  const Weights g = grad(f)(Weights{vec({1, 2}), vec({0, 0})}, vec({5, 7}));
  expect_near(g.w, {5, 7});
  expect_near(g.b, {1, 1});
}

TEST(Grad, ByVariablesWithAuxiliaryResults) {
  Variable w(vec({2, 3})), seen(f64(0));
  const Tensor x = vec({10, 100});
  const auto [value, grads] = value_and_grad(
      [&] {
        const Tensor y = w * x;
        seen.assign(seen + sum(y));  // statistics may be assigned on the way
        return std::pair{sum(y * y), y};
      },
      std::vector<Variable>{w});
  EXPECT_EQ(value.first.item<double>(), 20 * 20 + 300 * 300);
  expect_near(value.second, {20, 300});
  expect_near(grads[0], {2 * 2 * 100., 2 * 3 * 10000.});
  EXPECT_EQ(seen.value().item<double>(), 320);
}

TEST(Grad, ATracedFunctionThatThrowsLeavesVariablesAlone) {
  Variable w(f64(1));
  EXPECT_THROW(grad(
                   [&] {
                     w.assign(w * 5);
                     throw std::runtime_error("user");
                     return Tensor(0.0);
                   },
                   std::vector<Variable>{w}),
               std::runtime_error);
  EXPECT_EQ(w.value().item<double>(), 1);
}

TEST(Grad, OfSomethingThatIsNoNumberSaysSo) {
  const std::string message =
      error_of(ErrorKind::kShape, [] { grad([](const Tensor& x) { return x * 2; })(vec({1, 2})); });
  EXPECT_NE(message.find("f64[2]"), std::string::npos) << message;
  error_of(ErrorKind::kDType, [] { grad([](const Tensor& x) { return sum(x); })(Tensor(3)); });
}

TEST(Grad, StopsWhereToldTo) {
  auto f = [](const Tensor& x) { return sum(x * stop_gradient(x)); };
  expect_near(grad(f)(vec({3, 4})), {3, 4});
  auto g = [](const Tensor& x) { return sum(x * no_grad([&] { return x * x; })); };
  expect_near(grad(g)(vec({3, 4})), {9, 16});
  expect_near(grad([](const Tensor& x) { return sum(stop_gradient(x)); })(vec({3})), {0});
}

TEST(Grad, ByAVariableListedTwice) {
  Variable w(vec({1, 2})), v(vec({3, 4}));
  const Tensor c = vec({10, 20});
  const auto grads = grad([&] { return sum(w * w * v * c); }, {w, v, w});
  expect_near(grads[0], {60, 320});
  expect_near(grads[1], {10, 80});
  expect_near(grads[2], {60, 320});
}

TEST(Grad, NoGradStopsAssignedVariablesToo) {
  Variable v(f64(0));
  expect_near(grad([&](const Tensor& x) {
                no_grad([&] { v.assign(x * x); });
                return v * x;
              })(f64(3)),
              {9});
}

TEST(CustomGradient, MayNotAssignOnTheWayBack) {
  Variable v(f64(0));
  auto f = custom_gradient([](const Tensor& x) { return std::pair{x, x}; },
                           [&](const Tensor&, const Tensor& g) {
                             v.assign(f64(1));
                             return g;
                           });
  error_of(ErrorKind::kUnsupported, [&] { f(f64(1)); });
}

TEST(Vjp, GivesTheValueAndPullsBack) {
  auto f = [](const Tensor& a, const Tensor& b) { return a * b; };
  auto [value, pullback] = vjp(f, vec({1, 2}), vec({3, 4}));
  expect_near(value, {3, 8});
  const auto [da, db] = pullback(vec({1, 10}));
  expect_near(da, {3, 40});
  expect_near(db, {1, 20});
  const auto [da2, db2] = pullback(vec({0, 1}));  // as often as wanted
  expect_near(da2, {0, 4});
}

TEST(Jvp, IsTheDirectionalDerivative) {
  auto f = [](const Tensor& x) { return sin(x) * x; };
  const auto [value, tangent] = jvp(f, vec({0.5}), vec({2}));
  expect_near(value, {std::sin(0.5) * 0.5});
  expect_near(tangent, {2 * (std::cos(0.5) * 0.5 + std::sin(0.5))});
}

TEST(Jvp, GoesThroughWhileLoops) {
  // x ← x² until x ≥ 100: from 3, 9, 81, 6561 = x⁸; derivative 8x⁷.
  auto f = [](const Tensor& x) {
    return while_loop([](const Tensor& v) { return v < 100; }, [](const Tensor& v) { return v * v; }, x);
  };
  const auto [value, tangent] = jvp(f, f64(3), f64(1));
  EXPECT_EQ(value.item<double>(), 6561);
  EXPECT_DOUBLE_EQ(tangent.item<double>(), 8 * std::pow(3, 7));
  const std::string message = error_of(ErrorKind::kUnsupported, [&] { grad(f)(f64(3)); });
  EXPECT_NE(message.find("scan"), std::string::npos) << message;
}

TEST(Grad, OfScan) {
  // c ← c·x over x = (2, 3, 4): product; the gradient by x_i is the product of the others.
  auto f = [](const Tensor& x) {
    return scan([](const Tensor& c, const Tensor& v) { return std::pair{c * v, v}; }, f64(1), x).first;
  };
  expect_near(grad(f)(vec({2, 3, 4})), {12, 8, 6});
}

TEST(Vmap, MapsAndStacks) {
  auto f = [](const Tensor& x, const Tensor& w) { return sum(x * w); };
  const Tensor xs = reshape(arange(6).to(DType::f64), {3, 2});
  expect_near(vmap(f, {0, kNotMapped})(xs, vec({1, 10})), {10, 32, 54});
  expect_near(vmap(f, {1, 0})(xs, reshape(arange(6).to(DType::f64), {2, 3})),
              {0 * 0 + 2 * 1 + 4 * 2., 1 * 3 + 3 * 4 + 5 * 5.});
}

TEST(Vmap, GivesPerExampleGradients) {
  auto loss = [](const Tensor& w, const Tensor& x) { return square(sum(w * x)); };
  const Tensor w = vec({1, -1}), xs = reshape(vec({1, 2, 3, 5, 8, 13}), {3, 2});
  const Tensor g = vmap(grad(loss), {kNotMapped, 0})(w, xs);
  // 2 (w·x) x
  expect_near(g, {-2, -4, 2 * -2 * 3, 2 * -2 * 5, 2 * -5 * 8, 2 * -5 * 13});
}

TEST(Jacobian, OfAVectorFunction) {
  auto f = [](const Tensor& x) { return stack({x[0] * x[1], sin(x[0]), x[2] * 3}, 0); };
  const Tensor j = jacobian(f)(vec({2, 5, 7}));
  EXPECT_EQ(j.shape(), (Shape{3, 3}));
  expect_near(j.reshape({9}), {5, 2, 0, std::cos(2), 0, 0, 0, 0, 3});
  auto g = [](const Tensor& x) { return x[0] * x[0] * x[1]; };
  expect_near(hessian(g)(vec({3, 4})).reshape({4}), {8, 6, 6, 0});
}

TEST(Remat, GivesTheSameGradient) {
  auto f = [](const Tensor& x) { return sum(sin(exp(x))); };
  const Tensor x = vec({0.1, 0.7});
  expect_near(grad(remat(f))(x), grad(f)(x).to_vector<double>());
  EXPECT_EQ(remat(f)(x).item<double>(), f(x).item<double>());
}

TEST(CustomGradient, ReplacesTheDerivative) {
  // The gradient of x·y clipped to [-1, 1].
  auto f = custom_gradient([](const Tensor& x, const Tensor& y) { return std::pair{x * y, std::pair{x, y}}; },
                           [](const std::pair<Tensor, Tensor>& xy, const Tensor& g) {
                             return std::tuple{clip(g * xy.second, -1, 1), clip(g * xy.first, -1, 1)};
                           });
  expect_near(f(vec({2}), vec({0.5})), {1});
  auto loss = [&](const Tensor& x, const Tensor& y) { return sum(f(x, y)); };
  const auto grads = grad<0, 1>(loss)(vec({2}), vec({0.5}));
  expect_near(std::get<0>(grads), {0.5});
  expect_near(std::get<1>(grads), {1});
}

TEST(CustomGradient, CapturesAndNestsInOtherTransforms) {
  const Tensor scale = vec({3, 3});
  auto f = custom_gradient([&](const Tensor& x) { return std::pair{x * scale, x}; },
                           [&](const Tensor& x, const Tensor& g) { return g * x * scale; });
  auto loss = [&](const Tensor& x) { return sum(f(x)); };
  expect_near(grad(loss)(vec({5, 7})), {15, 21});
  auto step = compile([&](const Tensor& x) { return grad(loss)(x); });
  expect_near(step(vec({5, 7})), {15, 21});
  expect_near(grad([&](const Tensor& x) { return sum(grad(loss)(x)); })(vec({5, 7})), {3, 3});
}

TEST(Autocast, KeepsTheTypesOutside) {
  Variable w(Tensor(Literal::of<float>({2, 2}, {1, 2, 3, 4})));
  auto f = autocast([&](const Tensor& x) { return sum(matmul(x, w)); });
  const Tensor x(Literal::of<float>({1, 2}, {1, 1}));
  EXPECT_EQ(f(x).dtype(), DType::f32);
  EXPECT_EQ(f(x).item<float>(), 10);
  EXPECT_EQ(grad([&] { return f(x); }, std::vector<Variable>{w})[0].dtype(), DType::f32);
}

// 2049 takes 12 bits and is 2048 in f16, which has 11; 259 takes 9 and is 260 in bf16, which has 8.
TEST(Autocast, IsThePolicyOfOneFunctionAlsoInsideAnother) {
  const auto product = [](const Tensor& x) { return matmul(x, full({1, 1}, 1.0)); };
  const auto coarse = autocast(product, DType::bf16), fine = autocast(product, DType::f16),
             exact = autocast(product, DType::f32);
  const auto all = autocast(
      [&](const Tensor& x) { return concat({coarse(x), fine(x), exact(x), product(x)}, 0); }, DType::f16);
  const auto rounded = [&](double value) { return all(full({1, 1}, value)).to_vector<float>(); };
  EXPECT_EQ(rounded(2049), (std::vector<float>{2048, 2048, 2049, 2048}));
  EXPECT_EQ(rounded(259), (std::vector<float>{260, 259, 259, 259}));
  EXPECT_EQ(exact(full({1, 1}, 2049.0)).item<float>(), 2049);
}

// The factor 2049 of one part stays, that of the other is rounded to 2048; so are the gradients.
TEST(Autocast, APartInF32HasItsGradientInF32) {
  const Tensor w = full({1, 1}, 2049.0);
  const auto exact = autocast([&](const Tensor& x) { return matmul(x, w); }, DType::f32);
  const auto f = autocast([&](const Tensor& x) { return sum(exact(x) + matmul(x, w)); }, DType::f16);
  EXPECT_EQ(grad(f)(full({1, 1}, 1.0)).item<float>(), 2049 + 2048);
  EXPECT_EQ(compile(grad(f))(full({1, 1}, 1.0)).item<float>(), 2049 + 2048);
  EXPECT_EQ(vmap(f)(full({2, 1, 1}, 1.0)).to_vector<float>(), (std::vector<float>{4097, 4097}));
}

TEST(Compile, OfAGradientStep) {
  Variable w(vec({1, 1}));
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&] { return sum(square(w * x - y)); }, std::vector<Variable>{w});
    w.assign(w - 0.1 * grads[0]);
    return loss;
  });
  // w ← w − 0.2·(w·x − y)·x
  EXPECT_DOUBLE_EQ(step(vec({1, 2}), vec({3, 3})).item<double>(), 4 + 1);
  expect_near(w.value(), {1.4, 1.4});
}

}  // namespace
}  // namespace systole
