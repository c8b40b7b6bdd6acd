// Products and convolutions by oneDNN: that it takes them, that the numbers are those of the reference
// backend, which sums in f64, and what it leaves to generated kernels.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cpu/executor.h"
#include "backend/cpu/onednn.h"
#include "backend/packages.h"
#include "base/log.h"
#include "child_check.h"
#include "error_check.h"
#include "graph_arguments.h"
#include "systole/autodiff.h"
#include "systole/compile.h"
#include "systole/ir/text.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cpu {
namespace {

using ir::Graph;
using ir::Value;

class OneDnn : public testing::Test {
 protected:
  void SetUp() override {
    if (!onednn_absence().empty()) GTEST_SKIP() << onednn_absence();
    ::setenv("SYSTOLE_TUNE", "0", 1);  // what it takes by the rules, however fast kernels are here
  }
};

Graph graph_of(const std::string& inputs, const std::string& statements) {
  return ir::parse("systole.ir 1\ngraph @main(" + inputs + ") {\n" + statements + "\n}\n");
}

std::vector<std::string> library_calls(const Graph& graph) {
  std::vector<std::string> names;
  const std::shared_ptr<const Module> module = make_module(graph);
  for (const lower::Step& step : module->program.steps)
    if (step.kind == lower::StepKind::library) names.push_back(step.implementation);
  std::sort(names.begin(), names.end());
  return names;
}

void expect_near(const std::vector<Literal>& got, const std::vector<Literal>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<double> a = wanted[i].to_doubles(), b = got[i].to_doubles();
    double largest = 1;
    for (const double x : a) largest = std::max(largest, std::fabs(x));
    for (std::size_t j = 0; j < a.size(); ++j) ASSERT_NEAR(b[j], a[j], 2e-6 * largest) << i << " " << j;
  }
}

// As the reference has it, by these calls.
void expect_calls(const Graph& graph, const std::vector<std::string>& names) {
  EXPECT_EQ(library_calls(graph), names);
  const std::vector<Literal> arguments = random_arguments(graph, 7, 1);
  expect_near(compile(graph, "cpu").run(arguments), compile(graph, "reference").run(arguments));
}

TEST_F(OneDnn, TakesProductsHoweverTheirFactorsLie) {
  for (const char* const attrs : {"%x: f32[40,96], %w: f32[96,50]|a_contract=[1], b_contract=[0]",
                                  "%x: f32[40,96], %w: f32[50,96]|a_contract=[1], b_contract=[1]",
                                  "%x: f32[96,40], %w: f32[96,50]|a_contract=[0], b_contract=[0]",
                                  "%x: f32[96,40], %w: f32[50,96]|a_contract=[0], b_contract=[1]"}) {
    const std::string text = attrs;
    const std::size_t bar = text.find('|');
    expect_calls(graph_of(text.substr(0, bar),
                          "%y = dot_general(%x, %w) {" + text.substr(bar + 1) + "} : f32[40,50]\nreturn %y"),
                 {"onednn.matmul"});
  }
}

TEST_F(OneDnn, TakesBatchesAndWhatIsAdded) {
  expect_calls(graph_of("%x: f32[3,20,64], %w: f32[3,64,30]",
                        "%y = dot_general(%x, %w) {a_contract=[2], b_contract=[1], a_batch=[0], b_batch=[0]} "
                        ": f32[3,20,30]\nreturn %y"),
               {"onednn.matmul"});
  const std::string product = "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]} : f32[40,50]\n";
  const std::string inputs = "%x: f32[40,96], %w: f32[96,50], %b: f32[50], %c: f32[40,50]";
  expect_calls(graph_of(inputs, product + "%r = broadcast(%b) {shape=[40,50], axes=[1]}\n%z = add(%y, %r)\n" +
                                    "return %z"),
               {"onednn.matmul+bias"});
  expect_calls(graph_of(inputs, product + "%z = add(%y, %c)\nreturn %z"), {"onednn.matmul+array"});
}

