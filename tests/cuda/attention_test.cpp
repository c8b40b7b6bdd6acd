// Attention as a library takes it: which composites it reads, where their operands lie, and on a GPU the
// numbers of cuDNN against those of the reference backend.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/dnn_attention.h"
#include "backend/cuda/target.h"
#include "backend/patterns/attention.h"
#include "compile/program.h"
#include "compile/target.h"
#include "systole/autodiff.h"
#include "systole/backend/cuda.h"
#include "systole/compile.h"
#include "systole/ir/composite.h"
#include "systole/ir/text.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cuda {

using namespace patterns;
namespace {

using ir::Graph;
using ir::Value;
using ir::Values;
using Four = Attention::Four;

// q, k and v of a fused projection [batch, length, 3 · heads · depth], as GPT-2 has it.
Values heads_of(Value all, std::int64_t heads, std::int64_t depth) {
  const Shape shape = all.shape();
  Values parts;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Value third = ops::slice_axis(all, -1, i * heads * depth, (i + 1) * heads * depth);
    parts.push_back(ops::transpose(ops::reshape(third, {shape[0], shape[1], heads, depth}), {0, 2, 1, 3}));
  }
  return parts;
}

// [batch, length, 3 · heads · depth] to [batch, length, heads · depth].
Graph block(DType dtype, std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t depth,
            bool causal) {
  Graph graph("block");
  const Value all = graph.input("all", {dtype, {batch, length, 3 * heads * depth}});
  const Values qkv = heads_of(all, heads, depth);
  const Value o = ops::attention(qkv[0], qkv[1], qkv[2], causal);
  graph.output(ops::reshape(ops::transpose(o, {0, 2, 1, 3}), {batch, length, heads * depth}), "y");
  return graph;
}

// Claims what the library reads, as the CUDA backend does.
class Library final : public lower::Target {
 public:
  std::string_view name() const override { return "library"; }
  std::vector<lower::Claim> offers(const lower::Region& region) const override {
    if (!is_attention(region.graph.node(region.anchor))) return {};
    Attention attention;
    if (std::string reason = read_attention(region, attention); !reason.empty())
      return {lower::Claim::declined(std::move(reason))};
    return {{"library.attention", {}, 0, 0}};
  }
  bool reads_moved(const ir::Node& reader, std::size_t operand, const lower::Strided& view) const override {
    return reader.op != ir::Op::composite || reads_attention_operand(reader, operand, view);
  }
};

lower::Program program_of(const Graph& graph) {
  return lower::make_program(lower::prepared(graph, Library()), Library());
}

// The claimed steps' attentions.
std::vector<Attention> claimed(const lower::Program& program) {
  std::vector<Attention> found;
  for (const lower::Step& step : program.steps)
    if (step.kind == lower::StepKind::library) {
      EXPECT_EQ(read_attention(step.region, found.emplace_back()), "");
    }
  return found;
}

// The answer for composite `name` of operands in order.
std::string answer(const std::string& name, const std::vector<Type>& types, ir::AttrMap attrs = {}) {
  lower::Region region;
  Values operands;
  for (const Type& type : types) operands.push_back(region.graph.input({}, type));
  const Values results = ir::add_composite(name, operands, std::move(attrs));
  for (const Value& result : results) region.graph.output(result);
  region.anchor = results[0].id().node;
  Attention attention;
  return read_attention(region, attention);
}
std::string answer(DType dtype, Ints q, Ints k, ir::AttrMap attrs = {}) {
  const Type keys{dtype, Shape(k)};
  return answer("attention", {{dtype, Shape(q)}, keys, keys}, std::move(attrs));
}

