// Products by cuBLASLt: which work on a result is read as the library's, which is refused and why, what
// becomes of a training step, and, on a GPU, that the numbers are those of the reference.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/blas.h"
#include "backend/cuda/device.h"
#include "backend/cuda/target.h"
#include "backend/patterns/epilogues.h"
#include "backend/patterns/on_result.h"
#include "backend/patterns/product.h"
#include "compile/program.h"
#include "eval/eval.h"
#include "graph_arguments.h"
#include "systole/autodiff.h"
#include "systole/compile/passes.h"
#include "systole/ir/text.h"
#include "systole/systole.h"

namespace systole::cuda {

using namespace patterns;
namespace {

using Works = std::vector<std::string>;

ir::Graph graph_of(const std::string& inputs, const std::string& statements) {
  return ir::parse("systole.ir 1\ngraph @main(" + inputs + ") {\n" + statements + "\n}\n");
}

struct Read {
  std::string refusal;
  Product product;
  OnResult work;
};

Read read(const ir::Graph& graph) {
  lower::Region region{passes::inline_composites(graph)};
  for (std::int32_t i = 0; i < region.graph.size(); ++i)
    if (region.graph.node(i).op == ir::Op::dot_general) region.anchor = i;
  Read out;
  out.refusal = read_product(region, out.product);
  if (out.refusal.empty()) out.refusal = read_on_result(region, out.product, out.work);
  return out;
}

// x[4,8] · w[16,8] transposed, and what stands on it.
const std::string kInputs = "%x: f32[4,8], %w: f32[16,8], %b: f32[16], %c: f32[4,16]";
const std::string kProduct = "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[1]} : f32[4,16]\n";
const std::string kBiased = kProduct + "%r = broadcast(%b) {shape=[4,16], axes=[1]}\n%s = add(%y, %r)\n";
Read read(const std::string& statements) { return read(graph_of(kInputs, statements)); }
std::string refusal(const std::string& statements) { return read(statements).refusal; }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(CudaProducts, ABareProductIsRead) {
  const Read bare = read(kProduct + "return %y");
  EXPECT_EQ(bare.refusal, "");
  EXPECT_TRUE(bare.work.is_plain());
  EXPECT_EQ(bare.product.rows, 4);
  EXPECT_EQ(bare.product.columns, 16);
  EXPECT_EQ(bare.product.depth, 8);
  EXPECT_EQ(bare.product.a.input, 0u);
  EXPECT_EQ(bare.product.a.free_stride, 8);
  EXPECT_EQ(bare.product.b.contract_stride, 1);
}

TEST(CudaProducts, ABiasAlongTheColumnsIsRead) {
  const Read biased = read(kBiased + "return %s");
  EXPECT_EQ(biased.refusal, "");
  EXPECT_EQ(biased.work.text(), "+bias");
  EXPECT_EQ(biased.work.bias, 2);
}

TEST(CudaProducts, ABiasAlongTheRowsIsRefused) {
  const ir::Graph graph = graph_of("%x: f32[4,8], %w: f32[4,8], %b: f32[4]",
                                   "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[1]}\n"
                                   "%r = broadcast(%b) {shape=[4,4], axes=[0]}\n"
                                   "%s = add(%y, %r)\nreturn %s");
  EXPECT_EQ(read(graph).refusal, "the sum is no bias of the columns");
}

TEST(CudaProducts, ABiasThatIsComputedOnTheWayIsRefused) {
  EXPECT_EQ(refusal(kProduct + "%e = exp(%b)\n%r = broadcast(%e) {shape=[4,16], axes=[1]}\n"
                               "%s = add(%y, %r)\nreturn %s"),
            "what is added is computed on the way");
}

TEST(CudaProducts, ABiasOfAnotherDTypeThanTheResultIsRefused) {
  const ir::Graph graph = graph_of("%x: bf16[4,8], %w: bf16[16,8], %b: bf16[16]",
                                   "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[1]}\n"
                                   "%r = broadcast(%b) {shape=[4,16], axes=[1]}\n"
                                   "%s = add(%y, %r)\n%f = convert(%s) {dtype=f32}\nreturn %f");
  EXPECT_EQ(read(graph).refusal, "the bias has another dtype");
}

TEST(CudaProducts, ReluInEitherFormIsRead) {
  const std::string zero = "%0 = constant() {value=f32[](0)}\n%z = broadcast(%0) {shape=[4,16]}\n";
  EXPECT_EQ(read(kBiased + zero + "%m = max(%s, %z)\nreturn %m").work.text(), "+bias+relu");
  EXPECT_EQ(read(kBiased + zero + "%l = less_equal(%s, %z)\n%m = select(%l, %z, %s)\nreturn %m").work.text(),
            "+bias+relu");
  EXPECT_EQ(read(kProduct + zero + "%m = max(%y, %z)\nreturn %m").work.text(), "+relu");
}

TEST(CudaProducts, ReluWhoseOperandIsWantedTooIsRefused) {
  const std::string zero = "%0 = constant() {value=f32[](0)}\n%z = broadcast(%0) {shape=[4,16]}\n";
  EXPECT_TRUE(contains(refusal(kBiased + zero + "%m = max(%s, %z)\nreturn %s, %m"), "keeps only a bit"));
  EXPECT_EQ(refusal(kBiased + zero + "%l = less_equal(%s, %z)\n%m = select(%l, %z, %s)\nreturn %l, %m"),
            "two values of the work on the result are wanted");
}

ir::Graph gelu_graph(bool tanh_form, bool with_operand, std::int64_t columns = 16) {
  ir::Graph graph;
  const ir::Value x = graph.input("x", {DType::bf16, {4, 8}}),
                  w = graph.input("w", {DType::bf16, {columns, 8}}),
                  b = graph.input("b", {DType::bf16, {columns}});
  const ir::Value sum = ops::add(ops::dot_general(x, w, {1}, {1}), ops::broadcast(b, {4, columns}, {1}));
  graph.output(ops::gelu(sum, tanh_form));
  if (with_operand) graph.output(sum);
  return graph;
}

TEST(CudaProducts, GeluByTanhIsReadWithItsOperandWhereThatIsWanted) {
  EXPECT_EQ(read(gelu_graph(true, false)).work.text(), "+bias+gelu");
  const Read both = read(gelu_graph(true, true));
  EXPECT_EQ(both.refusal, "");
  EXPECT_EQ(both.work.text(), "+bias+gelu+before");
  EXPECT_EQ(both.work.result, 0);
  EXPECT_EQ(both.work.before, 1);
}

TEST(CudaProducts, GeluByErfIsRefused) {
  EXPECT_TRUE(contains(read(gelu_graph(false, false)).refusal, "by erf"));
}

TEST(CudaProducts, GeluOperandsWithRowsThatAreNotAlignedAreRefused) {
  EXPECT_EQ(read(gelu_graph(true, false, 12)).refusal, "");
  EXPECT_TRUE(contains(read(gelu_graph(true, true, 12)).refusal, "no multiple of 8"));
}

TEST(CudaProducts, AScaleAndAnArrayOfTheResultsShapeAreRead) {
  const Read scaled = read(kProduct +
                           "%k = constant() {value=f32[](0.125)}\n%f = broadcast(%k) {shape=[4,16]}\n"
                           "%m = mul(%y, %f)\n%s = add(%c, %m)\nreturn %s");
  EXPECT_EQ(scaled.refusal, "");
  EXPECT_EQ(scaled.work.scale, 0.125);
  EXPECT_EQ(scaled.work.added, 3);
  const Read divided = read(kProduct +
                            "%k = constant() {value=f32[](4)}\n%f = broadcast(%k) {shape=[4,16]}\n"
                            "%m = div(%y, %f)\nreturn %m");
  EXPECT_EQ(divided.work.scale, 0.25);
}

TEST(CudaProducts, AScaleAfterTheBiasIsRefused) {
  EXPECT_EQ(refusal(kBiased + "%k = constant() {value=f32[](2)}\n%f = broadcast(%k) {shape=[4,16]}\n"
                              "%m = mul(%s, %f)\nreturn %m"),
            "no such work on the result");
}

TEST(CudaProducts, AnArrayInAnotherOrderIsNotAdded) {
  const ir::Graph graph = graph_of("%x: f32[4,8], %w: f32[4,8], %c: f32[4,4]",
                                   "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[1]}\n"
                                   "%t = transpose(%c) {permutation=[1,0]}\n%s = add(%y, %t)\nreturn %s");
  EXPECT_EQ(read(graph).refusal, "the sum is no bias of the columns");
}

TEST(CudaProducts, AWiderResultIsRead) {
  const Read wide = read(graph_of("%x: bf16[4,8], %w: bf16[16,8]",
                                  "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[1]}\n"
                                  "%f = convert(%y) {dtype=f32}\nreturn %f"));
  EXPECT_EQ(wide.refusal, "");
  EXPECT_EQ(wide.product.operands, DType::bf16);
  EXPECT_EQ(wide.product.result, DType::f32);
}

TEST(CudaProducts, AnOperandSummedOverWhatIsContractedIsRead) {
  const std::string product = "%y = dot_general(%d, %x) {a_contract=[0], b_contract=[0]}\n";
  const std::string inputs = "%d: f32[8,16], %x: f32[8,4]";
  const Read first = read(graph_of(inputs, product + "%s = reduce(%d) {axes=[0]}\nreturn %y, %s"));
  EXPECT_EQ(first.refusal, "");
  EXPECT_EQ(first.work.operand_sum, 1);
  EXPECT_EQ(first.work.summed, 0);
  EXPECT_EQ(read(graph_of(inputs, product + "%s = reduce(%x) {axes=[0]}\nreturn %s, %y")).work.text(),
            "+sum of operand 1");
  EXPECT_NE(read(graph_of(inputs, product + "%s = reduce(%d) {axes=[1]}\nreturn %y, %s")).refusal, "");
  EXPECT_NE(read(graph_of(inputs, product + "%s = reduce(%d) {kind=max, axes=[0]}\nreturn %y, %s")).refusal,
            "");
}

TEST(CudaProducts, OtherWorkIsRefused) {
  EXPECT_EQ(refusal(kProduct + "%e = exp(%y)\nreturn %e"), "no such work on the result");
  EXPECT_EQ(refusal(kBiased + "%e = mul(%s, %c)\nreturn %e"), "no such work on the result");
  EXPECT_EQ(refusal(kBiased + "return %y, %s"), "no such work on the result");
}

TEST(CudaProducts, BatchesLieAtTheirStrides) {
  // x[2,3,4,8], its second axis the batch's inner one, and w[2,3,8,16]
  const Read batches = read(
      graph_of("%x: f32[2,4,3,8], %w: f32[2,3,8,16]",
               "%t = transpose(%x) {permutation=[0,2,1,3]}\n"
               "%y = dot_general(%t, %w) {a_contract=[3], b_contract=[2], a_batch=[0,1], b_batch=[0,1]}\n"
               "return %y"));
  EXPECT_EQ(batches.refusal, "");
  EXPECT_EQ(batches.product.outer, 2);
  EXPECT_EQ(batches.product.batch, 3);
  EXPECT_EQ(batches.product.a.batch_stride, 8);
  EXPECT_EQ(batches.product.a.outer_stride, 96);
  EXPECT_EQ(batches.product.a.free_stride, 24);
  EXPECT_EQ(batches.product.b.batch_stride, 128);
}

// Two layers, the loss their result's mean square, and its gradients.
enum class Form { relu, gelu, gelu_erf };
ir::Graph training_step(Form form, DType dtype, std::int64_t rows = 8) {
  ir::Graph graph;
  const ir::Value x = graph.input("x", {dtype, {rows, 16}}), w1 = graph.input("w1", {DType::f32, {24, 16}}),
                  b1 = graph.input("b1", {DType::f32, {24}}), w2 = graph.input("w2", {DType::f32, {16, 24}}),
                  b2 = graph.input("b2", {DType::f32, {16}});
  const auto layer = [&](ir::Value in, ir::Value w, ir::Value b) {
    const ir::Value product = ops::dot_general(in, ops::convert(w, dtype), {1}, {1});
    return ops::add(product, ops::broadcast_to(ops::convert(b, dtype), product.shape()));
  };
  const ir::Value sum = layer(x, w1, b1);
  const ir::Value zero = ops::scalar_like(sum, 0);
  const ir::Value h = form == Form::relu ? ops::select(ops::less_equal(sum, zero), zero, sum)
                                         : ops::gelu(sum, form == Form::gelu);
  const ir::Value y = ops::convert(layer(h, w2, b2), DType::f32);
  graph.output(ops::sum(ops::mul(y, y), {0, 1}));
  return autodiff::value_and_grad(graph, {1, 2, 3, 4});
}

ir::Graph optimized(const ir::Graph& graph) {
  return passes::run_passes(passes::inline_composites(graph), passes::standard_passes());
}

// As the library reads it; what it takes is noted.
Judge note(Works& works) {
  return [&works](const lower::Region& whole, const lower::Region& bare, std::int64_t saved) -> std::string {
    Product product, alone;
    OnResult work, none;
    EXPECT_EQ(read_product(bare, alone) + read_on_result(bare, alone, none), "");
    EXPECT_TRUE(none.is_plain());
    EXPECT_GT(saved, 0);
    std::string reason = read_product(whole, product);
    if (reason.empty()) reason = read_on_result(whole, product, work);
    if (reason.empty()) works.push_back(work.text());
    return reason;
  };
}

void expect_close(const std::vector<Literal>& got, const std::vector<Literal>& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::vector<double> a = got[i].to_doubles(), b = wanted[i].to_doubles();
    ASSERT_EQ(a.size(), b.size());
    double largest = 0, error = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      ASSERT_TRUE(std::isfinite(a[k])) << "output " << i << " at " << k;
      largest = std::max(largest, std::abs(b[k]));
      error = std::max(error, std::abs(a[k] - b[k]));
    }
    EXPECT_LE(error, tolerance * largest) << "output " << i;
  }
}