// A process that finds no oneDNN says so once, at the first product that oneDNN would be asked for, however
// small the network: here a layer of 64 to 64 numbers for 32 samples.
TEST(OneDnnChild, DISABLED_ASmallLayerWarnsOnce) {
  runtime::use_package_folders({});
  if (onednn_absence().empty()) return;  // the system has one
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::warn);
  const auto multiply = [](std::int64_t rows, std::int64_t depth) {
    Graph graph("dot");
    const Value x = graph.input("x", {DType::f32, {rows, depth}});
    const Value w = graph.input("w", {DType::f32, {depth, depth}});
    graph.output(ops::dot_general(x, w, {1}, {0}), "y");
    compile(graph, "cpu");
  };
  multiply(4, 8);
  EXPECT_TRUE(lines.empty()) << lines[0];
  multiply(32, 64);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find(onednn_absence()), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find(onednn_repair()), std::string::npos) << lines[0];
  multiply(64, 64);
  EXPECT_EQ(lines.size(), 1U);
  set_log_sink({});
}

TEST(OneDnnChild, DISABLED_AVariableThatNamesNothingIsAnError) {
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [] { onednn_absence(); }).find("names no oneDNN"),
            std::string::npos);
}

TEST(OneDnnWithout, IsSaidOnceAndAWrongPathIsAnError) {
  ASSERT_EQ(::unsetenv("SYSTOLE_ONEDNN"), 0);
  EXPECT_TRUE(passes_in_a_child("OneDnnChild.DISABLED_ASmallLayerWarnsOnce"));
  ::setenv("SYSTOLE_ONEDNN", "/no/such/libdnnl.so.3", 1);
  EXPECT_TRUE(passes_in_a_child("OneDnnChild.DISABLED_AVariableThatNamesNothingIsAnError"));
  ::unsetenv("SYSTOLE_ONEDNN");
}

TEST_F(OneDnn, LeavesSmallProductsAndOtherTypesToKernels) {
  expect_calls(graph_of("%x: f32[4,8], %w: f32[8,4]",
                        "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]} : f32[4,4]\nreturn %y"),
               {});
  expect_calls(graph_of("%x: f64[40,96], %w: f64[96,50]",
                        "%y = dot_general(%x, %w) {a_contract=[1], b_contract=[0]} : f64[40,50]\nreturn %y"),
               {});
}

// Of equal numbers, which are the hardest, within the 4·eps·√count that is promised.
TEST_F(OneDnn, LongSumsKeepTheirPrecision) {
  const double tenth = static_cast<double>(0.1f), eps = std::ldexp(1.0, -23);
  const auto expect_sums = [&](const Graph& graph, double count) {
    ASSERT_EQ(library_calls(graph).size(), 1u);
    std::vector<Literal> arguments;
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      arguments.push_back(Literal::full(graph.input_type(i), tenth));
    for (const double got : compile(graph, "cpu").run(arguments)[0].to_doubles())
      ASSERT_NEAR(got / (count * tenth * tenth), 1, 4 * eps * std::sqrt(count));
  };
  for (const std::int64_t depth : {16384, 2000000}) {
    Graph graph("dot");
    const Value x = graph.input("x", {DType::f32, {8, depth}});
    graph.output(ops::dot_general(x, x, {1}, {1}), "y");
    expect_sums(graph, static_cast<double>(depth));
  }
  for (const std::int64_t channels : {3, 32}) {
    ir::ConvolutionAttrs attrs;
    attrs.layout = "b01f_01io->b01f";
    Graph graph("gradient");
    const Value y = graph.input("y", {DType::f32, {96, 32, 32, 8}}),
                x = graph.input("x", {DType::f32, {96, 34, 34, channels}});
    graph.output(ops::conv_weight_grad(y, x, {3, 3, channels, 8}, attrs), "w");
    expect_sums(graph, 96 * 32 * 32);
  }
}

struct Case {
  const char* name;
  Shape x, w;
  ir::ConvolutionAttrs attrs;
};

