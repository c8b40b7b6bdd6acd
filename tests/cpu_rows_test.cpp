// Long rows that the processor's threads share: the same bits whatever their number, and what sums in double
// say.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/target.h"
#include "base/parallel.h"
#include "compile/program.h"
#include "graph_arguments.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {

namespace {

using ir::Combine;
using ir::Graph;
using ir::Value;

// More threads than cores take other parts than one does; the number is read once.
[[maybe_unused]] const int kThreadsAreSet = ::setenv("SYSTOLE_THREADS", "5", 1);

// On one thread: as all work is inside a part of other work.
std::vector<Literal> run_alone(const CompiledGraph& compiled, const std::vector<Literal>& arguments) {
  struct Run {
    const CompiledGraph& compiled;
    const std::vector<Literal>& arguments;
    mutable std::vector<Literal> results;
  };
  const Run run{compiled, arguments, {}};
  parallel_for(
      1, 1,
      [](const void* context, std::int64_t, std::int64_t) {
        const Run& mine = *static_cast<const Run*>(context);
        mine.results = mine.compiled.run(mine.arguments);
      },
      &run);
  return run.results;
}

// The results, after a look whether rows are cut and threads make no difference.
std::vector<Literal> run_cut(const Graph& graph, const std::vector<Literal>& arguments) {
  const lower::Program program =
      lower::make_program(lower::prepared(graph, cpu::target(), true), cpu::target());
  EXPECT_TRUE(std::any_of(program.steps.begin(), program.steps.end(), [](const lower::Step& step) {
    return step.chunks > 1;
  })) << to_string(program);
  const CompiledGraph compiled = compile(graph, "cpu");
  std::vector<Literal> results = compiled.run(arguments);
  const std::vector<Literal> alone = run_alone(compiled, arguments);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].byte_size(), alone[i].byte_size());
    EXPECT_EQ(std::memcmp(results[i].bytes(), alone[i].bytes(), alone[i].byte_size()), 0) << "result " << i;
  }
  return results;
}

// Row r of `before` groups by `after` neighbours: elements (g·points + p)·after + n.
std::vector<double> sums_of(const std::vector<double>& x, std::int64_t before, std::int64_t points,
                            std::int64_t after) {
  std::vector<double> sums(static_cast<std::size_t>(before * after));
  for (std::int64_t i = 0; i < before * points * after; ++i)
    sums[static_cast<std::size_t>(i / (points * after) * after + i % after)] +=
        x[static_cast<std::size_t>(i)];
  return sums;
}

TEST(CutRows, SumWhatDoublesSumWithTheSameBitsOnOneThreadAndOnSeveral) {
  struct Case {
    std::int64_t before, points, after;
  };
  for (const auto& [before, points, after] : {Case{1, 57601, 32},
                                              {1, 10816, 64},
                                              {1, 20011, 70},
                                              {1, 4099, 200},
                                              {2, 30011, 3},
                                              {1, 1000003, 1},
                                              {3, 100001, 1},
                                              {1, 163840, 1},
                                              {7, 65539, 1}}) {
    Graph graph("sums");
    const Value x = graph.input("x", {DType::f32, {before, points, after}});
    graph.output(ops::sum(x, {1}));
    const std::vector<Literal> arguments = random_arguments(graph, 7, 1);
    const std::vector<double> wanted = sums_of(arguments[0].to_doubles(), before, points, after),
                              got = run_cut(graph, arguments)[0].to_doubles();
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], wanted[i], 2e-6 * std::sqrt(static_cast<double>(points)))
          << before << " " << points << " " << after << " row " << i;
  }
}

// A bias's gradient: the masked values themselves, their sums over several axes, and what follows from those.
TEST(CutRows, StoreWhatTheySumAndWhatFollowsFromIt) {
  const Shape shape{6, 31, 29, 24};
  Graph graph("gradient");
  const Value x = graph.input("x", {DType::f32, shape}), bias = graph.input("b", {DType::f32, {24}});
  const Value zero = ops::full(graph, {DType::f32, shape}, 0);
  const Value masked = ops::select(ops::less_equal(x, zero), zero, x);
  graph.output(masked);
  graph.output(ops::sub(bias, ops::sum(masked, {0, 1, 2})));
  const std::vector<Literal> arguments = random_arguments(graph, 3, 1);
  std::vector<double> values = arguments[0].to_doubles();
  for (double& value : values) value = std::max(value, 0.0);
  const std::vector<double> sums = sums_of(values, 1, 6 * 31 * 29, 24), old = arguments[1].to_doubles();
  const std::vector<Literal> got = run_cut(graph, arguments);
  EXPECT_EQ(got[0].to_doubles(), values);
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_NEAR(got[1].to_doubles()[i], old[i] - sums[i], 1e-3) << i;
}

