// What cuDNN does of a graph, on a GPU, against the reference backend: convolutions with work on their
// results, and whole layers. Every graph must be claimed as it says.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/dnn.h"
#include "backend/cuda/target.h"
#include "compile/program.h"
#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "systole/runtime.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using ir::Graph;
using ir::Value;
using runtime::Math;

class CudaDnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (all_devices().usable.empty()) GTEST_SKIP() << "no GPU: " << all_devices().left_out;
    if (!dnn_absence().empty()) GTEST_SKIP() << dnn_absence();
  }
  void TearDown() override { ::unsetenv("SYSTOLE_CUDA_PREFER"); }
};

// Numbers in (-1, 1) that differ from input to input.
Literal numbers(const Type& type, std::size_t phase) {
  std::vector<double> values(static_cast<std::size_t>(type.shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(0.7 * static_cast<double>(i) + static_cast<double>(phase));
  const Literal wide = Literal::of<double>(type.shape, values);
  Graph graph;
  graph.output(ops::convert(graph.input("x", wide.type()), type.dtype));
  return compile(graph, "reference").run({wide})[0];
}

// Which libraries run the graph's steps.
std::vector<std::string> libraries(const Graph& graph, Math math) {
  const Device& device = device_of(0);
  device.activate();
  const Target target(device, math);
  std::vector<std::string> found;
  const lower::Program program = lower::make_program(lower::prepared(graph, target), target);
  for (const lower::Step& step : program.steps)
    if (step.kind == lower::StepKind::library) found.push_back(step.implementation);
  for (const lower::Refusal& refusal : program.refusals)
    if (found.empty()) found.push_back(refusal.op + ": " + refusal.reason);
  return found;
}

struct Expected {
  std::string library;
  double tolerance = 1e-5;  // of the largest number of a result
  Math math = Math::f32;
};

void check(const Graph& graph, const Expected& expected) {
  const std::vector<std::string> found = libraries(graph, expected.math);
  EXPECT_NE(std::find(found.begin(), found.end(), expected.library), found.end())
      << expected.library << " is not among " << ::testing::PrintToString(found);
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    Literal made = numbers(graph.input_type(i), i);
    if (graph.input_name(i) == "variance") {  // a positive one
      Graph positive;
      const Value v = positive.input("v", made.type());
      positive.output(ops::add(ops::mul(v, v), ops::scalar_like(v, 0.5)));
      made = compile(positive, "reference").run({made})[0];
    }
    arguments.push_back(std::move(made));
  }
  const std::vector<Literal> wanted = systole::compile(graph, "reference").run(arguments);
  const CompiledGraph compiled = systole::compile(graph, "cuda:0", {.math = expected.math});
  for (int run = 0; run < 3; ++run) {  // step by step, captured, launched
    const std::vector<Literal> got = compiled.run(arguments);
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      const std::vector<double> a = wanted[k].to_doubles(), b = got[k].to_doubles();
      double largest = 0, off = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        largest = std::max(largest, std::abs(a[i]));
        const double distance = std::abs(a[i] - b[i]);
        off = std::isnan(distance) ? INFINITY : std::max(off, distance);
      }
      EXPECT_LE(off, expected.tolerance * largest) << "result " << k << " of run " << run;
    }
  }
}

constexpr double kBf16 = 1.0 / 64, kTf32 = 2e-3;

ir::ConvolutionAttrs same_size(Ints strides = {1, 1}) {
  ir::ConvolutionAttrs attrs;
  attrs.layout = "b01f_o01i->b01f";
  attrs.strides = std::move(strides);
  attrs.pad_low = attrs.pad_high = {1, 1};
  return attrs;
}

Graph convolution(DType dtype, bool has_bias, bool has_skip, bool has_relu, std::int64_t channels = 32) {
  Graph graph;
  const Value x = graph.input("x", {dtype, {4, 12, 12, channels}}),
              w = graph.input("w", {dtype, {64, 3, 3, channels}});
  Value y = ops::convolution(x, w, same_size());
  if (has_bias) y = ops::add(y, graph.input("bias", {dtype, {64}}));
  if (has_skip) y = ops::add(y, graph.input("skip", y.type()));
  if (has_relu) y = ops::relu(y);
  graph.output(y);
  return graph;
}