std::vector<Case> cases() {
  const auto attrs = [](auto&& set) {
    ir::ConvolutionAttrs made;
    made.layout = "bf01_oi01->bf01";
    set(made);
    return made;
  };
  return {
      {"plain", {2, 3, 12, 10}, {8, 3, 3, 3}, attrs([](auto&) {})},
      {"padded", {2, 16, 9, 9}, {16, 16, 3, 3}, attrs([](auto& a) { a.pad_low = a.pad_high = {1, 1}; })},
      {"strided", {2, 5, 15, 14}, {7, 5, 3, 2}, attrs([](auto& a) {
         a.strides = {2, 2}, a.pad_low = a.pad_high = {1, 1};
       })},
      {"uneven", {2, 4, 11, 11}, {6, 4, 2, 4}, attrs([](auto& a) {
         a.strides = {2, 1}, a.pad_low = {0, 1}, a.pad_high = {1, 2};
       })},
      {"dilated", {1, 4, 14, 14}, {4, 4, 3, 3}, attrs([](auto& a) { a.kernel_dilation = {2, 2}; })},
      {"channels last", {2, 10, 10, 8}, {3, 3, 8, 16}, attrs([](auto& a) {
         a.layout = "b01f_01io->b01f", a.pad_low = a.pad_high = {1, 1};
       })},
      {"groups", {2, 12, 9, 9}, {6, 4, 3, 3}, attrs([](auto& a) { a.feature_groups = 3; })},
      {"depthwise", {2, 16, 11, 10}, {16, 1, 3, 3}, attrs([](auto& a) {
         a.feature_groups = 16, a.strides = {2, 1}, a.pad_low = a.pad_high = {1, 1};
       })},
      {"two filters of each channel, last", {2, 10, 10, 8}, {3, 3, 1, 16}, attrs([](auto& a) {
         a.layout = "b01f_01io->b01f", a.feature_groups = 8, a.pad_low = a.pad_high = {1, 1};
       })},
  };
}

TEST_F(OneDnn, TakesConvolutionsAndTheirGradients) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    Graph graph("main");
    const Value x = graph.input("x", {DType::f32, each.x}), w = graph.input("w", {DType::f32, each.w});
    graph.output(graph.add(ir::Op::convolution, {x, w}, each.attrs), "y");
    expect_calls(graph, {"onednn.convolution"});
    // With holes in the kernel its gradient has strides, and is read as a forward convolution.
    const bool has_holes = !each.attrs.kernel_dilation.empty();
    std::vector<std::string> names = {"onednn.convolution", "onednn.convolution_input_grad",
                                      has_holes ? "onednn.convolution" : "onednn.convolution_weight_grad"};
    std::sort(names.begin(), names.end());
    expect_calls(autodiff::vjp(graph, {0, 1}), names);
  }
}

// Its gradient by the kernel was a generated kernel, at a hundredth of the speed.
TEST_F(OneDnn, TakesTransposedConvolutionsAndTheirGradients) {
  struct Transposed {
    const char* name;
    Shape x, w, y;  // w as PyTorch has it: [in, out / groups, height, width]
    std::int64_t stride, padding, dilation, groups;
  };
  for (const Transposed& each :
       {Transposed{"doubled", {2, 8, 8, 16}, {16, 8, 4, 4}, {2, 16, 16, 8}, 2, 1, 1, 1},
        {"one point", {4, 1, 1, 100}, {100, 32, 4, 4}, {4, 4, 4, 32}, 1, 0, 1, 1},
        {"as large", {2, 9, 9, 8}, {8, 12, 3, 3}, {2, 9, 9, 12}, 1, 1, 1, 1},
        {"one more", {2, 7, 7, 6}, {6, 10, 3, 3}, {2, 14, 14, 10}, 2, 1, 1, 1},
        {"dilated", {2, 6, 6, 8}, {8, 8, 3, 3}, {2, 15, 15, 8}, 2, 0, 2, 1},
        {"groups", {2, 7, 7, 8}, {8, 6, 3, 3}, {2, 15, 15, 12}, 2, 0, 1, 2}}) {
    SCOPED_TRACE(each.name);
    ir::ConvolutionAttrs attrs;
    attrs.layout = "b01f_oi01->b01f";
    attrs.strides = {each.stride, each.stride};
    attrs.pad_low = attrs.pad_high = {each.padding, each.padding};
    attrs.kernel_dilation = {each.dilation, each.dilation};
    attrs.feature_groups = each.groups;
    Graph graph("main");
    const Value x = graph.input("x", {DType::f32, each.x}), w = graph.input("w", {DType::f32, each.w});
    graph.output(ops::conv_input_grad(x, w, each.y, attrs), "y");
    expect_calls(graph, {"onednn.convolution_input_grad"});
    // With holes in the kernel its gradient has strides, and is read as a forward convolution.
    const char* const by_kernel = each.dilation > 1 ? "onednn.convolution" : "onednn.convolution_weight_grad";
    std::vector<std::string> names = {"onednn.convolution", "onednn.convolution_input_grad", by_kernel};
    std::sort(names.begin(), names.end());
    expect_calls(autodiff::vjp(graph, {0, 1}), names);
  }
}

