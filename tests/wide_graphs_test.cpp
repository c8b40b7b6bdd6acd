// Nodes of many operands and graphs of many results: what the compiler takes grows with their number, not
// with its square. A C compiler's own time grows with the square of what one kernel reads and writes, so a
// kernel has a bound.

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cpu/target.h"
#include "compile/narrow.h"
#include "compile/program.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole {
namespace {

using ir::Graph;
using ir::Value;
using ir::Values;

const Type kFour{DType::f32, {4}};

Values inputs(Graph& graph, int n) {
  Values all;
  for (int i = 0; i < n; ++i) all.push_back(graph.input("x" + std::to_string(i), kFour));
  return all;
}

Value number(Graph& graph, int i) { return ops::full(graph, kFour, i + 0.5); }

struct Kind {
  const char* name;
  std::function<void(Graph&, int)> build;
};

std::vector<Kind> kinds() {
  const auto body = [](int n) {
    auto graph = std::make_shared<Graph>("body");
    const Values carries = inputs(*graph, n);
    for (std::size_t i = 0; i < carries.size(); ++i)
      graph->output(ops::add(carries[i], carries[(i + 1) % carries.size()]));
    return graph;
  };
  return {
      {"concat of inputs", [](Graph& g, int n) { g.output(ops::concat(inputs(g, n), 0)); }},
      {"concat of results",
       [](Graph& g, int n) {
         const Value x = g.input("x", kFour);
         Values parts;
         for (int i = 0; i < n; ++i) parts.push_back(ops::tanh(ops::mul(x, number(g, i))));
         g.output(ops::exp(ops::concat(parts, 0)));
       }},
      {"sum of inputs",
       [](Graph& g, int n) {
         const Values all = inputs(g, n);
         g.output(std::accumulate(all.begin() + 1, all.end(), all[0],
                                  [](Value a, Value b) { return ops::add(a, b); }));
       }},
      {"results of inputs",
       [](Graph& g, int n) {
         for (const Value& v : inputs(g, n)) g.output(ops::exp(v));
       }},
      {"results of one input",
       [](Graph& g, int n) {
         const Value x = g.input("x", kFour);
         for (int i = 0; i < n; ++i) g.output(ops::mul(x, number(g, i)));
       }},
      {"sums of one input",
       [](Graph& g, int n) {
         const Value x = g.input("x", kFour);
         for (int i = 0; i < n; ++i) g.output(ops::sum(ops::mul(x, number(g, i)), {0}));
       }},
      {"products and work on each",
       [](Graph& g, int n) {
         const Value x = g.input("x", {DType::f32, {4, 4}});
         const Value y = ops::dot_general(x, x, {1}, {0});
         for (int i = 0; i < n; ++i) g.output(ops::mul(y, ops::full(g, y.type(), i + 0.5)));
       }},
      {"barrier and work on each",
       [](Graph& g, int n) {
         for (const Value& v : ops::barrier(inputs(g, n))) g.output(ops::exp(v));
       }},
      {"sort of inputs",
       [](Graph& g, int n) {
         for (const Value& v : ops::sort(inputs(g, n), 0)) g.output(v);
       }},
      {"scan of carries",
       [body](Graph& g, int n) {
         for (const Value& v : ops::scan(body(n), inputs(g, n), {}, {}, 5)) g.output(v);
       }},
  };
}

// Seconds of the processor's time for the plan, the best of three.
double seconds_of_plan(const Graph& graph) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    lower::make_program(lower::prepared(graph, cpu::target()), cpu::target());
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
}

TEST(WideGraphs, PlansGrowLinearly) {
  for (const Kind& kind : kinds()) {
    Graph small, large;
    kind.build(small, 250);
    kind.build(large, 2000);
    const double unit = seconds_of_plan(small), whole = seconds_of_plan(large);
    EXPECT_LT(whole, 28 * unit + 0.02) << kind.name << ": " << unit << " s for 250";
  }
}

void expect_bounded(const lower::Program& program, const char* name) {
  const auto most = static_cast<std::size_t>(cpu::target().limits().buffers);
  for (const lower::Step& step : program.steps) {
    for (const auto& sub : step.programs) expect_bounded(*sub, name);
    if (step.kind != lower::StepKind::kernel && step.kind != lower::StepKind::special) continue;
    EXPECT_LE(step.inputs.size() + step.outputs.size(), most) << name;
    for (const ir::Node& node : step.region.graph.nodes())
      if (node.op == ir::Op::concat) EXPECT_LE(node.operands.size(), lower::kMostJoined) << name;
  }
}

TEST(WideGraphs, KernelsHaveABound) {
  EXPECT_LE(cpu::target().limits().buffers, 256);
  for (const Kind& kind : kinds()) {
    Graph graph;
    kind.build(graph, 2000);
    expect_bounded(lower::make_program(lower::prepared(graph, cpu::target()), cpu::target()), kind.name);
  }
}

TEST(WideGraphs, AConcatOfTwoThousandKeepsItsOrderOnEveryDevice) {
  constexpr int kCount = 2000;
  Graph graph;
  const Value whole = ops::concat(inputs(graph, kCount), 0);
  graph.output(whole);
  graph.output(ops::neg(ops::reverse(whole, {0})));
  std::vector<Literal> arguments;
  for (int i = 0; i < kCount; ++i) {
    const auto first = static_cast<float>(4 * i);
    arguments.push_back(Literal::of<float>({4}, {first, first + 1, first + 2, first + 3}));
  }
  for (const runtime::DeviceInfo& device : devices()) {
    if (device.name.ordinal > 0) continue;
    SCOPED_TRACE(device.name.to_string());
    const std::vector<Literal> got = compile(graph, device.name.to_string()).run(arguments);
    const std::span<const float> forward = got[0].values<float>(), backward = got[1].values<float>();
    for (std::size_t i = 0; i < 4 * kCount; ++i) {
      ASSERT_EQ(forward[i], static_cast<float>(i));
      ASSERT_EQ(backward[i], -static_cast<float>(4 * kCount - 1 - i));
    }
  }
}

// Equal keys keep their order, so parts that are sorted by the same keys agree.
TEST(WideGraphs, ASortOfAHundredKeepsThemTogetherOnEveryDevice) {
  constexpr int kCount = 100;
  Graph graph;
  for (const Value& v : ops::sort(inputs(graph, kCount), 0)) graph.output(v);
  std::vector<Literal> arguments{Literal::of<float>({4}, {2, 1, 2, 1})};
  for (int i = 1; i < kCount; ++i) {
    const auto first = static_cast<float>(4 * i);
    arguments.push_back(Literal::of<float>({4}, {first, first + 1, first + 2, first + 3}));
  }
  for (const runtime::DeviceInfo& device : devices()) {
    if (device.name.ordinal > 0) continue;
    SCOPED_TRACE(device.name.to_string());
    const std::vector<Literal> got = compile(graph, device.name.to_string()).run(arguments);
    EXPECT_EQ(got[0].to_doubles(), (std::vector<double>{1, 1, 2, 2}));
    for (int i = 1; i < kCount; ++i)
      ASSERT_EQ(got[static_cast<std::size_t>(i)].to_doubles(),
                (std::vector<double>{4.0 * i + 1, 4.0 * i + 3, 4.0 * i, 4.0 * i + 2}));
  }
}

}  // namespace
}  // namespace systole
