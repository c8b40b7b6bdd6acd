// Attention and its gradient by the CPU backend's own kernels, against loops in double: lengths that are no
// multiples of the tiles, masks, operands at strides, numbers that are hard on a softmax, and the memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/executor.h"
#include "backend/cpu/jit.h"
#include "backend/cpu/tuned/attention.h"
#include "base/parallel.h"
#include "codegen/kernel.h"
#include "graph_arguments.h"
#include "systole/compile.h"
#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cpu {
namespace {

using ir::Graph;
using ir::Value;
using ir::Values;
using Doubles = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Sizes {
  std::int64_t batch, heads, queries, keys, depth, width;
  bool causal = false;
  double scale = 0;
};

// q, k, v and the gradient of o to o, lse, dq, dk and dv.
Graph graph_of(const Sizes& s, DType dtype = DType::f32) {
  Graph graph("attention");
  const auto input = [&](const char* name, std::int64_t length, std::int64_t depth) {
    return graph.input(name, {dtype, {s.batch, s.heads, length, depth}});
  };
  const Value q = input("q", s.queries, s.depth), k = input("k", s.keys, s.depth),
              v = input("v", s.keys, s.width), grad = input("grad", s.queries, s.width);
  const ir::AttrMap attrs = {{"causal", s.causal}, {"scale", s.scale}};
  const Values r = ir::add_composite("attention", {q, k, v}, attrs);
  const Values grads = ir::add_composite("attention_grad", {q, k, v, r[0], r[1], grad}, attrs);
  for (const Value& value : {r[0], r[1], grads[0], grads[1], grads[2]}) graph.output(value);
  return graph;
}

// The same by definition.
std::vector<Doubles> expected(const Sizes& s, const std::vector<Doubles>& x) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const std::int64_t heads = s.batch * s.heads;
  const double scale = s.scale != 0 ? s.scale : 1 / std::sqrt(static_cast<double>(s.depth));
  const Doubles &q = x[0], &k = x[1], &v = x[2], &grad = x[3];
  Doubles o(at(heads * s.queries * s.width)), lse(at(heads * s.queries)), dq(q.size()), dk(k.size()),
      dv(v.size());
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = h * s.queries; i < (h + 1) * s.queries; ++i) {
      const std::int64_t seen = s.causal ? i - h * s.queries + s.keys - s.queries + 1 : s.keys;
      Doubles weights(at(seen)), inner(at(seen));
      double most = -kInf, total = 0, mean = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        for (std::int64_t d = 0; d < s.depth; ++d)
          weights[at(j)] += scale * q[at(i * s.depth + d)] * k[at((h * s.keys + j) * s.depth + d)];
        most = std::max(most, weights[at(j)]);
      }
      for (double& w : weights) total += w = std::exp(w - most);
      for (std::int64_t j = 0; j < seen; ++j) {
        weights[at(j)] /= total;
        for (std::int64_t e = 0; e < s.width; ++e) {
          const double value = v[at((h * s.keys + j) * s.width + e)], back = grad[at(i * s.width + e)];
          o[at(i * s.width + e)] += weights[at(j)] * value;
          dv[at((h * s.keys + j) * s.width + e)] += weights[at(j)] * back;
          inner[at(j)] += back * value;
        }
        mean += weights[at(j)] * inner[at(j)];
      }
      for (std::int64_t j = 0; j < seen; ++j)
        for (std::int64_t d = 0; d < s.depth; ++d) {
          const std::int64_t to_q = i * s.depth + d, to_k = (h * s.keys + j) * s.depth + d;
          const double slope = weights[at(j)] * (inner[at(j)] - mean) * scale;
          dq[at(to_q)] += slope * k[at(to_k)];
          dk[at(to_k)] += slope * q[at(to_q)];
        }
      lse[at(i)] = most + std::log(total);
    }
  return {o, lse, dq, dk, dv};
}

std::vector<std::string> library_calls(const Graph& graph) {
  std::vector<std::string> names;
  const std::shared_ptr<const Module> module = make_module(graph);
  for (const lower::Step& step : module->program.steps)
    if (step.kind == lower::StepKind::library) names.push_back(step.implementation);
  return names;
}
const std::vector<std::string> kBoth = {"systole.attention", "systole.attention_grad"};

std::vector<Doubles> doubles(const std::vector<Literal>& literals) {
  std::vector<Doubles> made;
  for (const Literal& literal : literals) made.push_back(literal.to_doubles());
  return made;
}