TEST(CudaAttention, PartsOfAFusedProjectionAreReadWhereTheyLie) {
  const lower::Program program = program_of(block(DType::bf16, 2, 128, 4, 64, true));
  const std::vector<Attention> found = claimed(program);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(program.steps[0].kind, lower::StepKind::library);  // nothing is put in order before it
  const Attention& a = found[0];
  EXPECT_EQ((Ints{a.batch, a.heads, a.queries, a.keys, a.depth, a.width}), (Ints{2, 4, 128, 128, 64, 64}));
  EXPECT_TRUE(a.causal);
  EXPECT_FALSE(a.is_gradient);
  EXPECT_EQ(a.scale, 0.125);
  ASSERT_EQ(a.arrays.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a.arrays[i].input, 0u);
    EXPECT_EQ(a.arrays[i].offset, static_cast<std::int64_t>(i) * 256);
    EXPECT_EQ(a.arrays[i].strides, (Four{128 * 768, 64, 768, 1}));
  }
}

TEST(CudaAttention, TheGradientReadsCotangentsWhereTheyLieToo) {
  const lower::Program program = program_of(autodiff::vjp(block(DType::f16, 2, 128, 4, 64, false), {0}));
  const std::vector<Attention> found = claimed(program);
  ASSERT_EQ(found.size(), 2u);
  const Attention& a = found[1];
  EXPECT_TRUE(a.is_gradient);
  ASSERT_EQ(a.arrays.size(), 6u);
  EXPECT_EQ(a.arrays[1].strides, (Four{128 * 768, 64, 768, 1}));          // k
  EXPECT_EQ(a.arrays[3].strides, (Four{4 * 128 * 64, 128 * 64, 64, 1}));  // o, as attention gave it
  EXPECT_EQ(a.arrays[4].strides, (Four{4 * 128, 128, 1, 0}));             // lse
  EXPECT_EQ(a.arrays[5].strides, (Four{128 * 256, 64, 256, 1}));  // the cotangent of [b, length, h · d]
  EXPECT_EQ(program.steps.size(), 3u);                            // and what leaves the graph is put in order
}

TEST(CudaAttention, AnOperandThatLiesAcrossIsPutInOrderFirst) {
  Graph graph("across");
  const Value q = graph.input("q", {DType::bf16, {1, 2, 64, 128}}),
              k = graph.input("k", {DType::bf16, {1, 2, 128, 64}});
  graph.output(ops::attention(ops::transpose(q, {0, 1, 3, 2}), k, k), "y");
  const lower::Program program = program_of(graph);
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.steps[0].kind, lower::StepKind::kernel);
  const std::vector<Attention> found = claimed(program);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].arrays[1].input, found[0].arrays[2].input);  // one array is k and v
}

TEST(CudaAttention, WhatTheLibraryLacksIsDeclinedWithTheReason) {
  const Ints x{1, 2, 128, 64};
  EXPECT_EQ(answer(DType::bf16, x, x), "");
  EXPECT_EQ(answer(DType::f16, {1, 2, 64, 64}, x, {{"causal", true}}), "");
  EXPECT_EQ(answer(DType::f32, x, x), "f32 is not taken: bf16 or f16");
  EXPECT_EQ(answer(DType::bf16, {1, 2, 128, 12}, {1, 2, 128, 12}),
            "a depth of 12 is not taken: multiples of 8 up to 128");
  EXPECT_EQ(answer(DType::bf16, {1, 2, 128, 136}, {1, 2, 128, 136}),
            "a depth of 136 is not taken: multiples of 8 up to 128");
  EXPECT_EQ(answer(DType::bf16, {1, 2, 130, 64}, x, {{"causal", true}}), "some queries see no key");
  EXPECT_EQ(answer(DType::bf16, {1, 2, 130, 64}, x), "");
  EXPECT_EQ(answer(DType::bf16, {1, 2, 129, 64}, x), "the log-sum-exp is no multiple of 16 bytes");
  EXPECT_EQ(answer(DType::bf16, {1, 2, 0, 64}, x), "there is nothing to attend to");
  const Type array{DType::bf16, Shape(x)}, lse{DType::f32, {1, 2, 128}};
  EXPECT_EQ(answer("attention_grad", {array, array, array, array, lse, array}), "");
}

TEST(CudaAttention, WorkOnItsResultIsNotTaken) {
  Graph graph("work");
  const Value x = graph.input("x", {DType::bf16, {1, 2, 128, 64}});
  graph.output(ops::neg(ops::attention(x, x, x)), "y");
  const lower::Program program = program_of(graph);
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.steps[0].kind, lower::StepKind::library);
  EXPECT_EQ(program.refusals.at(0).reason, "no work on its result is taken");
}

