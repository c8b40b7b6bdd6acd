// LSTMs on the CPU by kernels of their own: that they are taken, that the numbers are those of a plain loop
// in double and of differences of it, and that they do not depend on who does which rows.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/executor.h"
#include "backend/cpu/jit.h"
#include "backend/cpu/tuned/recurrence.h"
#include "graph_arguments.h"
#include "ops/composites/recurrent.h"
#include "systole/autodiff.h"
#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cpu {
namespace {

using ir::Graph;
using ir::Value;
using Numbers = std::vector<double>;

struct Sizes {
  std::int64_t length, batch, inputs, hidden;
};

// Operands of lstm, then what multiplies its results in the loss: a scalar that depends on all of them.
Graph loss_of(const Sizes& s, DType dtype = DType::f32) {
  Graph graph;
  const auto in = [&](Shape shape) { return graph.input({}, {dtype, std::move(shape)}); };
  const Value x = in({s.length, s.batch, s.inputs}), h0 = in({s.batch, s.hidden}),
              c0 = in({s.batch, s.hidden});
  const Value w = in({4 * s.hidden, s.inputs}), r = in({4 * s.hidden, s.hidden});
  const Value w_bias = in({4 * s.hidden}), r_bias = in({4 * s.hidden});
  const auto result = ops::lstm(x, h0, c0, w, r, w_bias, r_bias);
  Value loss = ops::sum(ops::mul(result.y, in({s.length, s.batch, s.hidden})), {0, 1, 2});
  loss = ops::add(loss, ops::sum(ops::mul(result.h, in({s.batch, s.hidden})), {0, 1}));
  loss = ops::add(loss, ops::sum(ops::mul(result.c, in({s.batch, s.hidden})), {0, 1}));
  graph.output(loss);
  return graph;
}

Graph layer_of(const Sizes& s) {
  Graph graph;
  const auto in = [&](Shape shape) { return graph.input({}, {DType::f32, std::move(shape)}); };
  const Value x = in({s.length, s.batch, s.inputs}), h0 = in({s.batch, s.hidden}),
              c0 = in({s.batch, s.hidden});
  const Value w = in({4 * s.hidden, s.inputs}), r = in({4 * s.hidden, s.hidden});
  const auto result = ops::lstm(x, h0, c0, w, r, in({4 * s.hidden}), in({4 * s.hidden}));
  for (const Value& v : {result.y, result.h, result.c}) graph.output(v);
  return graph;
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// y, h and c by the definition.
std::vector<Numbers> plain(const Sizes& s, const std::vector<Numbers>& a) {
  const auto at = [](const Numbers& list, std::int64_t i) { return list[static_cast<std::size_t>(i)]; };
  Numbers y, h = a[1], c = a[2];
  for (std::int64_t t = 0; t < s.length; ++t) {
    const Numbers before = h;
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t j = 0; j < s.hidden; ++j) {
        double gates[4];
        for (std::int64_t g = 0; g < 4; ++g) {
          const std::int64_t row = g * s.hidden + j;
          gates[g] = at(a[5], row) + at(a[6], row);
          for (std::int64_t k = 0; k < s.inputs; ++k)
            gates[g] += at(a[0], (t * s.batch + b) * s.inputs + k) * at(a[3], row * s.inputs + k);
          for (std::int64_t k = 0; k < s.hidden; ++k)
            gates[g] += at(before, b * s.hidden + k) * at(a[4], row * s.hidden + k);
        }
        const auto place = static_cast<std::size_t>(b * s.hidden + j);
        c[place] = logistic(gates[1]) * c[place] + logistic(gates[0]) * std::tanh(gates[2]);
        h[place] = logistic(gates[3]) * std::tanh(c[place]);
      }
    y.insert(y.end(), h.begin(), h.end());
  }
  return {y, h, c};
}

double plain_loss(const Sizes& s, const std::vector<Numbers>& a) {
  const std::vector<Numbers> results = plain(s, a);
  double loss = 0;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < results[i].size(); ++j) loss += results[i][j] * a[7 + i][j];
  return loss;
}

std::vector<Numbers> in_double(const std::vector<Literal>& arguments) {
  std::vector<Numbers> out;
  for (const Literal& argument : arguments) out.push_back(argument.to_doubles());
  return out;
}

void expect_near(const Literal& got, const Numbers& wanted, double tolerance, const std::string& what) {
  const Numbers numbers = got.to_doubles();
  ASSERT_EQ(numbers.size(), wanted.size()) << what;
  double largest = 0;
  for (const double x : wanted) largest = std::max(largest, std::fabs(x));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(numbers[i], wanted[i], tolerance * largest) << what << " " << i;
}

