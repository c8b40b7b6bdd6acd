// The texts of kernels for groups of threads: one emitter, CUDA and OpenCL differing in the lane primitive
// alone. What they compute is shown by the conformance suite and opencl_test, that CUDA compiles by
// nvrtc_test.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "codegen/kernel.h"
#include "compile/program.h"
#include "kernel_check.h"
#include "systole/compile/passes.h"
#include "systole/ir/text.h"
#include "systole/ops.h"

namespace systole {

namespace {

using codegen::Dialect;
using codegen::Kernel;
using ir::Graph;
using ir::Value;
using kernel_check::kernel_of;
using kernel_check::step_of;

Graph softmax_of(const Shape& shape) {
  Graph graph("softmax");
  graph.output(ops::softmax(graph.input("x", {DType::f32, shape})));
  return graph;
}

class Cutting final : public lower::Target {
 public:
  std::string_view name() const override { return "cutting"; }
  lower::KernelLimits limits() const override { return {.cuts_rows = true}; }
};

bool has(const Kernel& kernel, std::string_view text) {
  return kernel.source.find(text) != std::string::npos;
}

std::size_t count(const Kernel& kernel, std::string_view text) {
  std::size_t found = 0;
  for (std::size_t at = kernel.source.find(text); at != std::string::npos;
       at = kernel.source.find(text, at + 1))
    ++found;
  return found;
}

TEST(SimtKernels, AWarpCombinesByShufflesInCudaAndThroughLocalMemoryInOpenCl) {
  const Kernel cuda = kernel_of(softmax_of({64, 100}), Dialect::cuda),
               opencl = kernel_of(softmax_of({64, 100}), Dialect::opencl);
  EXPECT_EQ(count(cuda, "__shfl_xor_sync"), 2u) << cuda.source;  // the largest, the sum
  EXPECT_FALSE(has(cuda, "S_BARRIER")) << cuda.source;
  EXPECT_FALSE(has(opencl, "__shfl")) << opencl.source;
  EXPECT_TRUE(has(opencl, "S_LOCAL float lanes_float[256];")) << opencl.source;
  EXPECT_EQ(cuda.groups, 8);  // eight rows each
  EXPECT_EQ(cuda.threads, 256);
}

// A kernel may be launched before what it reads is there: it waits before all else.
TEST(SimtKernels, BeginByWaitingForThoseBefore) {
  for (const Dialect dialect : {Dialect::cuda, Dialect::opencl}) {
    const Kernel kernel = kernel_of(softmax_of({64, 2000}), dialect);
    const std::size_t body = kernel.source.find("{\n");
    EXPECT_EQ(kernel.source.find("S_BEGIN;"), body + 4) << kernel.source;
  }
}

TEST(SimtKernels, AGroupCombinesItsWarpsThroughLocalMemory) {
  const Kernel cuda = kernel_of(softmax_of({64, 2000}), Dialect::cuda);
  EXPECT_TRUE(has(cuda, "__shfl_xor_sync")) << cuda.source;
  EXPECT_EQ(count(cuda, "S_LOCAL float warps"), 2u) << cuda.source;  // the largest, the sum
  EXPECT_EQ(count(cuda, "[S_LANE % 8];"), 2u) << cuda.source;
  EXPECT_EQ(cuda.groups, 64);
  EXPECT_EQ(kernel_of(softmax_of({64, 16000}), Dialect::cuda).threads, 1024);  // long rows get more of them
}

TEST(SimtKernels, FewRowsLeaveNoWarpIdle) {
  const auto kernels = [](const Shape& shape) {
    Graph graph("sum");
    graph.output(ops::sum(graph.input("x", {DType::f32, shape}), {1}));
    const lower::Program program = lower::make_program(graph, Cutting());
    return codegen::make_kernels(program.steps.at(0), "kernel", Dialect::cuda);
  };
  // 98 groups read four numbers a thread, one puts together what they know.
  const std::vector<Kernel> cut = kernels({1, 100'352});
  ASSERT_EQ(cut.size(), 2u);
  EXPECT_EQ(cut[0].groups, 98);
  EXPECT_EQ(cut[0].threads, 256);
  EXPECT_TRUE(has(cut[0], "part = S_LANE % 256;") && has(cut[0], "k < 1;")) << cut[0].source;
  EXPECT_EQ(cut[1].groups, 1);
  EXPECT_TRUE(has(cut[1], "c < 98; c += 256")) << cut[1].source;
  const Kernel whole = kernels({1, 1280}).at(0), small = kernels({2, 64}).at(0);
  EXPECT_EQ(whole.threads, 256);
  EXPECT_TRUE(has(whole, "part = S_LANE % 256;")) << whole.source;
  EXPECT_EQ(small.threads, 64);
  EXPECT_FALSE(has(small, "S_BARRIER")) << small.source;
}

// Columns of 65536 points are cut in 512 chunks: not every group of the next pass adds up the sums of all.
TEST(SimtKernels, SumsOfManyChunksAreAddedUpOnce) {
  Graph graph("centred");
  const Value x = graph.input("x", {DType::f32, {65'536, 64}});
  graph.output(ops::sub(x, ops::broadcast(ops::sum(x, {0}), x.shape(), {1})));
  const lower::Program program = lower::make_program(graph, Cutting());
  const std::vector<Kernel> kernels = codegen::make_kernels(program.steps.at(0), "kernel", Dialect::cuda);
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[1].name, "kernel_pass1_total");
  EXPECT_TRUE(has(kernels[1], "c < 512")) << kernels[1].source;
  EXPECT_FALSE(has(kernels[2], "of_chunk")) << kernels[2].source;
}

// A result that the first pass stored is read again rather than what it is made of.
TEST(SimtKernels, ALaterPassReadsWhatAnEarlierOneStored) {
  Graph graph("gradients");
  const Type type{DType::bf16, {65'536, 64}};
  const Value g = ops::add(graph.input("a", type), graph.input("b", type));
  const Value sum = ops::sum(ops::convert(g, DType::f32), {0});
  graph.output(g);
  graph.output(ops::sub(ops::convert(g, DType::f32), ops::broadcast(sum, type.shape, {1})));
  const lower::Program program = lower::make_program(graph, Cutting());
  const std::vector<Kernel> kernels = codegen::make_kernels(program.steps.at(0), "kernel", Dialect::cuda);
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_TRUE(has(kernels[0], "(w0, in0") || has(kernels[0], ", in0 + ")) << kernels[0].source;
  EXPECT_FALSE(has(kernels[2], ", in0 + ") || has(kernels[2], ", in1 + ")) << kernels[2].source;
  EXPECT_TRUE(has(kernels[2], "was0, out0 + ")) << kernels[2].source;
}

// The launch that puts chunks together reads what belongs to rows first: both are on their way at one time.
TEST(SimtKernels, WhatBelongsToRowsIsReadBeforeTheSumsOfChunks) {
  Graph graph("sum");
  const Value x = graph.input("x", {DType::f32, {2, 100'000}}), y = graph.input("y", {DType::f32, {2}});
  graph.output(ops::mul(ops::sum(x, {1}), y));
  const lower::Program program = lower::make_program(graph, Cutting());
  const std::vector<Kernel> kernels = codegen::make_kernels(program.steps.at(0), "kernel", Dialect::cuda);
  ASSERT_EQ(kernels.size(), 2u);
  const std::size_t read = kernels[1].source.find(" = in1["), summed = kernels[1].source.find("of_chunk");
  EXPECT_LT(read, summed) << kernels[1].source;
  EXPECT_EQ(count(kernels[1], "in1["), 1u) << kernels[1].source;
}

// A place that was read may be written after another reduction's barrier. Where a group comes back to the one
// there is, it waits.
TEST(SimtKernels, AReductionOfAGroupHasOneBarrierUnlessItIsTheOnlyOneOfManyRows) {
  const auto barriers = [](const Shape& shape, bool is_softmax) {
    Graph graph("sums");
    graph.output(ops::sum(graph.input("x", {DType::f32, shape}), {1}));
    return count(kernel_of(is_softmax ? softmax_of(shape) : graph, Dialect::cuda), "S_BARRIER");
  };
  EXPECT_EQ(barriers({64, 2000}, true), 2u);
  EXPECT_EQ(barriers({100'000, 2000}, true), 2u);
  EXPECT_EQ(barriers({64, 2000}, false), 1u);
  EXPECT_EQ(barriers({100'000, 2000}, false), 2u);
}

// x is read once, and its exponential computed once: later passes find both in registers, and in memory again
// when the row is too long for these.
TEST(SimtKernels, ValuesOfARowAreKeptBetweenPasses) {
  const Kernel registers = kernel_of(softmax_of({64, 1001}), Dialect::opencl);
  EXPECT_EQ(count(registers, "in0["), 1u) << registers.source;
  EXPECT_EQ(count(registers, "s_exp_f32("), 1u) << registers.source;
  const Kernel memory = kernel_of(softmax_of({64, 100001}), Dialect::opencl);
  EXPECT_EQ(count(memory, "in0["), 3u) << memory.source;
}

// A load behind a condition of the loop stays there, and what depends on it, a division here.
TEST(SimtKernels, WhatARowHasInCommonIsMadeBeforeTheLoopOverIt) {
  Graph graph("shares");
  const Value x = graph.input("x", {DType::f32, {64, 10'000}}), y = graph.input("y", {DType::f32, {64}}),
              weights = ops::exp(x), share = ops::div(y, ops::sum(weights, {1}));
  graph.output(ops::mul(weights, ops::broadcast(share, x.shape(), {0})));
  for (const Dialect dialect : {Dialect::cuda, Dialect::opencl}) {
    const Kernel kernel = kernel_of(graph, dialect);
    const std::size_t pass = kernel.source.find("// Pass 2.");
    ASSERT_NE(pass, std::string::npos) << kernel.source;
    const std::size_t loop = kernel.source.find("for (", pass);
    EXPECT_LT(kernel.source.find("in1[", pass), loop) << kernel.source;
    EXPECT_LT(kernel.source.find(" / sum", pass), loop) << kernel.source;
  }
}

TEST(SimtKernels, RowsThatDivideByFourAreReadFourPointsAtATime) {
  const Kernel registers = kernel_of(softmax_of({64, 1000}), Dialect::cuda);
  EXPECT_EQ(count(registers, "s_load4("), 1u) << registers.source;
  EXPECT_EQ(count(registers, "s_store4("), 1u) << registers.source;
  EXPECT_EQ(count(registers, "s_exp_f32("), 1u) << registers.source;
  const Kernel memory = kernel_of(softmax_of({64, 100000}), Dialect::cuda);
  EXPECT_EQ(count(memory, "s_load4("), 3u) << memory.source;
}

// Only what no output overwrites may be read through pointers that promise so.
TEST(SimtKernels, InputsThatAreOverwrittenAreNotReadOnly) {
  Graph graph("sum");
  const Type type{DType::f32, {1024}};
  graph.output(ops::add(graph.input("a", type), graph.input("b", type)));
  lower::Step step = step_of(graph);
  step.overwritten = {0, -1};
  const std::string source = make_kernel(step, "kernel", Dialect::cuda)->source;
  EXPECT_NE(source.find("kernel(S_PARAMETER(0), S_READ_ONLY(1), S_PARAMETER(2))"), std::string::npos)
      << source;
}

// Each overwrites what the other reads: a thread that did one alone would race with the other's.
TEST(SimtKernels, WhatOverwritesAnArrayIsOneThreadsWorkWithWhatReadsIt) {
  const Graph graph = ir::parse(R"(systole.ir 1
graph @swap(%a: f32[1000] {alias=0}, %b: f32[1000] {alias=1}) {
  %x = exp(%b) : f32[1000]
  %y = sin(%a) : f32[1000]
  return %x, %y
}
)");
  const lower::Program program = lower::make_program(graph, kernel_check::PlainTarget());
  ASSERT_EQ(program.steps.size(), 1u) << lower::to_string(program);
  EXPECT_EQ(program.steps[0].overwritten, (std::vector<std::int32_t>{1, 0}));  // its inputs are b and a
  const Kernel kernel = *make_kernel(program.steps[0], "kernel", Dialect::cuda);
  EXPECT_FALSE(has(kernel, "if (item <")) << kernel.source;
}

// Of a loop's body: the rows of ys are 12 bytes apart, x and the carry begin where vectors do.
TEST(SimtKernels, OnlySlicesThatMayBeginAnywhereAreReadAndWrittenWithCare) {
  const Graph graph = ir::parse(R"(systole.ir 1
graph @body(%carry: f32[262144], %x: f32[262144]) {
  %next = add(%carry, %x) : f32[262144]
  %y = slice(%x) {starts=[0], limits=[3], strides=[1]} : f32[3]
  %z = neg(%y) : f32[3]
  return %next, %z
}
graph @main(%a: f32[262144], %xs: f32[5,262144]) {
  %c, %ys = scan(%a, %xs) {length=5, carries=1, xs=1, reverse=false} @body : f32[262144], f32[5,3]
  return %c, %ys
}
)");
  const lower::Program program = lower::make_program(graph, kernel_check::PlainTarget());
  const lower::Program& body = *program.steps.at(0).programs.at(0);
  ASSERT_EQ(body.steps.size(), 1u);
  EXPECT_EQ(body.steps[0].unaligned, (std::vector<bool>{false, false, false, true}));
  const Kernel kernel = *make_kernel(body.steps[0], "kernel", Dialect::cuda);
  EXPECT_EQ(count(kernel, "s_load4("), 2u) << kernel.source;
  EXPECT_EQ(count(kernel, "s_store4("), 1u) << kernel.source;
  EXPECT_FALSE(has(kernel, "_anywhere")) << kernel.source;
  lower::Step step = body.steps[0];
  step.unaligned = {false, true, true, true};
  const Kernel careful = *make_kernel(step, "kernel", Dialect::cuda);
  EXPECT_EQ(count(careful, "s_load4("), 1u) << careful.source;
  EXPECT_EQ(count(careful, "s_load4_anywhere("), 1u) << careful.source;
  EXPECT_EQ(count(careful, "s_store4_anywhere("), 1u) << careful.source;
}

TEST(SimtKernels, DialectsShareTheTextOfAMap) {
  Graph graph("sum");
  const Type type{DType::f32, {4096, 64}};
  graph.output(ops::add(graph.input("a", type), graph.input("b", type)));
  const Kernel cuda = kernel_of(graph, Dialect::cuda), opencl = kernel_of(graph, Dialect::opencl);
  EXPECT_EQ(cuda.source, opencl.source);
  EXPECT_EQ(count(cuda, "s_load4("), 2u) << cuda.source;
  EXPECT_EQ(count(cuda, "s_store4("), 1u) << cuda.source;
  EXPECT_EQ(cuda.groups, 256);  // of 256 threads with four points each
}

// An optimiser's step on a small weight is a chain of roots and quotients: more threads wait for less of it.
TEST(SimtKernels, FewPointsHaveAThreadEach) {
  Graph graph("sum");
  const Type type{DType::f32, {128, 784}};
  graph.output(ops::add(graph.input("a", type), graph.input("b", type)));
  const Kernel kernel = kernel_of(graph, Dialect::cuda);
  EXPECT_FALSE(has(kernel, "s_load4(")) << kernel.source;
  EXPECT_EQ(kernel.groups, 392);
}

TEST(SimtKernels, ATransposedOperandPassesThroughATile) {
  Graph graph("transposed");
  const Value x = graph.input("x", {DType::f32, {128, 64}}), y = graph.input("y", {DType::f32, {64, 128}});
  graph.output(ops::add(ops::transpose(x, {1, 0}), y));
  const Kernel kernel = kernel_of(graph, Dialect::cuda);
  EXPECT_TRUE(has(kernel, "S_LOCAL float tile0[1056];")) << kernel.source;
  EXPECT_EQ(kernel.groups, 8);  // tiles of 32 × 32
}

TEST(SimtKernels, AConditionalReadStaysConditional) {
  Graph graph("padded");
  const Value x = graph.input("x", {DType::f32, {64, 60}});
  graph.output(ops::pad(x, ops::scalar_like(x, 0), {0, 0}, {0, 4}));
  EXPECT_FALSE(has(kernel_of(graph, Dialect::cuda), "s_load4("));
}

// Whether there is anything is known of all neighbours together where they lie along another axis.
TEST(SimtKernels, NeighboursAreReadAtOnceUnderAPadding) {
  Graph graph("gradient of pooling");
  const Type pooled{DType::bf16, {64, 15, 15, 32}};
  std::optional<Value> sum;
  for (const auto& [row, column] : {std::pair{0, 0}, {0, 1}, {1, 0}, {1, 1}}) {
    const Value part = graph.input("part" + std::to_string(2 * row + column), pooled);
    const Value padded = ops::pad(part, ops::scalar_like(part, 0), {0, row, column, 0},
                                  {0, 1 - row, 1 - column, 0}, {0, 1, 1, 0});
    sum = sum ? ops::add(*sum, padded) : padded;
  }
  graph.output(*sum);
  const Kernel map = kernel_of(graph, Dialect::cuda);
  EXPECT_EQ(count(map, "s_load4("), 4u) << map.source;
  EXPECT_EQ(count(map, "s_store4("), 1u) << map.source;
  EXPECT_FALSE(has(map, "if (")) << map.source;
  graph.output(ops::sum(*sum, {0, 1, 2}));
  const Kernel rows = kernel_of(graph, Dialect::cuda);
  EXPECT_EQ(count(rows, "s_load4("), 4u) << rows.source;
}

TEST(SimtKernels, WindowsBesideTheLastAxisAreReadByNeighbours) {
  const auto pooled = [](DType dtype, std::int64_t channels, std::int64_t padding) {
    Graph graph("pooling");
    const Value x = graph.input("x", {dtype, {64, 30, 30, channels}});
    graph.output(ops::max_pool(x, {2, 2}, {2, 2}, {padding, padding}, {padding, padding}));
    return kernel_of(graph, Dialect::cuda);
  };
  const Kernel small = pooled(DType::bf16, 32, 0);
  EXPECT_EQ(count(small, "s_load8("), 1u) << small.source;
  EXPECT_EQ(count(small, "s_store8("), 1u) << small.source;
  EXPECT_FALSE(has(small, "if (")) << small.source;
  EXPECT_EQ(count(pooled(DType::f32, 32, 0), "s_load4("), 1u);
  EXPECT_TRUE(has(pooled(DType::f32, 32, 1), "if (x1 >= 0 && x1 <= 29)"));
  EXPECT_FALSE(has(pooled(DType::f32, 30, 0), "s_load"));
}

// One thread for four rows would wait for their sums one after the other.
TEST(SimtKernels, RowsHaveManyThreadsForTheSumsOfTheirChunks) {
  Graph graph("gradient of a bias");
  const Value x = graph.input("x", {DType::f32, {512, 900, 32}});
  graph.output(ops::exp(x));
  graph.output(ops::sum(ops::exp(x), {0, 1}));
  const Cutting target;
  const lower::Program program = lower::make_program(lower::prepared(graph, target), target);
  ASSERT_EQ(program.steps.size(), 1u);
  const std::vector<Kernel> kernels = codegen::make_kernels(program.steps[0], "kernel", Dialect::cuda);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(count(kernels[0], "s_load4("), 1u) << kernels[0].source;
  EXPECT_EQ(kernels[1].threads, 1024);
  EXPECT_TRUE(has(kernels[1], "const s_i32 slot = S_LANE % 32, part = S_LANE / 32;")) << kernels[1].source;
}

TEST(SimtKernels, AProductHasItsEpilogueInTheKernel) {
  Graph graph("layer");
  const Value x = graph.input("x", {DType::f32, {256, 300}}), w = graph.input("w", {DType::f32, {300, 512}}),
              b = graph.input("b", {DType::f32, {512}});
  graph.output(ops::relu(ops::add(ops::matmul(x, w), ops::broadcast_to(b, {256, 512}))));
  const Kernel kernel = kernel_of(graph, Dialect::cuda);
  EXPECT_TRUE(has(kernel, "S_LOCAL float left[")) << kernel.source;
  EXPECT_TRUE(has(kernel, "S_FMA(")) << kernel.source;
  EXPECT_GE(kernel.groups, 32);
}

TEST(SimtKernels, EqualKernelsAreWrittenOnce) {
  codegen::KernelSet kernels;
  Kernel one = kernel_of(softmax_of({64, 100}), Dialect::cuda), two = one, other = one;
  two.name = "second";
  two.source.replace(two.source.find("kernel("), 6, "second");
  other.source += "\n";
  EXPECT_EQ(kernels.add(one), "kernel");
  EXPECT_EQ(kernels.add(two), "kernel");
  kernels.add(other);
  EXPECT_EQ(kernels.distinct().size(), 2u);
}

}  // namespace

}  // namespace systole