void expect_near(const std::vector<Doubles>& got, const std::vector<Doubles>& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(got[i].size(), wanted[i].size());
    double largest = 1;
    for (const double x : wanted[i]) largest = std::max(largest, std::fabs(x));
    for (std::size_t j = 0; j < wanted[i].size(); ++j)
      ASSERT_NEAR(got[i][j], wanted[i][j], tolerance * largest) << "result " << i << ", element " << j;
  }
}

class CpuAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (!makes_kernels()) GTEST_SKIP() << "no compiler for kernels";
  }
};

TEST_F(CpuAttention, ValuesAndGradientsAreThoseOfLoopsInDouble) {
  for (const Sizes& s :
       std::vector<Sizes>{{2, 3, 64, 64, 64, 64},
                          {1, 2, 129, 129, 64, 64, true},
                          {1, 2, 37, 150, 40, 40, true},  // the last queries of a longer text
                          {2, 1, 1, 70, 64, 64, true},
                          {1, 2, 97, 33, 8, 24},
                          {1, 1, 50, 300, 128, 128, false, 0.25},
                          {1, 1, 70, 600, 16, 16, true},  // keys in several ranges
                          {1, 1, 33, 65, 250, 3},
                          {1, 1, 45, 45, 3, 256, true, -0.5},
                          {3, 2, 1, 1, 5, 1}}) {
    SCOPED_TRACE(std::to_string(s.queries) + " queries, depth " + std::to_string(s.depth));
    const Graph graph = graph_of(s);
    EXPECT_EQ(library_calls(graph), kBoth);
    const std::vector<Literal> arguments = random_arguments(graph, 3, 1);
    expect_near(doubles(compile(graph, "cpu").run(arguments)), expected(s, doubles(arguments)), 3e-6);
  }
}

TEST_F(CpuAttention, ShortFloatsAreComputedInF32) {
  const Sizes s{1, 2, 70, 90, 40, 64, true};
  for (const auto& [dtype, tolerance] : {std::pair{DType::bf16, 1.0 / 128}, {DType::f16, 1.0 / 1024}}) {
    const Graph graph = graph_of(s, dtype);
    EXPECT_EQ(library_calls(graph), kBoth);
    const std::vector<Literal> arguments = random_arguments(graph, 4, 1);
    const std::vector<Doubles> got = doubles(compile(graph, "cpu").run(arguments));
    const std::vector<Doubles> wanted = expected(s, doubles(arguments));
    expect_near(got, wanted, tolerance);
    expect_near({got[1]}, {wanted[1]}, 1e-6);  // lse is f32
  }
}

// q, k and v as parts of one product [b, s, 3, h, d].
TEST_F(CpuAttention, PartsOfAFusedProductAreReadWhereTheyLie) {
  constexpr std::int64_t kBatch = 2, kLength = 70, kHeads = 3, kDepth = 20;
  Graph graph("fused");
  const Value all = graph.input("all", {DType::f32, {kBatch, kLength, 3, kHeads, kDepth}});
  Values parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Value part = ops::reshape(ops::slice_axis(all, 2, i, i + 1), {kBatch, kLength, kHeads, kDepth});
    parts.push_back(ops::transpose(part, {0, 2, 1, 3}));
  }
  graph.output(ops::attention(parts[0], parts[1], parts[2], true));
  const std::shared_ptr<const Module> module = make_module(graph);
  ASSERT_EQ(module->program.steps.size(), 1u);
  EXPECT_EQ(module->program.steps[0].implementation, "systole.attention");

  const std::vector<Literal> arguments = random_arguments(graph, 5, 1);
  const Doubles x = arguments[0].to_doubles();
  std::vector<Doubles> operands(4, Doubles(x.size() / 3));
  for (std::int64_t part = 0; part < 3; ++part)
    for (std::int64_t b = 0; b < kBatch; ++b)
      for (std::int64_t i = 0; i < kLength; ++i)
        for (std::int64_t h = 0; h < kHeads; ++h)
          for (std::int64_t d = 0; d < kDepth; ++d)
            operands[static_cast<std::size_t>(part)][static_cast<std::size_t>(
                ((b * kHeads + h) * kLength + i) * kDepth + d)] =
                x[static_cast<std::size_t>((((b * kLength + i) * 3 + part) * kHeads + h) * kDepth + d)];
  const Sizes s{kBatch, kHeads, kLength, kLength, kDepth, kDepth, true};
  expect_near({doubles(compile(graph, "cpu").run(arguments))[0]}, {expected(s, operands)[0]}, 3e-6);
}