// As cudnn-frontend 1.23 has it.
TEST(CudaAttention, VersionsOfCudnnThatLackOrSpoilItAreDeclined) {
  Attention a;
  a.queries = a.keys = 100;
  EXPECT_EQ(dnn_attention_refusal(a, 91400, 90), "");
  EXPECT_NE(dnn_attention_refusal(a, 91400, 75), "");
  EXPECT_NE(dnn_attention_refusal(a, 90501, 90), "");
  EXPECT_NE(dnn_attention_refusal(a, 91001, 90), "");
  EXPECT_EQ(dnn_attention_refusal(a, 91002, 80), "");
  a.is_gradient = true;
  EXPECT_EQ(dnn_attention_refusal(a, 91400, 90),
            "100 keys are not taken: multiples of 128 before cuDNN 9.15.1");
  EXPECT_EQ(dnn_attention_refusal(a, 91600, 90), "");
  a.keys = 256;
  EXPECT_EQ(dnn_attention_refusal(a, 91400, 90), "");
}

class OnCudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_available()) GTEST_SKIP() << "no GPU: " << unavailable_reason();
    if (!dnn_absence().empty()) GTEST_SKIP() << dnn_absence();
  }
};

Literal converted(const Literal& from, DType dtype) {
  const std::vector<double> numbers = from.to_doubles();
  Literal to(Type{dtype, from.shape()});
  visit_dtype(dtype, [&]<class T>() {
    std::transform(numbers.begin(), numbers.end(), to.mutable_values<T>().begin(),
                   [](double x) { return static_cast<T>(x); });
  });
  return to;
}

// Numbers about as large as 1, the same everywhere.
Literal waves(const Type& type, double seed) {
  Literal value(Type{DType::f64, type.shape});
  double place = seed;
  for (double& x : value.mutable_values<double>()) x = std::sin(place += 1.7) * 1.5;
  return converted(value, type.dtype);
}

std::vector<Literal> arguments_of(const Graph& graph) {
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    arguments.push_back(waves(graph.input_type(i), static_cast<double>(i)));
  return arguments;
}

// What the GPU's libraries run of the graph.
std::vector<std::string> library_calls(const Graph& graph) {
  const Target target(device_of(0), runtime::Math::f32);
  std::vector<std::string> names;
  for (const lower::Step& step : lower::make_program(lower::prepared(graph, target), target).steps)
    if (step.kind == lower::StepKind::library) names.push_back(step.implementation);
  return names;
}

// By the GPU in a low precision, and by the reference backend in f32 of the same numbers.
void expect_close(const std::function<Graph(DType)>& graph_of, DType dtype) {
  const std::vector<Literal> arguments = arguments_of(graph_of(dtype));
  std::vector<Literal> wide;
  for (const Literal& argument : arguments) wide.push_back(converted(argument, DType::f32));
  const std::vector<Literal> wanted = compile(graph_of(DType::f32), "reference").run(wide),
                             got = compile(graph_of(dtype), "cuda:0").run(arguments);
  // Weights and their gradients are rounded before they are summed up, and so are the results: numpy, with
  // the same roundings, differs by less than half of this.
  const double eps = dtype == DType::bf16 ? 1.0 / 128 : 1.0 / 1024;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<double> a = wanted[i].to_doubles(), b = got[i].to_doubles();
    double largest = 1, worst = 0;
    for (std::size_t j = 0; j < a.size(); ++j) {
      ASSERT_TRUE(std::isfinite(b[j])) << i << " " << j;
      largest = std::max(largest, std::fabs(a[j]));
      worst = std::max(worst, std::fabs(a[j] - b[j]));
    }
    EXPECT_LE(worst, 2 * eps * largest) << "result " << i;
  }
}