std::vector<std::string> own_calls(const Graph& graph) {
  std::vector<std::string> names;
  const std::shared_ptr<const Module> module = make_module(graph);
  for (const lower::Step& step : module->program.steps)
    if (step.implementation.starts_with("systole.lstm")) names.push_back(step.implementation);
  return names;
}

class CpuRecurrence : public testing::Test {
 protected:
  void SetUp() override {
    if (!makes_kernels()) GTEST_SKIP() << "no compiler for kernels";
  }
};

const Sizes kSizes[] = {{1, 1, 1, 1}, {2, 13, 4, 33}, {4, 1, 8, 70}, {3, 50, 2, 16}};

TEST_F(CpuRecurrence, ForwardsIsThePlainLoopForAnySizes) {
  for (const Sizes& s : kSizes) {
    const Graph graph = layer_of(s);
    const std::vector<Literal> arguments = random_arguments(graph, 3, 0.5);
    const std::vector<Literal> got = compile(graph, "cpu").run(arguments);
    const std::vector<Numbers> wanted = plain(s, in_double(arguments));
    for (std::size_t i = 0; i < 3; ++i)
      expect_near(got[i], wanted[i], 2e-6, std::to_string(s.hidden) + " " + std::to_string(i));
  }
}

TEST_F(CpuRecurrence, BackwardsIsTheSlopeOfThePlainLoop) {
  for (const Sizes& s : {Sizes{3, 2, 3, 5}, Sizes{4, 3, 2, 17}}) {
    const Graph graph = autodiff::value_and_grad(loss_of(s), {0, 1, 2, 3, 4, 5, 6});
    const std::vector<Literal> arguments = random_arguments(graph, 5, 0.5);
    const std::vector<Literal> got = compile(graph, "cpu").run(arguments);
    std::vector<Numbers> numbers = in_double(arguments);
    EXPECT_NEAR(got[0].to_doubles()[0], plain_loss(s, numbers), 1e-5);
    for (std::size_t i = 0; i < 7; ++i) {
      Numbers slopes;
      for (double& x : numbers[i]) {
        constexpr double kStep = 1e-5;
        const double here = x;
        x = here + kStep;
        const double above = plain_loss(s, numbers);
        x = here - kStep;
        slopes.push_back((above - plain_loss(s, numbers)) / (2 * kStep));
        x = here;
      }
      expect_near(got[i + 1], slopes, 3e-6, std::to_string(s.hidden) + " operand " + std::to_string(i));
    }
  }
}

// The reference evaluates the composites' formulas, in which nothing is kept and the gates are made again.
TEST_F(CpuRecurrence, BackwardsIsTheReferenceForAnySizes) {
  for (const Sizes& s : kSizes) {
    const Graph graph = autodiff::value_and_grad(loss_of(s), {0, 1, 2, 3, 4, 5, 6});
    const std::vector<Literal> arguments = random_arguments(graph, 9, 0.3);
    const std::vector<Literal> got = compile(graph, "cpu").run(arguments);
    const std::vector<Literal> wanted = compile(graph, "reference").run(arguments);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      expect_near(got[i], wanted[i].to_doubles(), 5e-6,
                  std::to_string(s.hidden) + " result " + std::to_string(i));
  }
}

// lstm_grad without its lstm in the graph: what it reads is made again.
TEST_F(CpuRecurrence, AGradientAloneIsTheReference) {
  const Sizes s{3, 4, 5, 18};
  Graph graph;
  const auto in = [&](Shape shape) { return graph.input({}, {DType::f32, std::move(shape)}); };
  const Shape all{s.length, s.batch, s.hidden}, state{s.batch, s.hidden}, gates{4 * s.hidden};
  const ir::Values layer{
      in({s.length, s.batch, s.inputs}), in(state), in(state), in({4 * s.hidden, s.inputs}),
      in({4 * s.hidden, s.hidden}),      in(gates), in(gates)};
  const std::vector<Literal> of_layer = random_arguments(graph, 4, 0.4);
  ir::Values operands{in(all), in(state), in(state), in(all)};
  std::vector<Literal> arguments = random_arguments(graph, 4, 0.4);
  arguments[10] = compile(layer_of(s), "reference").run(of_layer)[0];
  operands.insert(operands.end(), layer.begin(), layer.end());
  for (const Value& v : ir::add_composite("lstm_grad", operands)) graph.output(v);
  EXPECT_EQ(own_calls(graph), (std::vector<std::string>{"systole.lstm", "systole.lstm_grad"}));
  std::copy(of_layer.begin(), of_layer.end(), arguments.begin());
  const std::vector<Literal> got = compile(graph, "cpu").run(arguments);
  const std::vector<Literal> wanted = compile(graph, "reference").run(arguments);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    expect_near(got[i], wanted[i].to_doubles(), 5e-6, std::to_string(i));
}

