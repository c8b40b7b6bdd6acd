// Elementwise work on the processor in the orders that its loops take: runs of several short loops with what
// is read in another order, outputs of several sizes in one kernel, parts of a value that are padding.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "graph_arguments.h"
#include "kernel_check.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {

namespace {

using ir::Graph;
using ir::Value;

// y = w - m / (√v + ½) of filters, with m as a library leaves it: in[h, w, i, o] for [o, i, h, w].
Value updated(Graph& graph, const std::string& name, const Shape& shape, DType dtype) {
  const Shape moved{shape[2], shape[3], shape[1], shape[0]};
  const Value w = graph.input("w" + name, {dtype, shape}), v = graph.input("v" + name, {dtype, shape}),
              m = graph.input("m" + name, {dtype, moved});
  const Value root = ops::add(ops::sqrt(ops::mul(v, v)), ops::full(graph, {dtype, shape}, 0.5));
  return ops::sub(w, ops::div(ops::transpose(m, {3, 2, 0, 1}), root));
}

// The arguments of `updated` that begin at `first`.
std::vector<double> by_hand(const std::vector<Literal>& arguments, std::size_t first, const Shape& shape) {
  const std::vector<double> w = arguments[first].to_doubles(), v = arguments[first + 1].to_doubles(),
                            m = arguments[first + 2].to_doubles();
  const std::int64_t o = shape[0].value(), i = shape[1].value(), h = shape[2].value(), c = shape[3].value();
  std::vector<double> result;
  for (std::int64_t at = 0; at < shape.count(); ++at) {
    const std::int64_t column = at % c, row = at / c % h, in = at / c / h % i, out = at / c / h / i;
    const auto from = static_cast<std::size_t>(((row * c + column) * i + in) * o + out);
    const auto place = static_cast<std::size_t>(at);
    result.push_back(w[place] - m[from] / (std::abs(v[place]) + 0.5));
  }
  return result;
}

void expect_near(const Literal& got, const std::vector<double>& wanted, double error) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(values[i], wanted[i], error * (1 + std::abs(wanted[i]))) << i;
}

TEST(CpuMaps, ShortLoopsMakeARunThatIsReadInOrder) {
  Graph graph("update");
  graph.output(updated(graph, "", {64, 32, 3, 3}, DType::f32));
  const codegen::Kernel kernel = kernel_check::kernel_of(graph, codegen::Dialect::c);
  EXPECT_NE(kernel.source.find("for (s_i64 r = 0; r < 144; ++r)"), std::string::npos) << kernel.source;
  EXPECT_EQ(kernel.items, 8);  // 16 runs at a time
}

TEST(CpuMaps, FiltersOfSeveralSizesAreUpdatedInOneKernel) {
  const std::vector<Shape> shapes{{8, 3, 3, 3},   {64, 32, 3, 3}, {5, 250, 3, 3}, {7, 11, 1, 1},
                                  {13, 17, 5, 2}, {2, 37, 3, 3},  {3, 4, 20, 40}, {96, 1000, 1, 1}};
  Graph graph("updates");
  for (std::size_t k = 0; k < shapes.size(); ++k)
    graph.output(updated(graph, std::to_string(k), shapes[k], DType::f32));
  const std::vector<Literal> arguments = random_arguments(graph, 9, 1),
                             got = compile(graph, "cpu").run(arguments);
  for (std::size_t k = 0; k < shapes.size(); ++k)
    expect_near(got[k], by_hand(arguments, 3 * k, shapes[k]), 1e-5);
}

TEST(CpuMaps, OtherDtypes) {
  const Shape shape{6, 50, 3, 3};
  Graph graph("updates");
  graph.output(updated(graph, "d", shape, DType::f64));
  graph.output(updated(graph, "b", shape, DType::bf16));
  const std::vector<Literal> arguments = random_arguments(graph, 9, 1),
                             got = compile(graph, "cpu").run(arguments);
  expect_near(got[0], by_hand(arguments, 0, shape), 1e-13);
  expect_near(got[1], by_hand(arguments, 3, shape), 0.04);  // four roundings of 2^-9, of numbers up to 6
}

// Padding in front of, behind and between rows and columns, the channels whole: no lane decides what is read.
TEST(CpuMaps, WhatIsPaddingForAllChannelsIsDecidedOnce) {
  Graph graph("padded");
  const Value x = graph.input("x", {DType::f32, {2, 3, 4, 20}}),
              y = graph.input("y", {DType::f32, {2, 7, 9, 20}});
  const Value padded =
      ops::pad(x, ops::full(graph, {DType::f32, {}}, 0.25), {0, 1, -1, 0}, {0, 1, 3, 0}, {0, 1, 1, 0});
  ASSERT_EQ(padded.shape(), (Shape{2, 7, 9, 20}));
  graph.output(ops::add(padded, y));
  const std::vector<Literal> arguments = random_arguments(graph, 1, 1);
  const std::vector<double> from = arguments[0].to_doubles();
  std::vector<double> wanted = arguments[1].to_doubles();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::size_t c = i % 20, column = i / 20 % 9 + 1, row = i / 180 % 7, n = i / 1260;
    const bool inside = row % 2 == 1 && row < 6 && column % 2 == 0 && column < 8;
    wanted[i] += inside ? from[((n * 3 + row / 2) * 4 + column / 2) * 20 + c] : 0.25;
  }
  expect_near(compile(graph, "cpu").run(arguments)[0], wanted, 1e-7);
  const codegen::Kernel kernel = kernel_check::kernel_of(graph, codegen::Dialect::c);
  EXPECT_EQ(kernel.source.find("if ("), std::string::npos) << kernel.source;
}

}  // namespace

}  // namespace systole
