// What a plan does to make evaluation cheap must not show in the numbers: operands read through broadcasts,
// results written over operands, f32 computed where it stands, matrices read where they lie.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "eval/matmul.h"
#include "eval/plan.h"
#include "eval_check.h"

namespace systole::eval_check {
namespace {

using ir::Graph;
using ir::Op;
using ir::Value;
using i32 = std::int32_t;
using i64 = std::int64_t;

template <class T>
Literal counting(Shape shape, i64 first = 0) {
  Literal out(Type{dtype_of<T>, std::move(shape)});
  for (T& v : out.mutable_values<T>()) v = static_cast<T>(static_cast<double>(first++ % 101));
  return out;
}

// x - b broadcast along `axes`, element by element by the definition of broadcast.
template <class T>
void expect_sub_of_broadcast(const Shape& shape, const Shape& small, const Ints& axes) {
  SCOPED_TRACE(shape.to_string() + " - " + small.to_string());
  const Literal x = counting<T>(shape, 7), b = counting<T>(small, 3);
  Graph graph;
  const Value left = graph.input("x", x.type()), right = graph.input("b", b.type());
  graph.output(
      graph.add(Op::sub, {left, graph.add(Op::broadcast, {right}, ir::BroadcastAttrs{shape, axes})}));
  const Literal got = eval::evaluate(graph, std::vector<Literal>{x, b})[0];
  const Ints dims = shape.dims(), small_dims = small.dims();
  const Ints strides = row_major_strides(dims), small_strides = row_major_strides(small_dims);
  for (i64 i = 0; i < x.count(); ++i) {
    i64 from = 0;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const auto axis = static_cast<std::size_t>(axes[k]);
      if (small_dims[k] != 1) from += i / strides[axis] % dims[axis] * small_strides[k];
    }
    const auto at = static_cast<std::size_t>(i);
    const auto wanted = static_cast<T>(x.values<T>()[at] - b.values<T>()[static_cast<std::size_t>(from)]);
    ASSERT_EQ(got.values<T>()[at], wanted) << i;
  }
}

TEST(EvalPlan, OperandsAreReadThroughBroadcasts) {
  expect_sub_of_broadcast<float>({3, 700}, {}, {});
  expect_sub_of_broadcast<float>({3, 700}, {700}, {1});
  expect_sub_of_broadcast<float>({700, 3}, {700}, {0});
  expect_sub_of_broadcast<float>({300, 7}, {7}, {1});
  expect_sub_of_broadcast<double>({2, 5, 3}, {5}, {1});
  expect_sub_of_broadcast<i32>({11, 5, 40}, {5, 1}, {1, 2});
  expect_sub_of_broadcast<i32>({4, 6, 1, 40}, {4, 6, 1, 1}, {0, 1, 2, 3});
  expect_sub_of_broadcast<float>({2, 3, 4}, {2, 4}, {0, 2});  // with a gap: made whole
  expect_sub_of_broadcast<std::int8_t>({2, 600}, {2, 1}, {0, 1});
  expect_sub_of_broadcast<float>({0, 4}, {4}, {1});
}

TEST(EvalPlan, ABroadcastIsMadeForThoseWhoNeedIt) {
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {2}}), p = graph.input("p", {DType::boolean, {}});
  const Value wide = graph.add(Op::broadcast, {x}, ir::BroadcastAttrs{{2, 2}, {0}});
  const Value all = graph.add(Op::broadcast, {p}, ir::BroadcastAttrs{{2, 2}, {}});
  const Value sum = graph.add(Op::add, {wide, wide});
  graph.output(graph.add(Op::select, {all, sum, wide}));
  graph.output(wide);
  graph.output(graph.add(Op::select, {p, sum, wide}));
  const auto results =
      eval::evaluate(graph, std::vector<Literal>{row<float>({1, 2}), make<bool>({}, {true})});
  expect_same(results[0], make<float>({2, 2}, {2, 2, 4, 4}));
  expect_same(results[1], make<float>({2, 2}, {1, 1, 2, 2}));
  expect_same(results[2], results[0]);
}