TEST_F(CpuRecurrence, TakesLayersOfF32AndLeavesOthersToTheFormula) {
  const std::vector<std::string> both{"systole.lstm", "systole.lstm_grad"};
  EXPECT_EQ(own_calls(layer_of({2, 2, 3, 4})), std::vector<std::string>{"systole.lstm"});
  EXPECT_EQ(own_calls(autodiff::value_and_grad(loss_of({2, 2, 3, 4}), {0, 4})), both);
  EXPECT_TRUE(own_calls(loss_of({2, 2, 3, 4}, DType::f64)).empty());
  EXPECT_TRUE(own_calls(loss_of({2, 2, 3, 4}, DType::bf16)).empty());
  EXPECT_TRUE(own_calls(layer_of({1, 1, 1, 1024})).empty());
}

TEST_F(CpuRecurrence, NaNReachesItsRowFromItsStepOnAndLargeGatesSaturate) {
  const Sizes s{3, 8, 2, 20};
  const Graph graph = layer_of(s);
  std::vector<Literal> arguments = random_arguments(graph, 1, 0.5);
  arguments[0].mutable_values<float>()[static_cast<std::size_t>((1 * s.batch + 4) * s.inputs)] =
      std::numeric_limits<float>::quiet_NaN();
  std::vector<Literal> got = compile(graph, "cpu").run(arguments);
  const auto y = got[0].values<float>();
  for (std::int64_t t = 0; t < s.length; ++t)
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t j = 0; j < s.hidden; ++j)
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>((t * s.batch + b) * s.hidden + j)]), t >= 1 && b == 4)
            << t << " " << b << " " << j;

  arguments = random_arguments(graph, 1, 0.5);
  auto bias = arguments[5].mutable_values<float>();
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = i % 2 == 0 ? 300.0f : -300.0f;
  got = compile(graph, "cpu").run(arguments);
  const std::vector<Numbers> wanted = plain(s, in_double(arguments));
  for (std::size_t i = 0; i < 3; ++i) expect_near(got[i], wanted[i], 1e-6, std::to_string(i));
}

// The kernels of the loops both ways, called for parts of the batch as threads would.
TEST_F(CpuRecurrence, BitsDoNotDependOnWhoDoesWhichRows) {
  const Sizes s{3, 29, 4, 36};
  const Graph graph = with_lstm_loops(autodiff::value_and_grad(loss_of(s), {0, 4}));
  int loops = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (!is_recurrence(node)) continue;
    ++loops;
    lower::Region region;
    ir::Values operands;
    for (const ir::ValueId v : node.operands) operands.push_back(region.graph.input({}, graph.type(v)));
    const ir::Values results =
        region.graph.add_multi(node.op, operands, node.attrs, std::vector<ir::GraphRef>(node.graphs));
    for (const Value& v : results) region.graph.output(v);
    region.anchor = results[0].id().node;
    const Tuned made = make_recurrence(region, "loop");
    ASSERT_EQ(made.reason, "");
    const std::shared_ptr<const Library> library =
        compile_kernels(codegen::source_file(made.kernels, codegen::Dialect::c));

    const std::vector<Literal> arguments = random_arguments(region.graph, 2, 0.5);
    const auto run = [&](const std::vector<std::int64_t>& cuts) {
      std::vector<Literal> outputs;
      for (const Value& v : results) outputs.push_back(Literal::full(v.type(), 7));
      std::vector<std::byte> workspace(static_cast<std::size_t>(made.workspace_bytes));
      std::vector<void*> buffers;
      for (const Literal& a : arguments) buffers.push_back(const_cast<std::byte*>(a.bytes()));
      for (Literal& o : outputs) buffers.push_back(const_cast<std::byte*>(o.bytes()));
      buffers.push_back(workspace.data());
      library->find(made.kernels[0].name)(buffers.data(), 0, made.kernels[0].items);
      for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
        library->find(made.kernels[1].name)(buffers.data(), cuts[i], cuts[i + 1]);
      return outputs;
    };
    const std::vector<Literal> whole = run({0, 29});
    for (const std::vector<std::int64_t>& cuts :
         {std::vector<std::int64_t>{0, 14, 29}, {0, 9, 19, 29}, {0, 1, 2, 4, 7, 12, 20, 29}}) {
      const std::vector<Literal> parts = run(cuts);
      for (std::size_t i = 0; i < whole.size(); ++i)
        EXPECT_EQ(std::memcmp(parts[i].bytes(), whole[i].bytes(), whole[i].byte_size()), 0)
            << loops << " result " << i << " in " << cuts.size() - 1 << " parts";
    }
  }
  EXPECT_EQ(loops, 2);
}

}  // namespace
}  // namespace systole::cpu