TEST_F(CudaDnn, ConvolutionsOfF32AreExact) {
  check(convolution(DType::f32, false, false, false), {"cudnn.convolution"});
}

TEST_F(CudaDnn, ConvolutionsTakeABiasAnArrayAndAReluAlong) {
  check(convolution(DType::bf16, true, false, false), {"cudnn.convolution_bias", kBf16});
  check(convolution(DType::bf16, true, false, true), {"cudnn.convolution_bias_relu", kBf16});
  check(convolution(DType::bf16, false, true, true), {"cudnn.convolution_add_relu", kBf16});
  check(convolution(DType::bf16, true, true, true), {"cudnn.convolution_bias_add_relu", kBf16});
  check(convolution(DType::f16, true, false, true), {"cudnn.convolution_bias_relu", kBf16 / 8});
  check(convolution(DType::f32, true, false, true), {"cudnn.convolution_bias_relu", kTf32, Math::tf32});
}

TEST_F(CudaDnn, GradientsOfConvolutionsAgree) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double tolerance = dtype == DType::f32 ? 1e-5 : kBf16;
    Graph by_image, by_kernel;
    by_image.output(ops::conv_input_grad(by_image.input("grad", {dtype, {4, 6, 6, 64}}),
                                         by_image.input("w", {dtype, {64, 3, 3, 32}}), {4, 12, 12, 32},
                                         same_size({2, 2})));
    check(by_image, {"cudnn.input_grad", tolerance});
    by_kernel.output(ops::conv_weight_grad(by_kernel.input("grad", {dtype, {4, 6, 6, 64}}),
                                           by_kernel.input("x", {dtype, {4, 12, 12, 32}}), {64, 3, 3, 32},
                                           same_size({2, 2})));
    check(by_kernel, {"cudnn.weight_grad", tolerance});
  }
}

TEST_F(CudaDnn, AnImageOfThreeChannelsKeepsItsNumbersWhateverItIsPaddedTo) {
  check(convolution(DType::bf16, false, false, false, 3), {"cudnn.convolution", kBf16});
  Graph graph;
  graph.output(ops::conv_weight_grad(graph.input("grad", {DType::bf16, {4, 6, 6, 64}}),
                                     graph.input("x", {DType::bf16, {4, 12, 12, 3}}), {64, 3, 3, 3},
                                     same_size({2, 2})));
  check(graph, {"cudnn.weight_grad", kBf16});
}

TEST_F(CudaDnn, PoolingAgrees) {
  ::setenv("SYSTOLE_CUDA_PREFER", "cudnn.pooling", 1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double tolerance = dtype == DType::f32 ? 1e-6 : kBf16;
    const Type x{dtype, {4, 13, 12, 24}};
    Graph largest, mean, mean_of_image;
    largest.output(ops::max_pool(largest.input("x", x), {3, 3}, {2, 2}, {1, 1}, {1, 1}));
    check(largest, {"cudnn.pooling", 0});
    mean.output(ops::avg_pool(mean.input("x", x), {3, 3}, {2, 2}, {1, 1}, {1, 1}, true));
    check(mean, {"cudnn.pooling", tolerance});
    mean_of_image.output(ops::avg_pool(mean_of_image.input("x", x), {3, 3}, {2, 2}, {1, 1}, {1, 1}, false));
    check(mean_of_image, {"cudnn.pooling", tolerance});
  }
  Graph sum, gradient;
  ir::WindowAttrs window;
  window.kind = ir::Combine::sum;
  window.window = {1, 3, 3, 1};
  window.strides = {1, 2, 2, 1};
  window.pad_low = window.pad_high = {0, 1, 1, 0};
  sum.output(ops::reduce_window(sum.input("x", {DType::f32, {4, 13, 11, 24}}), window));
  check(sum, {"cudnn.pooling", 1e-6});
  window.strides = {};
  window.base_dilation = {1, 2, 2, 1};
  gradient.output(ops::reduce_window(gradient.input("dy", {DType::f32, {4, 7, 6, 24}}), window));
  check(gradient, {"cudnn.pooling", 1e-6});
}