Works taken_of(const ir::Graph& graph) {
  Works works;
  const ir::Graph made = passes::run_passes(with_epilogues(graph, note(works)), passes::standard_passes());
  ir::verify(made);
  const std::vector<Literal> arguments = random_arguments(graph, 11, 0.6);
  // The work is the same, whoever does it.
  expect_close(eval::evaluate(made, arguments), eval::evaluate(graph, arguments), 1e-12);
  return works;
}

TEST(CudaEpilogues, ATrainingStepWithGeluKeepsOnlyWhatTheLibraryKeeps) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const ir::Graph graph = optimized(training_step(Form::gelu, dtype));
    EXPECT_EQ(taken_of(graph),
              (Works{"+bias+gelu+before", "+gelu gradient+sum of rows", "+sum of operand 0"}))
        << name(dtype);
    Works works;
    const ir::Graph made = passes::run_passes(with_epilogues(graph, note(works)), passes::standard_passes());
    for (const ir::Node& node : made.nodes()) EXPECT_NE(node.op, ir::Op::tanh) << "it is done by the library";
  }
}

TEST(CudaEpilogues, ATrainingStepWithReluReadsTheMaskOffTheResult) {
  EXPECT_EQ(taken_of(optimized(training_step(Form::relu, DType::f32))),
            (Works{"+bias+relu", "+sum of operand 0", "+sum of operand 0"}));
}