// Of sequences: images of one row.
TEST_F(OneDnn, TakesConvolutionsOfOneDimensionAndTheirGradients) {
  for (const std::int64_t stride : {1, 2}) {
    for (const bool is_last : {true, false}) {
      SCOPED_TRACE(std::to_string(stride) + (is_last ? " channels last" : " channels first"));
      ir::ConvolutionAttrs attrs;
      attrs.layout = is_last ? "b0f_oi0->b0f" : "bf0_oi0->bf0";
      attrs.strides = {stride};
      attrs.pad_low = attrs.pad_high = {1};
      const Shape image = is_last ? Shape{4, 40, 16} : Shape{4, 16, 40};
      Graph graph("main");
      const Value x = graph.input("x", {DType::f32, image}), w = graph.input("w", {DType::f32, {24, 16, 3}});
      const Value y = graph.add(ir::Op::convolution, {x, w}, attrs);
      graph.output(y, "y");
      expect_calls(graph, {"onednn.convolution"});
      const std::vector<std::string> all = {"onednn.convolution", "onednn.convolution_input_grad",
                                            "onednn.convolution_weight_grad"};
      expect_calls(autodiff::vjp(graph, {0, 1}), all);
      Graph transposed("main");
      const Value grad = transposed.input("grad", y.type()),
                  kernel = transposed.input("w", {DType::f32, {24, 16, 3}});
      transposed.output(ops::conv_input_grad(grad, kernel, image, attrs), "x");
      expect_calls(autodiff::vjp(transposed, {0, 1}), all);
    }
  }
}

TEST_F(OneDnn, GivesGradientsOfKernelsInTheOrderTheyAreWantedIn) {
  for (const char* const layout : {"b01f_01io->b01f", "bf01_oi01->bf01"}) {
    ir::ConvolutionAttrs attrs;
    attrs.layout = layout;
    const bool is_last = attrs.layout[1] == '0';
    Graph graph("main");
    const Value y = graph.input("y", {DType::f32, is_last ? Shape{2, 8, 8, 24} : Shape{2, 24, 8, 8}}),
                x = graph.input("x", {DType::f32, is_last ? Shape{2, 10, 10, 16} : Shape{2, 16, 10, 10}});
    graph.output(ops::conv_weight_grad(y, x, is_last ? Shape{3, 3, 16, 24} : Shape{24, 16, 3, 3}, attrs),
                 "w");
    expect_calls(graph, {"onednn.convolution_weight_grad"});
    const std::shared_ptr<const Module> module = make_module(graph);
    const lower::Program& program = module->program;
    for (const lower::Step& step : program.steps)  // images are turned, their kernel's gradient is not
      EXPECT_TRUE(step.kind == lower::StepKind::library || step.inputs == std::vector{program.inputs[0]} ||
                  step.inputs == std::vector{program.inputs[1]})
          << to_string(program);
  }
}

TEST_F(OneDnn, TakesGroupsAndABiasOfTheChannels) {
  Graph graph("main");
  const Value x = graph.input("x", {DType::f32, {2, 9, 9, 12}}),
              w = graph.input("w", {DType::f32, {3, 3, 4, 6}}), bias = graph.input("bias", {DType::f32, {6}});
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b01f_01io->b01f";
  attrs.feature_groups = 3;
  const Value y = graph.add(ir::Op::convolution, {x, w}, attrs);
  graph.output(ops::add(y, ops::broadcast(bias, y.shape(), {3})), "y");
  expect_calls(graph, {"onednn.convolution+bias"});
}

TEST_F(OneDnn, WhatIsNotANumberStaysSoBehindARelu) {
  Graph graph("main");
  const Value x = graph.input("x", {DType::f32, {32, 64}}), w = graph.input("w", {DType::f32, {64, 32}});
  graph.output(ops::relu(ops::matmul(x, w)), "y");
  std::vector<Literal> arguments = random_arguments(graph, 3, 1);
  arguments[0].mutable_values<float>()[5 * 64] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Literal> got = compile(graph, "cpu").run(arguments);
  for (std::size_t i = 0; i < 32; ++i)
    for (std::size_t j = 0; j < 32; ++j)
      EXPECT_EQ(std::isnan(got[0].values<float>()[i * 32 + j]), i == 5) << i << " " << j;
}