// Each pass needs what the one before it found: (x - mean)² and its mean, then the normal form.
TEST(CutRows, KnowTheSumsOfEarlierPasses) {
  for (const bool along : {true, false}) {
    const std::int64_t points = 40003, rows = 3;
    const Shape shape = along ? Shape{rows, points} : Shape{points, rows};
    const std::int64_t axis = along ? 1 : 0;
    Graph graph("normal");
    const Value x = graph.input("x", {DType::f32, shape});
    const Value centred = ops::sub(x, ops::broadcast_to(ops::mean(x, {axis}, true), shape));
    const Value spread = ops::mean(ops::mul(centred, centred), {axis}, true);
    graph.output(ops::div(centred, ops::broadcast_to(ops::sqrt(spread), shape)));
    graph.output(spread);
    const std::vector<Literal> arguments = random_arguments(graph, 11, 2);
    const std::vector<double> in = arguments[0].to_doubles();
    const std::int64_t before = along ? rows : 1, after = along ? 1 : rows;
    std::vector<double> means = sums_of(in, before, points, after), squares(in.size());
    const auto row = [&](std::size_t i) {
      return along ? i / static_cast<std::size_t>(points) : i % static_cast<std::size_t>(rows);
    };
    for (double& mean : means) mean /= static_cast<double>(points);
    for (std::size_t i = 0; i < in.size(); ++i) squares[i] = std::pow(in[i] - means[row(i)], 2);
    std::vector<double> spreads = sums_of(squares, before, points, after);
    for (double& each : spreads) each /= static_cast<double>(points);
    const std::vector<Literal> got = run_cut(graph, arguments);
    const std::vector<double> normal = got[0].to_doubles(), found = got[1].to_doubles();
    for (std::size_t r = 0; r < spreads.size(); ++r) EXPECT_NEAR(found[r], spreads[r], 2e-5) << along;
    for (std::size_t i = 0; i < in.size(); i += 97)
      ASSERT_NEAR(normal[i], (in[i] - means[row(i)]) / std::sqrt(spreads[row(i)]), 2e-5) << along << " " << i;
  }
}

// One NaN among many, wherever it is; whole and in rows, with a rest that fills no vector.
TEST(CutRows, FindTheOneThatIsNotFinite) {
  for (const std::int64_t rows : {1, 3}) {
    const std::int64_t points = 100007;
    Graph graph("finite");
    const Value x = graph.input("x", {DType::f32, {rows, points}});
    graph.output(ops::reduce(ops::is_finite(x), Combine::bitwise_and, {1}));
    graph.output(ops::reduce(ops::is_finite(x), Combine::bitwise_or, {0, 1}));
    std::vector<Literal> arguments = random_arguments(graph, 5, 100);
    for (const std::int64_t at : {-1, 0, 15, 16, 50000, 100000, 100006}) {
      if (at >= 0)
        arguments[0].mutable_values<float>()[static_cast<std::size_t>((rows - 1) * points + at)] =
            at % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
      const std::vector<Literal> got = run_cut(graph, arguments);
      for (std::int64_t r = 0; r < rows; ++r)
        EXPECT_EQ(got[0].values<bool>()[static_cast<std::size_t>(r)], at < 0 || r + 1 < rows) << at;
      EXPECT_TRUE(got[1].item<bool>());
      if (at >= 0)
        arguments[0].mutable_values<float>()[static_cast<std::size_t>((rows - 1) * points + at)] = 1;
    }
  }
}