TEST_F(CudaDnn, BatchNormsAgree) {
  ::setenv("SYSTOLE_CUDA_PREFER", "cudnn.batch_norm", 1);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t axis : {3, 1}) {
      const double tolerance = dtype == DType::f32 ? 2e-5 : kBf16;
      const Type x{dtype, axis == 3 ? Shape{4, 6, 5, 24} : Shape{4, 24, 6, 5}}, parameter{DType::f32, {24}};
      Graph train, inference, grad;
      const auto trained = ops::batch_norm_train(train.input("x", x), train.input("scale", parameter),
                                                 train.input("bias", parameter), 1e-3, axis);
      for (const Value& v : {trained.y, trained.mean, trained.variance}) train.output(v);
      check(train, {"cudnn.batch_norm", tolerance});
      inference.output(ops::batch_norm_inference(
          inference.input("x", x), inference.input("scale", parameter), inference.input("bias", parameter),
          inference.input("mean", parameter), inference.input("variance", parameter), 1e-3, axis));
      check(inference, {"cudnn.batch_norm", tolerance});
      const auto grads =
          ops::batch_norm_grad(grad.input("grad", x), grad.input("x", x), grad.input("scale", parameter),
                               grad.input("mean", parameter), grad.input("variance", parameter), 1e-3, axis);
      for (const Value& v : {grads.x, grads.scale, grads.bias}) grad.output(v);
      check(grad, {"cudnn.batch_norm", tolerance});
    }
}

Graph recurrent(bool is_lstm, DType dtype, bool is_grad = false) {
  constexpr std::int64_t length = 9, batch = 5, inputs = 12, hidden = 16;
  const std::int64_t gates = is_lstm ? 4 : 3;
  Graph graph;
  const auto input = [&](const char* name, Shape shape) {
    return graph.input(name, {dtype, std::move(shape)});
  };
  ir::Values operands{input("x", {length, batch, inputs}), input("h", {batch, hidden})};
  if (is_lstm) operands.push_back(input("c", {batch, hidden}));
  operands.push_back(input("w", {gates * hidden, inputs}));
  operands.push_back(input("r", {gates * hidden, hidden}));
  operands.push_back(input("w_bias", {gates * hidden}));
  operands.push_back(input("r_bias", {gates * hidden}));
  const char* const name = is_lstm ? "lstm" : "gru";
  ir::Values results = ir::add_composite(name, operands);
  if (is_grad) {
    ir::Values given;
    for (const Value& v : results) given.push_back(graph.input("", v.type()));
    given.push_back(results[0]);
    given.insert(given.end(), operands.begin(), operands.end());
    results = ir::add_composite(std::string(name) + "_grad", given);
  }
  for (const Value& v : results) graph.output(v);
  return graph;
}

TEST_F(CudaDnn, RecurrentNetsAgreeSoGatesAndResetAreTheGraphs) {
  for (const bool is_lstm : {true, false}) {
    check(recurrent(is_lstm, DType::f32), {"cudnn.rnn", 1e-5});
    check(recurrent(is_lstm, DType::f32), {"cudnn.rnn", 2e-2, Math::tf32});
  }
  ::setenv("SYSTOLE_CUDA_PREFER", "cudnn.rnn", 1);
  for (const bool is_lstm : {true, false}) {
    check(recurrent(is_lstm, DType::f64), {"cudnn.rnn", 1e-12});
    check(recurrent(is_lstm, DType::f16), {"cudnn.rnn", 1e-2});
    check(recurrent(is_lstm, DType::bf16), {"cudnn.rnn", 8e-2});
  }
}

TEST_F(CudaDnn, GradientsOfRecurrentNetsAgree) {
  ::setenv("SYSTOLE_CUDA_PREFER", "cudnn.rnn_grad", 1);
  for (const bool is_lstm : {true, false}) {
    check(recurrent(is_lstm, DType::f32, true), {"cudnn.rnn_grad", 1e-5});
    check(recurrent(is_lstm, DType::f64, true), {"cudnn.rnn_grad", 1e-12});
  }
}

}  // namespace

}  // namespace systole::cuda
