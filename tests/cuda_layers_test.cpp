// Layers that cuDNN has whole, as the CUDA backend reads them from a graph, and who takes them. Nothing here
// needs a GPU; cuda_dnn_test runs them on one.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <variant>

#include "backend/cuda/dnn_layers.h"
#include "backend/cuda/preferences.h"
#include "backend/patterns/layers.h"
#include "error_check.h"
#include "systole/ir/composite.h"
#include "systole/ops.h"

namespace systole::cuda {

using namespace patterns;

namespace {

using ir::Graph;
using ir::Value;
using ir::Values;

// The graph's only node that is no input, with all its results leaving.
lower::Region region_of(Graph graph) {
  lower::Region region{std::move(graph), -1};
  for (std::int32_t i = 0; i < region.graph.size(); ++i)
    if (region.graph.node(i).op != ir::Op::input) region.anchor = i;
  for (std::size_t r = 0; r < region.graph.node(region.anchor).types.size(); ++r)
    region.graph.output(region.graph.value({region.anchor, static_cast<std::int32_t>(r)}));
  return region;
}

std::string refusal(Graph graph) {
  Layer layer;
  return read_layer(region_of(std::move(graph)), layer);
}

template <class T>
T read(Graph graph) {
  Layer layer;
  const lower::Region region = region_of(std::move(graph));
  EXPECT_TRUE(is_layer(region.graph.node(region.anchor)));
  EXPECT_EQ(read_layer(region, layer), "");
  return std::get<T>(layer.what);
}

TEST(CudaLayers, MaximaOverWindowsArePooling) {
  Graph graph;
  ops::max_pool(graph.input("x", {DType::bf16, {4, 9, 8, 5}}), {3, 2}, {2, 2}, {1, 0}, {1, 0});
  const auto pooling = read<PoolingLayer>(std::move(graph));
  EXPECT_EQ(pooling.kind, PoolingLayer::Kind::max);
  EXPECT_EQ(pooling.text(), "max pooling bf16 n4 c5 image9x8 window3x2 strides2x2 before1x0 result5x4");
}

TEST(CudaLayers, MeansCountPaddingOrDoNot) {
  for (const bool counts : {false, true}) {
    Graph graph;
    ops::avg_pool(graph.input("x", {DType::f32, {4, 9, 5}}), {3}, {3}, {}, {}, counts);
    EXPECT_EQ(read<PoolingLayer>(std::move(graph)).kind,
              counts ? PoolingLayer::Kind::mean : PoolingLayer::Kind::mean_of_image);
  }
}

ir::WindowAttrs sums(Ints window) {
  ir::WindowAttrs attrs;
  attrs.kind = ir::Combine::sum;
  attrs.window = std::move(window);
  return attrs;
}

TEST(CudaLayers, ASumOfAnImageWithHolesIsTheGradientOfASum) {
  // Windows of 3 in steps of 2 over 9 with one zero before and behind: 5 sums. The gradient by the image is
  // the sum over windows of 3 of the five with a hole between two, with 3 - 1 - 1 zeros before.
  Graph graph;
  ir::WindowAttrs attrs = sums({1, 3, 1});
  attrs.base_dilation = {1, 2, 1};
  attrs.pad_low = attrs.pad_high = {0, 1, 0};
  ops::reduce_window(graph.input("dy", {DType::f32, {2, 5, 4}}), attrs);
  const auto pooling = read<PoolingLayer>(std::move(graph));
  EXPECT_EQ(pooling.text(), "sum_grad pooling f32 n2 c4 image9 window3 strides2 before1 result5");
}

TEST(CudaLayers, WindowsThatNoLibraryHasAreDeclined) {
  const auto window = [](ir::WindowAttrs attrs) {
    Graph graph;
    ops::reduce_window(graph.input("x", {DType::f32, {2, 6, 6, 4}}), attrs);
    return refusal(std::move(graph));
  };
  ir::WindowAttrs attrs = sums({1, 3, 3, 1});
  attrs.kind = ir::Combine::prod;
  EXPECT_EQ(window(attrs), "windows of neither maxima nor sums");
  EXPECT_EQ(window(sums({1, 3, 3, 2})), "windows over more than the spatial axes");
  attrs = sums({1, 3, 3, 1});
  attrs.window_dilation = {1, 2, 1, 1};
  EXPECT_EQ(window(attrs), "windows with holes");
  attrs = sums({1, 2, 2, 1});
  attrs.pad_low = attrs.pad_high = {0, 2, 0, 0};
  EXPECT_EQ(window(attrs), "a window may lie in the padding alone");
  attrs = sums({1, 2, 2, 1});
  attrs.pad_high = {0, 1, 0, 0};
  EXPECT_EQ(window(attrs), "padding behind the image that differs from that before it");
}

TEST(CudaLayers, BatchNormsAreReadWithTheirAxis) {
  Graph graph;
  const Type parameter{DType::f32, {6}};
  ops::batch_norm_train(graph.input("x", {DType::bf16, {4, 3, 5, 6}}), graph.input("scale", parameter),
                        graph.input("bias", parameter), 1e-3);
  const auto norm = read<NormLayer>(std::move(graph));
  EXPECT_EQ(norm.kind, NormLayer::Kind::train);
  EXPECT_EQ(norm.axis, 3);
  EXPECT_EQ(norm.channels(), 6);
  EXPECT_EQ(norm.count(), 60);
  EXPECT_EQ(norm.eps, 1e-3);
}

TEST(CudaLayers, ABatchNormWithNarrowParametersIsDeclined) {
  Graph graph;
  const Type parameter{DType::bf16, {6}};
  ops::batch_norm_train(graph.input("x", {DType::bf16, {4, 6}}), graph.input("scale", parameter),
                        graph.input("bias", parameter));
  EXPECT_EQ(refusal(std::move(graph)), "parameters of bf16, not f32");
}

TEST(CudaLayers, ABatchOfOneHasNoDeviation) {
  Graph graph;
  const Type parameter{DType::f32, {6}};
  ops::batch_norm_train(graph.input("x", {DType::f32, {1, 6}}), graph.input("scale", parameter),
                        graph.input("bias", parameter));
  EXPECT_EQ(refusal(std::move(graph)), "one value has no deviation");
}

Graph lstm(DType dtype) {
  Graph graph;
  const auto input = [&](const char* name, Shape shape) {
    return graph.input(name, {dtype, std::move(shape)});
  };
  const Value state = input("state", {3, 8});
  ops::lstm(input("x", {5, 3, 7}), state, state, input("w", {32, 7}), input("r", {32, 8}),
            input("w_bias", {32}), input("r_bias", {32}));
  return graph;
}

TEST(CudaLayers, ARecurrentNetIsReadWithItsOperandsByPlace) {
  const lower::Region region = region_of(lstm(DType::f32));
  Layer layer;
  ASSERT_EQ(read_layer(region, layer), "");
  EXPECT_EQ(layer.text(), "lstm f32 length5 batch3 inputs7 hidden8");
  EXPECT_EQ(layer.name(), "rnn");
  ASSERT_EQ(layer.inputs.size(), 7u);
  EXPECT_EQ(layer.inputs[1], layer.inputs[2]);  // one array is both states
  EXPECT_EQ(layer.results.size(), 3u);
}

TEST(CudaLayers, TheGradientOfARecurrentNetIsReadBehindThoseOfItsResults) {
  Graph graph;
  const auto input = [&](const char* name, Shape shape) {
    return graph.input(name, {DType::f32, std::move(shape)});
  };
  const Value dy = input("dy", {5, 3, 8}), dh = input("dh", {3, 8}), y = input("y", {5, 3, 8});
  const Value x = input("x", {5, 3, 7}), h = input("h", {3, 8}), w = input("w", {24, 7});
  const Value r = input("r", {24, 8}), bias = input("bias", {24});
  ir::add_composite("gru_grad", {dy, dh, y, x, h, w, r, bias, bias});
  EXPECT_EQ(read<RecurrentLayer>(std::move(graph)).text(), "gru_grad f32 length5 batch3 inputs7 hidden8");
}

TEST(CudaLayers, WorkOnTheResultIsDeclined) {
  lower::Region region;
  const Value x = region.graph.input("x", {DType::f32, {4, 9, 8, 5}});
  const Value y = ops::max_pool(x, {2, 2}, {}, {}, {});
  region.anchor = y.id().node;
  region.graph.output(ops::neg(y));
  Layer layer;
  EXPECT_EQ(read_layer(region, layer), "no work on the result");
}

class CudaPreference : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("SYSTOLE_CUDA_PREFER"); }
  static std::string refusal_of(const char* preference, Graph graph) {
    if (preference == nullptr)
      ::unsetenv("SYSTOLE_CUDA_PREFER");
    else
      ::setenv("SYSTOLE_CUDA_PREFER", preference, 1);
    Layer layer;
    EXPECT_EQ(read_layer(region_of(std::move(graph)), layer), "");
    return layer_refusal(layer);
  }
  static Graph pool() {
    Graph graph;
    ops::max_pool(graph.input("x", {DType::f32, {4, 9, 8, 5}}), {2, 2}, {}, {}, {});
    return graph;
  }
};

