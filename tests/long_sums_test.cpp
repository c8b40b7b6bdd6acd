// Sums of very many numbers are as good as those of few: equal positive numbers are the worst case, for the
// roundings of a running sum all go the same way. And rows too long for 32 bits are indexed with 64.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernel.h"
#include "compile/program.h"
#include "error_check.h"
#include "generated_only.h"
#include "kernel_check.h"
#include "systole/compile/passes.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {

namespace {

using codegen::Dialect;
using codegen::Kernel;
using ir::Combine;
using ir::Graph;
using ir::Value;
using kernel_check::kernel_of;

constexpr double kEps = std::numeric_limits<float>::epsilon();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kTenth = 0.1f;  // every element of what is summed, where nothing else is said

class LongSums : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    runtime::Backend& backend = runtime::backend(GetParam());
    if (backend.devices().empty()) GTEST_SKIP() << backend.unavailable_reason();
  }
  static std::vector<double> run(const Graph& graph, const std::vector<Literal>& arguments) {
    return compile(graph, GetParam()).run(arguments).at(0).to_doubles();
  }
  // OpenCL's compiler takes its time: there, one case of each kind.
  static bool all_cases() { return GetParam() == "cpu"; }
  // All elements of `y` of an x full of tenths. The bound is far below the ops' 4·eps·√K: it is what a run of
  // a few hundred points may lose.
  template <class Make>
  static void expect(const Shape& shape, double wanted, Make&& y) {
    Graph graph("sum");
    graph.output(y(graph.input("x", {DType::f32, shape})));
    for (const double got : run(graph, {Literal::full({DType::f32, shape}, kTenth)}))
      EXPECT_NEAR(got / wanted, 1, 32 * kEps) << shape.to_string();
  }
};

TEST_P(LongSums, AlongRows) {
  const auto sum = [](const Value& x) { return ops::sum(x, {-1}); };
  expect({2, 2000005}, 2000005 * kTenth, sum);
  if (!all_cases()) return;
  for (const std::int64_t length : {4096, 4101, 4112, 100000})
    expect({2, length}, static_cast<double>(length) * kTenth, sum);
}

TEST_P(LongSums, AlongColumns) {
  expect({2000000, 4}, 2e6 * kTenth, [](const Value& x) { return ops::sum(x, {0}); });
  if (all_cases()) expect({20000, 70}, 2e4 * kTenth, [](const Value& x) { return ops::sum(x, {0}); });
}

TEST_P(LongSums, AlongSeveralAxes) {
  expect({500, 40, 2, 100}, 2e6 * kTenth, [](const Value& x) { return ops::sum(x, {0, 1, 3}); });
  if (!all_cases()) return;
  expect({100, 3, 2000, 4}, 2e5 * kTenth, [](const Value& x) { return ops::sum(x, {0, 2}); });
  expect({1000, 2000}, 2e6 * kTenth, [](const Value& x) { return ops::sum(x, {0, 1}); });
}

// An embedding's gradient: rounded to bf16 after every addition, 256 ones and another would stay 256.
TEST_P(LongSums, OfUpdatesThatMeetInSmallFloats) {
  constexpr std::int64_t kCount = 2000;
  Graph graph("scatter");
  const Value x = graph.input("x", {DType::bf16, {3}}), indices = graph.input("i", {DType::i32, {kCount, 1}}),
              updates = graph.input("u", {DType::bf16, {kCount}});
  graph.output(ops::scatter(
      x, indices, updates,
      {.combine = Combine::sum, .inserted_axes = {0}, .index_map = {0}, .index_vector_axis = 1}));
  const std::vector<double> got =
      run(graph, {Literal::full({DType::bf16, {3}}, 0), Literal::full({DType::i32, {kCount, 1}}, 1),
                  Literal::full({DType::bf16, {kCount}}, 1)});
  EXPECT_EQ(got, (std::vector<double>{0, kCount, 0}));  // 2000 is a bf16
}

TEST_P(LongSums, Means) {
  expect({2000000}, kTenth, [](const Value& x) { return ops::mean(x, {0}); });
  if (!all_cases()) return;
  expect({2, 1000000}, kTenth, [](const Value& x) { return ops::mean(x, {1}); });
  expect({1000000, 2}, kTenth, [](const Value& x) { return ops::mean(x, {0}); });
}

// A largest element beside the sum, and another sum that needs both.
TEST_P(LongSums, InPassesWithOtherReductions) {
  expect({2, 1000000}, 1e6 * (kTenth + 1e6 * kTenth + kTenth), [](const Value& x) {
    const Shape shape{2, 1000000};
    const auto whole = [&](const Value& row) { return ops::broadcast_to(row, shape); };
    const Value both =
        ops::add(whole(ops::sum(x, {1}, true)), whole(ops::reduce(x, Combine::max, {1}, true)));
    return ops::sum(ops::add(x, both), {1});
  });
}