TEST_F(CpuAttention, HeadsThatShareKeysReadThemFromOnePlace) {
  Graph graph("shared");
  const Value q = graph.input("q", {DType::f32, {2, 4, 10, 16}});
  const Value k = graph.input("k", {DType::f32, {2, 10, 16}}),
              v = graph.input("v", {DType::f32, {2, 10, 16}});
  const auto spread = [](Value x) { return ops::broadcast(x, {2, 4, 10, 16}, {0, 2, 3}); };
  graph.output(ops::attention(q, spread(k), spread(v)));
  EXPECT_EQ(make_module(graph)->program.steps.size(), 1u);

  const std::vector<Literal> arguments = random_arguments(graph, 6, 1);
  std::vector<Doubles> operands = doubles(arguments);
  for (const std::size_t i : {1, 2}) {
    const Doubles one = operands[i];
    operands[i].clear();
    for (std::size_t head = 0; head < 8; ++head)
      for (std::size_t j = 0; j < 160; ++j) operands[i].push_back(one[head / 4 * 160 + j]);
  }
  operands.push_back(operands[0]);
  expect_near({doubles(compile(graph, "cpu").run(arguments))[0]},
              {expected({2, 4, 10, 10, 16, 16}, operands)[0]}, 3e-6);
}

TEST_F(CpuAttention, LargeScoresDoNotOverflow) {
  const Sizes s{1, 1, 40, 200, 32, 32};
  const Graph graph = graph_of(s);
  const std::vector<Literal> arguments = random_arguments(graph, 7, 30);  // scores of some thousands
  const std::vector<Doubles> wanted = expected(s, doubles(arguments));
  ASSERT_GT(*std::max_element(wanted[1].begin(), wanted[1].end()), 1000);
  // A score of thousands is known to 1e-4: so far are its weights off.
  expect_near(doubles(compile(graph, "cpu").run(arguments)), wanted, 1e-3);
}

// A key that no query has a finite score with has no part in what comes after it.
TEST_F(CpuAttention, ScoresOfMinusInfinityWeighNothing) {
  Graph graph("hidden");
  const Value q = graph.input("q", {DType::f32, {1, 1, 2, 1}}),
              k = graph.input("k", {DType::f32, {1, 1, 300, 1}});
  const Values r = ir::add_composite("attention", {q, k, k}, {{"scale", 1e30}});
  graph.output(r[0]);
  graph.output(r[1]);
  std::vector<float> keys(300, -1e10f);  // times 1e30: -inf
  keys[299] = 1e-30f;
  const std::vector<float> queries = {1, 1};
  const std::vector<Literal> got =
      compile(graph, "cpu")
          .run({Literal::of<float>({1, 1, 2, 1}, queries), Literal::of<float>({1, 1, 300, 1}, keys)});
  EXPECT_NEAR(got[0].to_doubles()[0], 1e-30, 1e-36);
  EXPECT_NEAR(got[1].to_doubles()[1], 1, 1e-6);
}

TEST_F(CpuAttention, NanReachesWhoeverSeesIt) {
  const Sizes s{1, 1, 40, 40, 8, 8, true};
  const Graph graph = graph_of(s);
  const auto run_with_nan = [&](std::size_t input, std::size_t element) {
    std::vector<Literal> arguments = random_arguments(graph, 8, 1);
    arguments[input].mutable_values<float>()[element] = static_cast<float>(kNan);
    return doubles(compile(graph, "cpu").run(arguments));
  };
  // Weights of 0 times what is no number may be that too, as they are where nobody skips them.
  const std::vector<Doubles> by_key = run_with_nan(1, 33 * 8), by_value = run_with_nan(2, 33 * 8);
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(by_key[0][i * 8]), i >= 33) << i;
    EXPECT_EQ(std::isnan(by_key[1][i]), i >= 33) << i;
    EXPECT_TRUE(i < 33 || std::isnan(by_value[0][i * 8])) << i;
    EXPECT_FALSE(std::isnan(by_value[1][i])) << i;
  }
  const std::vector<Doubles> got = run_with_nan(0, 20 * 8);
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(got[0][i * 8]), i == 20) << i;
    EXPECT_EQ(std::isnan(got[2][i * 8]), i == 20) << i;
    EXPECT_TRUE(i > 20 || (std::isnan(got[3][i * 8]) && std::isnan(got[4][i * 8]))) << i;
  }
}