TEST(EvalPlan, WritingOverOperandsChangesNoValueThatIsStillRead) {
  const Type type{DType::f32, {3}};
  Graph graph;
  const Value x = graph.input("x", type);
  const Value y = graph.add(Op::add, {x, x});                                // 2x
  const Value view = graph.add(Op::reshape, {y}, ir::ReshapeAttrs{{3, 1}});  // shares y's storage
  const Value z = graph.add(Op::mul, {y, y});                                // 4x²
  const Value flat = graph.add(Op::reshape, {view}, ir::ReshapeAttrs{{3}});
  graph.output(graph.add(Op::add, {graph.add(Op::sub, {z, flat}), flat}));
  graph.output(z);
  const Literal argument = row<float>({1, 2, 3});
  const auto results = eval::evaluate(graph, std::vector<Literal>{argument});
  expect_row<float>(results[0], {4, 16, 36});
  expect_row<float>(results[1], {4, 16, 36});
  expect_row<float>(argument, {1, 2, 3});
}

TEST(EvalPlan, AChainRunsInTheStorageOfItsFirstValue) {
  Graph graph;
  const Value x = graph.input("x", {DType::f32, {3}}, 0);
  Value v = x;
  for (int i = 0; i < 5; ++i) v = graph.add(Op::neg, {v});
  graph.output(v);
  const eval::Plan plan(graph);
  std::vector<Literal> arguments{row<float>({1, 2, 3})};
  const std::byte* storage = arguments[0].bytes();
  const int donated[] = {0};
  const std::vector<Literal> results = plan.run(std::move(arguments), nullptr, donated);
  EXPECT_EQ(results[0].bytes(), storage);
  expect_row<float>(results[0], {-1, -2, -3});
}

TEST(EvalPlan, F32ArithmeticIsThatOfF64RoundedOnce) {
  std::mt19937 random(7);
  std::vector<float> a, b;
  const auto any_float = [&] {
    float v;
    do {
      const std::uint32_t bits = random();
      std::memcpy(&v, &bits, sizeof v);
    } while (!std::isfinite(v));
    return v;
  };
  for (int i = 0; i < 4000; ++i) {
    a.push_back(any_float());
    b.push_back(i % 2 == 0 ? any_float() : a.back() * (1 + 1e-6F * static_cast<float>(i)));
  }
  const Shape shape{4000};
  const Literal x = Literal::of<float>(shape, a), y = Literal::of<float>(shape, b);
  const auto check = [&](Op op, double (*f)(double, double)) {
    const Literal got = run(op, {x, y});
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto wanted = static_cast<float>(f(a[i], b[i]));
      ASSERT_EQ(got.values<float>()[i], wanted) << a[i] << " " << b[i];
    }
  };
  check(Op::add, [](double p, double q) { return p + q; });
  check(Op::sub, [](double p, double q) { return p - q; });
  check(Op::mul, [](double p, double q) { return p * q; });
  check(Op::div, [](double p, double q) { return p / q; });
}

// Small integers, whose products add up exactly in every order.
template <class T>
Literal digits(Shape shape, unsigned seed) {
  std::mt19937 random(seed);
  Literal out(Type{dtype_of<T>, std::move(shape)});
  for (T& v : out.mutable_values<T>()) v = static_cast<T>(static_cast<int>(random() % 7) - 3);
  return out;
}