TEST(CudaEpilogues, GeluByErfIsLeftToKernels) {
  for (const std::string& work : taken_of(optimized(training_step(Form::gelu_erf, DType::f32))))
    EXPECT_FALSE(contains(work, "gelu")) << work;
}

TEST(CudaEpilogues, WhatTheJudgeRefusesStaysAsItWas) {
  const ir::Graph graph = optimized(training_step(Form::gelu, DType::bf16));
  const ir::Graph made = passes::run_passes(
      with_epilogues(graph, [](const auto&, const auto&, std::int64_t) { return std::string("no"); }),
      passes::standard_passes());
  EXPECT_TRUE(made.same_structure(graph));
}

// The gradient of max(x, 0) is half where x is 0: of the result that cannot be told.
TEST(CudaEpilogues, AMaskThatTheResultDoesNotTellKeepsReluApart) {
  ir::Graph graph;
  const ir::Value x = graph.input("x", {DType::f32, {8, 16}}), w = graph.input("w", {DType::f32, {24, 16}}),
                  v = graph.input("v", {DType::f32, {16, 24}});
  const ir::Value y = ops::dot_general(ops::relu(ops::dot_general(x, w, {1}, {1})), v, {1}, {1});
  graph.output(ops::sum(ops::mul(y, y), {0, 1}));
  EXPECT_EQ(taken_of(optimized(autodiff::value_and_grad(graph, {1, 2}))), Works{});
}