TEST_F(CudaPreference, GeneratedKernelsPoolUnlessTheVariableAsksForTheLibrary) {
  EXPECT_EQ(refusal_of(nullptr, pool()),
            "cudnn.pooling: generated kernels fuse with their neighbours; SYSTOLE_CUDA_PREFER=cudnn.pooling "
            "takes it");
  EXPECT_EQ(refusal_of("cudnn.batch_norm,cudnn.pooling", pool()), "");
}

TEST_F(CudaPreference, TheLibraryRunsRecurrentNetsUnlessTheVariableIsAgainstIt) {
  EXPECT_EQ(refusal_of(nullptr, lstm(DType::f32)), "");
  EXPECT_EQ(refusal_of("-cudnn.rnn", lstm(DType::f32)), "cudnn.rnn: SYSTOLE_CUDA_PREFER is against it");
}

TEST_F(CudaPreference, NarrowStatesAreTakenWhenAskedForOnly) {
  EXPECT_EQ(refusal_of(nullptr, lstm(DType::bf16)),
            "cudnn.rnn: its state is bf16 between steps; SYSTOLE_CUDA_PREFER=cudnn.rnn takes it");
  EXPECT_EQ(refusal_of("cudnn.rnn", lstm(DType::bf16)), "");
}

TEST_F(CudaPreference, AnUnknownNameIsAnErrorThatListsTheKnown) {
  const std::string error =
      error_of(ErrorKind::kInvalidArgument, [] { refusal_of("cudnn.softmax", pool()); });
  for (const char* part : {"SYSTOLE_CUDA_PREFER", "cudnn.softmax",
                           "cudnn.pooling, cudnn.few_channels, cudnn.batch_norm, cudnn.rnn, cudnn.rnn_grad, "
                           "systole.lstm, cublasLt or early_launch, - before"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(CudaLayers, AreToldFromOtherCallsByTheNamesThatCanBePreferred) {
  for (const char* layer : {"cudnn.pooling", "cudnn.batch_norm", "cudnn.rnn", "cudnn.rnn_grad"})
    EXPECT_TRUE(is_dnn_layer(layer) && can_be_preferred(layer)) << layer;
  EXPECT_TRUE(can_be_preferred("cublasLt"));
  for (const char* other : {"cublasLt", "cublasLt.matmul", "cudnn.convolution", "cudnn.rnn_", "rnn", ""})
    EXPECT_FALSE(is_dnn_layer(other)) << other;
}

}  // namespace

}  // namespace systole::cuda