// y = x * w, and w + 1, which may take w's memory.
Graph convolution_and_step() {
  Graph graph("main");
  const Value x = graph.input("x", {DType::f32, {1, 8, 8, 16}}),
              w = graph.input("w", {DType::f32, {3, 3, 16, 32}}, 1);
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b01f_01io->b01f";
  graph.output(graph.add(ir::Op::convolution, {x, w}, attrs), "y");
  graph.output(ops::add(w, ops::scalar_like(w, 1)), "next");
  return graph;
}

class OneDnnSession : public OneDnn {
 protected:
  void SetUp() override {
    OneDnn::SetUp();
    if (IsSkipped()) return;
    session_ = cpu_.compile(graph_, 0, {})->new_session();
  }
  runtime::BufferRef array(std::size_t input, std::uint32_t seed) {
    return cpu_.upload(random_arguments(graph_, seed, 1)[input], 0);
  }
  // The results are the reference's; gives the second, the next kernel.
  runtime::BufferRef expect_right(const runtime::BufferRef& x, runtime::BufferRef w, bool donates) {
    const std::vector<Literal> wanted = compile(graph_, "reference").run({x->to_host(), w->to_host()});
    runtime::RunArguments arguments;
    arguments.per_device.push_back({x, nullptr});
    arguments.per_device[0][1] = std::move(w);  // whoever else holds it keeps it from being overwritten
    if (donates) arguments.donated = {1};
    std::vector<runtime::BufferRef> results = session_->run(arguments)[0];
    expect_near({results[0]->to_host(), results[1]->to_host()}, wanted);
    return results[1];
  }

  const Graph graph_ = convolution_and_step();
  runtime::Backend& cpu_ = runtime::backend("cpu");
  std::unique_ptr<runtime::Session> session_;
};

// From the third run on the kernel is not brought into the library's order again; a new one is.
TEST_F(OneDnnSession, KernelsThatComeAgainAreKeptAndOthersAreNotTakenForThem) {
  const runtime::BufferRef x = array(0, 1), first = array(1, 2), second = array(1, 3);
  for (const runtime::BufferRef& w :
       {first, first, first, first, second, second, second, first, second, second})
    expect_right(x, w, false);
}

// In a training step the kernel is the same buffer every time, with another content.
TEST_F(OneDnnSession, KernelsThatAreOverwrittenAreReadAnew) {
  const runtime::BufferRef x = array(0, 1);
  runtime::BufferRef w = array(1, 2);
  for (int i = 0; i < 3; ++i) expect_right(x, w, false);
  for (int i = 0; i < 4; ++i) {
    const runtime::Buffer* const before = w.get();
    w = expect_right(x, std::move(w), true);
    EXPECT_EQ(w.get(), before);
  }
  for (int i = 0; i < 4; ++i) expect_right(x, w, false);
}

// Of one program, whose plans both use.
TEST_F(OneDnn, TwoThreadsRunAtOneTime) {
  Graph graph("main");
  const Value x = graph.input("x", {DType::f32, {64, 96}}), w = graph.input("w", {DType::f32, {96, 64}});
  graph.output(ops::matmul(x, w), "y");
  const CompiledGraph program = compile(graph, "cpu");
  std::vector<std::thread> threads;
  std::vector<std::vector<Literal>> arguments, got(2);
  for (std::uint32_t t = 0; t < 2; ++t) arguments.push_back(random_arguments(graph, t, 1));
  for (std::size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) got[t] = program.run(arguments[t]);
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < 2; ++t) expect_near(got[t], compile(graph, "reference").run(arguments[t]));
}

// The pool's threads are not in the child, which must not wait for them.
TEST_F(OneDnn, AForkedProcessMultipliesToo) {
  Graph graph("main");
  const Value x = graph.input("x", {DType::f32, {512, 256}}), w = graph.input("w", {DType::f32, {256, 512}});
  graph.output(ops::matmul(x, w), "y");
  const CompiledGraph program = compile(graph, "cpu");
  const std::vector<Literal> arguments = random_arguments(graph, 1, 1);
  const std::vector<Literal> wanted = program.run(arguments);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const std::vector<double> a = program.run(arguments)[0].to_doubles(), b = wanted[0].to_doubles();
    bool same = a.size() == b.size();
    for (std::size_t i = 0; same && i < a.size(); ++i) same = std::fabs(a[i] - b[i]) < 1e-4;
    ::_exit(same ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace systole::cpu