TEST(CudaEpilogues, ReluWhoseOperandIsReadOtherwiseIsLeft) {
  const ir::Graph graph = graph_of("%x: f32[4,8], %w: f32[16,8], %v: f32[16,16], %c: f32[4,16]",
                                   "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[1]}\n"
                                   "%0 = constant() {value=f32[](0)}\n%z = broadcast(%0) {shape=[4,16]}\n"
                                   "%m = max(%y, %z)\n%o = mul(%y, %c)\n"
                                   "%n = dot_general(%m, %v) {a_contract=[1], b_contract=[1]}\n"
                                   "return %n, %o");
  EXPECT_EQ(taken_of(graph), Works{});
}

TEST(CudaEpilogues, ProductsInsideALoopAreFoundToo) {
  const ir::Graph graph = ir::parse(
      "systole.ir 1\n"
      "graph @body(%h: f32[4,16], %x: f32[4,16]) {\n"
      "  %y = dot_general(%h, %x) {a_contract=[0], b_contract=[0]}\n"
      "  %0 = constant() {value=f32[](0)}\n  %z = broadcast(%0) {shape=[16,16]}\n"
      "  %m = max(%y, %z)\n"
      "  %n = dot_general(%h, %m) {a_contract=[1], b_contract=[1]}\n  return %n\n}\n"
      "graph @main(%h: f32[4,16], %x: f32[3,4,16]) {\n"
      "  %r = scan(%h, %x) {length=3, carries=1, xs=1} @body\n  return %r\n}\n");
  EXPECT_EQ(taken_of(graph), Works{"+relu"});
}