TEST(CutRows, FindTheLargestAndKeepNaN) {
  for (const std::int64_t after : {1, 5}) {
    Graph graph("largest");
    const Type type{DType::f32, {100000, after}};
    const Value x = graph.input("x", type);
    graph.output(ops::reduce(x, Combine::max, {0}));
    graph.output(ops::reduce(ops::convert(x, DType::i32), Combine::sum, {0}));
    std::vector<Literal> arguments = random_arguments(graph, 5, 100);
    auto values = arguments[0].mutable_values<float>();
    values[static_cast<std::size_t>(77777 * after)] = 12345;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(after))
      total += static_cast<std::int64_t>(values[i]);
    std::vector<Literal> got = run_cut(graph, arguments);
    EXPECT_EQ(got[0].to_doubles()[0], 12345);
    EXPECT_EQ(got[1].to_doubles()[0], static_cast<double>(total));
    values[static_cast<std::size_t>(99999 * after)] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(run_cut(graph, arguments)[0].to_doubles()[0]));
  }
}

TEST(CutRows, RoundSmallFloatsOnce) {
  Graph graph("small");
  const Type type{DType::bf16, {300000, 2}};
  graph.output(ops::sum(graph.input("x", type), {0}));
  // 0.01 is 0.010009765625 in bf16; steps are 16 near 3000.
  for (const double got : run_cut(graph, {Literal::full(type, 0.01)})[0].to_doubles())
    EXPECT_NEAR(got, 3002.9296875, 8);
}

// exp is computed in the pass that sums it and kept for the pass that divides, the row's length whatever.
TEST(Rows, MakeProbabilitiesOfWhatTheyKeep) {
  for (const std::int64_t points : {1, 17, 255, 256, 320, 8191, 20000}) {
    constexpr std::int64_t kRows = 3;
    Graph graph("softmax");
    const Value x = graph.input("x", {DType::f32, {kRows, points}});
    graph.output(ops::softmax(x, 1));
    std::vector<Literal> arguments = random_arguments(graph, 21, 3);
    arguments[0].mutable_values<float>()[static_cast<std::size_t>(2 * points)] =
        std::numeric_limits<float>::quiet_NaN();
    const std::vector<double> in = arguments[0].to_doubles();
    const std::vector<double> got = compile(graph, "cpu").run(arguments)[0].to_doubles();
    for (std::int64_t r = 0; r < kRows; ++r) {
      const double* const row = in.data() + r * points;
      const double most = *std::max_element(row, row + points);
      double sum = 0;
      for (std::int64_t i = 0; i < points; ++i) sum += std::exp(row[i] - most);
      for (std::int64_t i = 0; i < points; ++i) {
        const double found = got[static_cast<std::size_t>(r * points + i)],
                     wanted = std::exp(row[i] - most) / sum;
        if (r == 2)
          ASSERT_TRUE(std::isnan(found)) << points << " " << i;
        else
          ASSERT_NEAR(found, wanted, 4e-6 * wanted) << points << " " << r << " " << i;
      }
    }
  }
}

TEST(Rows, FindTheLargestWhereverItIsAndKeepNaN) {
  for (const std::int64_t points : {63, 256, 1000}) {
    Graph graph("largest");
    graph.output(ops::reduce(graph.input("x", {DType::f32, {points, points}}), Combine::max, {1}));
    graph.output(ops::reduce(graph.input("y", {DType::f32, {points, points}}), Combine::min, {1}));
    const auto n = static_cast<std::size_t>(points);
    std::vector<Literal> arguments = {Literal::full({DType::f32, {points, points}}, -1),
                                      Literal::full({DType::f32, {points, points}}, 1)};
    auto x = arguments[0].mutable_values<float>(), y = arguments[1].mutable_values<float>();
    for (std::size_t i = 0; i < n; ++i) {
      x[i * n + i] = 7;  // in row i at place i
      y[i * n + (n - 1 - i)] = -7;
    }
    const float nan = std::numeric_limits<float>::quiet_NaN();
    x[5 * n + 2] = y[5 * n + 2] = nan;          // before the largest
    x[6 * n + n - 1] = y[6 * n + n - 1] = nan;  // behind it
    const std::vector<Literal> got = compile(graph, "cpu").run(arguments);
    for (std::size_t i = 0; i < n; ++i) {
      const double most = got[0].to_doubles()[i], least = got[1].to_doubles()[i];
      if (i == 5 || i == 6) {
        ASSERT_TRUE(std::isnan(most) && std::isnan(least)) << points << " " << i;
      } else {
        ASSERT_EQ(most, 7) << points << " " << i;
        ASSERT_EQ(least, -7) << points << " " << i;
      }
    }
  }
}

}  // namespace

}  // namespace systole