// Attention with its gradients, which the library has too where `has_gradient` says so.
void expect_close(DType dtype, const Ints& q, const Ints& k, bool causal, bool has_gradient = true) {
  const auto graph_of = [&](DType of) {
    Graph graph("attend");
    const Value queries = graph.input("q", {of, Shape(q)}), keys = graph.input("k", {of, Shape(k)}),
                values = graph.input("v", {of, Shape(k)});
    graph.output(ops::attention(queries, keys, values, causal), "y");
    return autodiff::vjp(graph, {0, 1, 2});
  };
  const std::vector<std::string> calls = library_calls(graph_of(dtype));
  const auto is_called = [&](const char* name) {
    return std::find(calls.begin(), calls.end(), name) != calls.end();
  };
  EXPECT_TRUE(is_called("cudnn.attention"));
  EXPECT_TRUE(is_called("cudnn.attention_grad") || !has_gradient);
  expect_close(graph_of, dtype);
}

TEST_F(OnCudaGpu, CausalAttentionAndItsGradientsAreThoseOfTheFormula) {
  expect_close(DType::bf16, {2, 3, 128, 64}, {2, 3, 128, 64}, true);
  expect_close(DType::f16, {1, 2, 256, 128}, {1, 2, 256, 128}, true);
}

TEST_F(OnCudaGpu, FullAttentionAndItsGradientsAreThoseOfTheFormula) {
  expect_close(DType::bf16, {2, 3, 128, 64}, {2, 3, 128, 64}, false);
  expect_close(DType::bf16, {1, 2, 64, 32}, {1, 2, 128, 32}, false);
}

TEST_F(OnCudaGpu, FewerQueriesThanKeysSeeTheLastKeysInTheEnd) {
  expect_close(DType::bf16, {1, 2, 128, 64}, {1, 2, 256, 64}, true);
}

// Where the gradient is not taken, the library's log-sum-exp serves the formula.
TEST_F(OnCudaGpu, LengthsThatAreNoMultipleOfTheTilesAreRight) {
  expect_close(DType::bf16, {2, 2, 100, 64}, {2, 2, 100, 64}, true, false);
  expect_close(DType::bf16, {2, 2, 37, 16}, {2, 2, 75, 16}, false, false);
}

TEST_F(OnCudaGpu, PartsOfAFusedProjectionAreReadRightly) {
  expect_close([](DType dtype) { return autodiff::vjp(block(dtype, 2, 128, 4, 64, true), {0}); },
               DType::bf16);
}

// The log-sum-exps that the loop keeps for the gradient, 37 numbers a turn, lie at multiples of four bytes.
TEST_F(OnCudaGpu, ALoopKeepsWhatTheGradientNeedsWhereverItLies) {
  const auto graph_of = [](DType dtype) {
    const Type type{dtype, {1, 1, 37, 16}};
    const auto body = std::make_shared<Graph>("body");
    const Value carry = body->input("carry", type), x = body->input("x", type);
    body->output(ops::attention(carry, x, x, false), "next");
    body->output(carry, "kept");
    Graph graph("loop");
    const Value start = graph.input("start", type), xs = graph.input("xs", {dtype, {3, 1, 1, 37, 16}});
    graph.output(ops::scan(body, {start}, {xs}, {}, 3)[0], "y");
    return autodiff::vjp(graph, {0, 1});
  };
  expect_close(graph_of, DType::bf16);
}

TEST_F(OnCudaGpu, DeterministicGradientsAreTheSameBitsEveryTime) {
  Graph graph("attend");
  const Value x = graph.input("x", {DType::bf16, {2, 4, 512, 64}});
  graph.output(ops::attention(x, x, x, true), "y");
  runtime::CompileOptions options;
  options.deterministic = true;
  const CompiledGraph program = compile(autodiff::vjp(graph, {0}), "cuda:0", options);
  const std::vector<Literal> arguments = arguments_of(autodiff::vjp(graph, {0}));
  const std::vector<Literal> first = program.run(arguments);
  for (int i = 0; i < 3; ++i) {
    const std::vector<Literal> again = program.run(arguments);
    for (std::size_t r = 0; r < first.size(); ++r) EXPECT_TRUE(first[r].same_bits(again[r])) << r;
  }
}

}  // namespace
}  // namespace systole::cuda