// a [batch, m, k] and b [batch, k, n] under any order of axes, against three loops.
template <class T>
void expect_product(const Ints& a_order, const Ints& b_order, i64 batch, i64 m, i64 k, i64 n) {
  const Ints a_sizes{batch, m, k}, b_sizes{batch, k, n};
  Ints a_dims, b_dims, a_at(3), b_at(3);
  for (std::size_t i = 0; i < 3; ++i) {
    a_dims.push_back(a_sizes[static_cast<std::size_t>(a_order[i])]);
    b_dims.push_back(b_sizes[static_cast<std::size_t>(b_order[i])]);
    a_at[static_cast<std::size_t>(a_order[i])] = static_cast<i64>(i);
    b_at[static_cast<std::size_t>(b_order[i])] = static_cast<i64>(i);
  }
  const Literal a = digits<T>(Shape(a_dims), 1), b = digits<T>(Shape(b_dims), 2);
  const Literal got =
      run(Op::dot_general, {a, b}, ir::DotAttrs{{a_at[0]}, {b_at[0]}, {a_at[2]}, {b_at[1]}, std::nullopt});
  const Ints a_strides = row_major_strides(a_dims), b_strides = row_major_strides(b_dims);
  const auto stride = [](const Ints& strides, i64 axis) { return strides[static_cast<std::size_t>(axis)]; };
  for (i64 i = 0; i < batch; ++i)
    for (i64 r = 0; r < m; ++r)
      for (i64 c = 0; c < n; ++c) {
        i64 wanted = 0;
        for (i64 l = 0; l < k; ++l) {
          const i64 p = i * stride(a_strides, a_at[0]) + r * stride(a_strides, a_at[1]) +
                        l * stride(a_strides, a_at[2]);
          const i64 q = i * stride(b_strides, b_at[0]) + l * stride(b_strides, b_at[1]) +
                        c * stride(b_strides, b_at[2]);
          wanted += static_cast<i64>(a.values<T>()[static_cast<std::size_t>(p)]) *
                    static_cast<i64>(b.values<T>()[static_cast<std::size_t>(q)]);
        }
        ASSERT_EQ(static_cast<i64>(got.values<T>()[static_cast<std::size_t>((i * m + r) * n + c)]), wanted)
            << i << " " << r << " " << c;
      }
}

TEST(EvalPlan, MatricesAreMultipliedInEveryOrderOfAxes) {
  const Ints orders[] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const Ints& a : orders)
    for (const Ints& b : orders) expect_product<float>(a, b, 2, 5, 9, 11);
  expect_product<i32>({0, 1, 2}, {0, 2, 1}, 3, 9, 4, 10);
}

TEST(EvalPlan, EveryInstructionSetMultipliesAlike) {
  constexpr i64 kRows = 16, kDepth = 37, kStride = 40;
  std::mt19937 random(3);
  std::vector<double> a(kRows * kStride), panel(kDepth * eval::kPanel);
  for (double& v : a) v = static_cast<double>(random() % 19) - 9;
  for (double& v : panel) v = static_cast<double>(random() % 19) - 9;
  std::vector<double> wanted(kRows * eval::kPanel, 1);
  for (i64 r = 0; r < kRows; ++r)
    for (i64 c = 0; c < eval::kPanel; ++c)
      for (i64 k = 0; k < kDepth; ++k)
        wanted[static_cast<std::size_t>(r * eval::kPanel + c)] +=
            a[static_cast<std::size_t>(r * kStride + k)] *
            panel[static_cast<std::size_t>(k * eval::kPanel + c)];
  for (const eval::MultiplyPanel multiply : eval::multiply_variants()) {
    std::vector<double> c(kRows * eval::kPanel, 1);
    multiply(kRows, kDepth, a.data(), kStride, panel.data(), c.data(), eval::kPanel);
    EXPECT_EQ(c, wanted);
  }
}

TEST(EvalPlan, MatricesLargerThanEveryBlockAreWhole) {
  expect_product<float>({0, 1, 2}, {0, 1, 2}, 1, 70, 300, 530);
  expect_product<double>({0, 2, 1}, {0, 2, 1}, 1, 65, 257, 9);
}

}  // namespace
}  // namespace systole::eval_check