TEST_F(CpuAttention, QueriesThatSeeNoKeyAreLeftToTheCompiler) {
  Graph graph("blind");
  const Value q = graph.input("q", {DType::f32, {1, 1, 5, 8}}),
              k = graph.input("k", {DType::f32, {1, 1, 3, 8}});
  graph.output(ops::attention(q, k, k, true));
  for (const std::string& name : library_calls(graph)) EXPECT_NE(name, "systole.attention");
  const Doubles got = compile(graph, "cpu").run(random_arguments(graph, 9, 1))[0].to_doubles();
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(std::isnan(got[i * 8]), i < 2) << i;
}

// Straight from the kernels, cut into so many parts.
std::vector<std::vector<float>> run_kernels(const patterns::Attention& a,
                                            const std::vector<std::vector<float>>& inputs,
                                            const std::vector<std::int64_t>& outputs, int threads) {
  const Tuned made = attention_kernels(a, attention_tiles(a), "k");
  const std::shared_ptr<const Library> library =
      compile_kernels(codegen::source_file(made.kernels, codegen::Dialect::c));
  std::vector<std::vector<float>> results;
  for (const std::int64_t count : outputs) results.emplace_back(static_cast<std::size_t>(count));
  std::vector<float> workspace(static_cast<std::size_t>(made.workspace_bytes / 4));
  std::vector<void*> buffers;
  for (const auto& array : inputs) buffers.push_back(const_cast<float*>(array.data()));
  for (auto& array : results) buffers.push_back(array.data());
  buffers.push_back(workspace.data());
  struct Launch {
    KernelFunction function;
    void** buffers;
  };
  for (const codegen::Kernel& kernel : made.kernels) {
    const Launch launch{library->find(kernel.name), buffers.data()};
    parallel_for(
        kernel.items, threads,
        [](const void* context, std::int64_t begin, std::int64_t end) {
          const auto& own = *static_cast<const Launch*>(context);
          own.function(own.buffers, begin, end);
        },
        &launch);
  }
  return results;
}

TEST_F(CpuAttention, AnyNumberOfThreadsGivesTheSameBits) {
  constexpr std::int64_t kHeads = 3, kLength = 530, kDepth = 24;
  const std::vector<Literal> arguments =
      random_arguments(graph_of({1, kHeads, kLength, kLength, kDepth, kDepth, true}), 10, 1);
  std::vector<std::vector<float>> x;
  for (const Literal& argument : arguments) {
    const auto values = argument.values<float>();
    x.emplace_back(values.begin(), values.end());
  }
  patterns::Attention a;
  a.dtype = DType::f32;
  a.batch = 1, a.heads = kHeads, a.queries = a.keys = kLength, a.depth = a.width = kDepth;
  a.causal = true, a.scale = 0.2;
  const auto operand = [&](std::size_t i) {
    return patterns::Attention::Array{i, 0, {kHeads * kLength * kDepth, kLength * kDepth, kDepth, 1}};
  };
  for (const std::size_t i : {0, 1, 2}) a.arrays.push_back(operand(i));
  const std::int64_t all = kHeads * kLength * kDepth;
  const std::vector<std::vector<float>> o = run_kernels(a, {x[0], x[1], x[2]}, {all, kHeads * kLength}, 1);
  for (const int threads : {2, 3})
    EXPECT_EQ(run_kernels(a, {x[0], x[1], x[2]}, {all, kHeads * kLength}, threads), o) << threads;

  a.is_gradient = true;
  for (const std::size_t i : {3, 4, 5}) a.arrays.push_back(operand(i));
  const std::vector<std::vector<float>> inputs{x[0], x[1], x[2], o[0], o[1], x[3]};
  ASSERT_GT(attention_tiles(a).ranges, 1);
  const std::vector<std::vector<float>> grads = run_kernels(a, inputs, {all, all, all}, 1);
  for (const int threads : {2, 3})
    EXPECT_EQ(run_kernels(a, inputs, {all, all, all}, threads), grads) << threads;
}

TEST_F(CpuAttention, ALongSequenceNeedsNoMemoryForItsScores) {
  constexpr std::int64_t kLength = 8192;
  const Graph graph = graph_of({1, 8, kLength, kLength, 64, 64, true});
  const std::int64_t scores = 8 * kLength * kLength * 4;  // 2 GiB, for every head
  EXPECT_LT(make_module(graph)->program.arena_bytes, scores / 20);
}

}  // namespace
}  // namespace systole::cpu