TEST_P(LongSums, OfSmallFloatsRoundOnce) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    // 0.01 is 0.010009765625 in bf16 and 0.01000213623046875 in f16; steps are 128 and 16 near 20000.
    const double wanted = dtype == DType::bf16 ? 20019.53125 : 20004.2724609375;
    const double half = dtype == DType::bf16 ? 64 : 8;
    for (const bool columns : {false, true}) {
      if (!all_cases() && columns == (dtype == DType::f16)) continue;
      const Shape shape = columns ? Shape{2000000, 2} : Shape{2, 2000000};
      Graph graph("sum");
      graph.output(ops::sum(graph.input("x", {dtype, shape}), {columns ? 0 : 1}));
      for (const double got : run(graph, {Literal::full({dtype, shape}, 0.01)}))
        EXPECT_NEAR(got, wanted, half) << name(dtype);
    }
  }
}

TEST_P(LongSums, InProducts) {
  const double wanted = 2e6 * kTenth * kTenth;
  expect({2000000}, wanted, [](const Value& x) { return ops::dot_general(x, x, {0}, {0}); });
  if (!all_cases()) return;
  expect({2000000, 4}, wanted, [](const Value& x) { return ops::dot_general(x, x, {0}, {0}); });
  expect({1, 2000000}, wanted, [](const Value& x) { return ops::dot_general(x, x, {1}, {1}); });
  expect({20, 60000}, 6e4 * kTenth * kTenth, [](const Value& x) { return ops::dot_general(x, x, {1}, {1}); });
}

TEST_P(LongSums, InProductsOfSmallFloats) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    if (!all_cases() && dtype == DType::f16) continue;
    const Type type{dtype, {2, 500000}};
    Graph graph("dot");
    const Value x = graph.input("x", type);
    graph.output(ops::dot_general(x, x, {1}, {1}, {}, {}, DType::f32));
    const double element = dtype == DType::bf16 ? 0.10009765625 : 0.0999755859375;  // a tenth
    for (const double got : run(graph, {Literal::full(type, 0.1)}))
      EXPECT_NEAR(got / (5e5 * element * element), 1, 32 * kEps) << name(dtype);
  }
}

TEST_P(LongSums, InTheGradientOfAConvolutionsWeights) {
  const Type x_type{DType::f32, {8, 256, 256, 1}}, kernel_type{DType::f32, {1, 1, 1, 2}},
      y_type{DType::f32, {8, 256, 256, 2}};
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b01f_01io->b01f";
  Graph graph("gradient");
  const Value y = graph.input("y", y_type), x = graph.input("x", x_type);
  graph.output(ops::conv_weight_grad(y, x, kernel_type.shape, attrs));
  const double wanted = 8 * 256 * 256 * kTenth * kTenth;
  for (const double got : run(graph, {Literal::full(y_type, kTenth), Literal::full(x_type, kTenth)}))
    EXPECT_NEAR(got / wanted, 1, 32 * kEps);
}

TEST_P(LongSums, InRunningSumsAndWindows) {
  Graph graph("running");
  const Type type{DType::f32, {1000000}};
  graph.output(ops::cumulative(graph.input("x", type), Combine::sum, 0));
  const std::vector<double> sums = run(graph, {Literal::full(type, kTenth)});
  for (const std::size_t i : {0, 299, 65535, 500000, 999999})
    EXPECT_NEAR(sums[i] / (static_cast<double>(i + 1) * kTenth), 1, 32 * kEps) << i;
  expect({1000000}, 5e5 * kTenth, [](const Value& x) {
    return ops::reduce_window(x, {.kind = Combine::sum, .window = {500000}, .strides = {500000}});
  });
}

TEST_P(LongSums, InfinityStaysInfinity) {
  const Type type{DType::f32, {2, 200000}};
  Literal values = Literal::full(type, kTenth);
  values.mutable_values<float>()[70000] = std::numeric_limits<float>::infinity();
  const auto first = [&](auto&& y) {
    Graph graph("infinite");
    graph.output(y(graph.input("x", type)));
    return run(graph, {values});
  };
  EXPECT_EQ(first([](const Value& x) { return ops::sum(x, {1}); })[0], kInfinity);
  EXPECT_EQ(first([](const Value& x) { return ops::sum(ops::transpose(x, {1, 0}), {0}); })[0], kInfinity);
  EXPECT_EQ(first([](const Value& x) { return ops::dot_general(x, x, {1}, {1}); })[0], kInfinity);
  const std::vector<double> running =
      first([](const Value& x) { return ops::cumulative(x, Combine::sum, 1); });
  EXPECT_NEAR(running[69999], 7e4 * kTenth, 7000 * 32 * kEps);
  EXPECT_EQ(running[70000], kInfinity);
  EXPECT_EQ(running[199999], kInfinity);
}