class CudaBlas : public testing::Test {
 protected:
  void SetUp() override {
    if (all_devices().usable.empty()) GTEST_SKIP() << all_devices().left_out;
    if (!blas_absence().empty()) GTEST_SKIP() << blas_absence();
    ::setenv("SYSTOLE_CUDA_PREFER", "cublasLt", 1);  // small products too
  }
  void TearDown() override { ::unsetenv("SYSTOLE_CUDA_PREFER"); }

  // The library's calls for the graph; all that it can do is taken, whatever it costs.
  static std::set<std::string> calls(const ir::Graph& graph) {
    const Device& device = *all_devices().usable[0];
    device.activate();
    const Target target(device, runtime::Math::f32, true);
    const lower::Program program = lower::make_program(lower::prepared(graph, target), target);
    std::set<std::string> all;
    for (const lower::Step& step : program.steps)
      if (step.kind == lower::StepKind::library) all.insert(step.implementation);
    return all;
  }
  static void expect_same(const ir::Graph& graph, double tolerance, bool deterministic = true) {
    const std::vector<Literal> arguments = random_arguments(graph, 11, 0.6);
    const std::vector<Literal> wanted = compile(graph, "reference").run(arguments);
    const CompiledGraph compiled =
        compile(graph, "cuda:0", {.math = runtime::Math::f32, .deterministic = deterministic});
    for (int run = 0; run < 3; ++run) expect_close(compiled.run(arguments), wanted, tolerance);
  }
};

double tolerance(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 4e-3 : 3e-2; }

TEST_F(CudaBlas, TrainingStepsAgreeWithTheReference) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Form form : {Form::relu, Form::gelu, Form::gelu_erf}) {
      SCOPED_TRACE(std::string(name(dtype)) + " form " + std::to_string(static_cast<int>(form)));
      expect_same(training_step(form, dtype, 64), tolerance(dtype));
      expect_same(training_step(form, dtype, 64), tolerance(dtype), false);
    }
}

TEST_F(CudaBlas, EveryEpilogueIsUsedForSixteenBits) {
  std::set<std::string> all = calls(training_step(Form::gelu, DType::bf16, 64));
  EXPECT_TRUE(all.contains("cublasLt.matmul+bias+gelu+before"));
  EXPECT_TRUE(all.contains("cublasLt.matmul+gelu gradient+sum of rows"));
  EXPECT_TRUE(all.contains("cublasLt.matmul+sum of operand 0"));
  all = calls(training_step(Form::relu, DType::bf16, 64));
  EXPECT_TRUE(all.contains("cublasLt.matmul+bias+relu"));
  for (const std::string& each : all) std::printf("%s\n", each.c_str());
}

TEST_F(CudaBlas, ScalesAndSumsInBatchesAgreeWithTheReference) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    ir::Graph graph;
    const ir::Value x = graph.input("x", {dtype, {2, 24, 3, 16}}),
                    w = graph.input("w", {dtype, {2, 3, 16, 40}}),
                    c = graph.input("c", {dtype, {2, 3, 24, 40}}), b = graph.input("b", {dtype, {40}});
    const ir::Value y = ops::dot_general(ops::transpose(x, {0, 2, 1, 3}), w, {3}, {2}, {0, 1}, {0, 1});
    graph.output(ops::add(ops::mul(y, ops::broadcast_to(ops::scalar_like(y, 0.25), y.shape())), c));
    graph.output(ops::relu(ops::add(y, ops::broadcast_to(b, y.shape()))));
    expect_same(graph, tolerance(dtype));
  }
}

TEST_F(CudaBlas, OperandsAtOddAddressesAgreeWithTheReference) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    ir::Graph graph;
    const ir::Value x = graph.input("x", {dtype, {9, 33}}), w = graph.input("w", {dtype, {21, 33}});
    const ir::Value part = ops::slice(x, {1, 3}, {9, 24}), other = ops::slice(w, {0, 1}, {21, 22});
    graph.output(ops::dot_general(part, other, {1}, {1}));
    expect_same(graph, tolerance(dtype));
  }
}

}  // namespace
}  // namespace systole::cuda