INSTANTIATE_TEST_SUITE_P(Backends, LongSums, testing::Values("cpu", "opencl"),
                         [](const auto& info) { return info.param; });

bool has(const Kernel& kernel, std::string_view text) {
  return kernel.source.find(text) != std::string::npos;
}

TEST(LongRows, PointsBeyond32BitsAreCountedIn64) {
  for (const Combine kind : {Combine::sum, Combine::max}) {
    Graph graph("reduced");
    graph.output(ops::reduce(graph.input("x", {DType::f32, {2, 3'000'000'000}}), kind, {1}));
    for (const Dialect dialect : {Dialect::cuda, Dialect::opencl}) {
      const Kernel kernel = kernel_of(graph, dialect);
      EXPECT_TRUE(has(kernel, "for (s_i64 k = ")) << kernel.source;
      EXPECT_TRUE(has(kernel, fmt::format("const s_i64 point = k * {} + part;", kernel.threads)))
          << kernel.source;
    }
  }
}

TEST(LongRows, ShortRowsAreCountedIn32BitsAndSummedWithoutTotals) {
  Graph graph("reduced");
  graph.output(ops::sum(graph.input("x", {DType::f32, {64, 1000}}), {1}));
  const Kernel kernel = kernel_of(graph, Dialect::opencl);
  EXPECT_TRUE(has(kernel, "for (s_i32 k = 0; k < 8; ++k)")) << kernel.source;
  EXPECT_FALSE(has(kernel, "total")) << kernel.source;
}

TEST(LongRows, PlacesInAWidelyPaddedConvolutionHave64Bits) {
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b0f_0io->b0f";
  attrs.pad_low = {3'000'000'000};
  attrs.pad_high = {0};
  attrs.strides = {1'000'000'000};
  Graph graph("far");
  graph.output(ops::convolution(graph.input("x", {DType::f32, {1, 8, 1}}),
                                graph.input("k", {DType::f32, {3, 1, 1}}), attrs));
  const Kernel kernel = kernel_of(graph, Dialect::opencl);
  EXPECT_TRUE(has(kernel, "const s_i64 x0 = (s_i64)y0 * 1000000000 + ")) << kernel.source;
}

// The kernels of more elements than 32 bits count, one graph for each family of kernels.
struct Long {
  const char* what;
  std::function<Value(Graph&)> make;
};
constexpr std::int64_t kMany = 3'000'000'000;  // elements
Value input(Graph& graph, Shape shape, DType dtype = DType::f32) {
  return graph.input({}, {dtype, std::move(shape)});
}
const Long kLong[] = {
    {"elementwise", [](Graph& g) { return ops::exp(input(g, {kMany})); }},
    {"elementwise with a broadcast operand",
     [](Graph& g) { return ops::add(input(g, {3, kMany / 3}), input(g, {3, 1})); }},
    {"transpose", [](Graph& g) { return ops::transpose(input(g, {50'000, 60'000}), {1, 0}); }},
    {"slice", [](Graph& g) { return ops::slice_axis(input(g, {kMany}), 0, kMany - 5, kMany); }},
    {"concat", [](Graph& g) { return ops::concat({{input(g, {kMany}), input(g, {5})}}, 0); }},
    {"pad",
     [](Graph& g) {
       return ops::pad(input(g, {5}), g.constant(Literal::scalar<float>(0)), {kMany}, {0}, {0});
     }},
    {"gather from many", [](Graph& g) { return ops::take(input(g, {kMany}), input(g, {7}, DType::i64), 0); }},
    {"gather of many rows",
     [](Graph& g) { return ops::take(input(g, {5, 60'000}), input(g, {50'000}, DType::i32), 0); }},
    {"dynamic slice",
     [](Graph& g) { return ops::dynamic_slice(input(g, {kMany}), {{input(g, {}, DType::i64)}}, {5}); }},
    {"scatter",
     [](Graph& g) {
       const ir::ScatterAttrs attrs{.combine = Combine::sum,
                                    .update_window_axes = {},
                                    .inserted_axes = {0},
                                    .operand_batch_axes = {},
                                    .index_batch_axes = {},
                                    .index_map = {0},
                                    .index_vector_axis = 1};
       return ops::scatter(input(g, {kMany}), input(g, {7}, DType::i64), input(g, {7}), attrs);
     }},
    {"product of many rows",
     [](Graph& g) { return ops::matmul(input(g, {kMany / 8, 8}), input(g, {8, 8})); }},
    {"product of a long depth",
     [](Graph& g) { return ops::matmul(input(g, {8, kMany}), input(g, {kMany, 8})); }},
    {"product with many results",
     [](Graph& g) { return ops::matmul(input(g, {60'000, 8}), input(g, {8, 50'000})); }},
    {"convolution",
     [](Graph& g) {
       ir::ConvolutionAttrs attrs;
       attrs.layout = "b01f_01io->b01f";
       return ops::convolution(input(g, {1, 50'000, 15'000, 4}), input(g, {3, 3, 4, 8}), attrs);
     }},
    {"convolution of many pictures",
     [](Graph& g) {
       ir::ConvolutionAttrs attrs;
       attrs.layout = "b01f_01io->b01f";
       return ops::convolution(input(g, {3'000'000, 32, 32, 1}), input(g, {3, 3, 1, 1}), attrs);
     }},
    {"running sum along one axis",
     [](Graph& g) { return ops::cumulative(input(g, {kMany}), Combine::sum, 0); }},
    {"running sums of many rows",
     [](Graph& g) { return ops::cumulative(input(g, {kMany / 8, 8}), Combine::sum, 1); }},
    {"windows",
     [](Graph& g) {
       return ops::reduce_window(input(g, {kMany}), {.kind = Combine::max, .window = {3}, .strides = {1}});
     }},
    {"reduction to many", [](Graph& g) { return ops::sum(input(g, {kMany / 8, 8}), {1}); }},
    {"place of the largest",
     [](Graph& g) { return ops::arg_reduce(input(g, {kMany}), Combine::max, 0, DType::i64); }},
    {"sorts of many rows", [](Graph& g) { return ops::sort(input(g, {kMany / 8, 8}), 1); }},
};

// Each index that may pass 2^31 is one of 64 bits: no variable of 32 takes a thread's, a group's or an item's
// number, and none of the kernel's own index type is left narrow. Or the graph is refused.
TEST(LongRows, KernelsOfEveryFamilyIndexMoreThan32BitsOfElementsIn64) {
  const std::regex narrow(
      R"(s_i32 \w+ = [^;]*\b(S_THREAD|S_GROUP|S_GROUPS|begin|end|item|unit|base|row|i0)\b)");
  Graph few("few");
  few.output(ops::exp(input(few, {1000})));
  EXPECT_TRUE(std::regex_search(kernel_of(few, Dialect::opencl).source, narrow));  // what is looked for
  for (const Long& each : kLong)
    for (const Dialect dialect : {Dialect::c, Dialect::opencl, Dialect::cuda}) {
      SCOPED_TRACE(fmt::format("{}, dialect {}", each.what, static_cast<int>(dialect)));
      Graph graph("long");
      graph.output(each.make(graph));
      const lower::Program program =
          lower::make_program(passes::run_passes(passes::inline_composites(graph), passes::standard_passes()),
                              kernel_check::PlainTarget());
      std::size_t kernels = 0;
      for (const lower::Step& step : program.steps) try {
          for (const Kernel& kernel : codegen::make_kernels(step, "kernel", dialect)) {
            ++kernels;
            EXPECT_TRUE(has(kernel, "s_i64")) << kernel.source;
            std::smatch found;
            const std::string text = kernel.source.substr(kernel.source.find('{'));
            EXPECT_FALSE(std::regex_search(text, found, narrow)) << found.str() << "\n" << kernel.source;
            if (dialect != Dialect::c) EXPECT_FALSE(has(kernel, "const s_i32 begin")) << kernel.source;
          }
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kLimit) << error.what();
          ++kernels;
        }
      EXPECT_GT(kernels, 0u);
    }
}

TEST(LongRows, SortingOneIsRefusedByName) {
  for (const Dialect dialect : {Dialect::c, Dialect::opencl}) {
    Graph sorted("sorted"), best("best");
    const Type type{DType::f32, {2, 2'147'483'648}};
    sorted.output(ops::sort(sorted.input("x", type), 1));
    best.output(ops::top_k(best.input("x", type), 3).first);
    for (const Graph* graph : {&sorted, &best}) {
      const std::string text = error_of(ErrorKind::kLimit, [&] { kernel_of(*graph, dialect); });
      EXPECT_NE(text.find(graph == &sorted ? "sort" : "top_k"), std::string::npos) << text;
      EXPECT_NE(text.find("axis 1"), std::string::npos) << text;
    }
  }
}

}  // namespace

}  // namespace systole
