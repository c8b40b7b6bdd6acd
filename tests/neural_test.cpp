// Checksums (waves.h) by JAX in f64 for convolutions, activations and norms, by NumPy loops for the rest.

#include "systole/tensor/neural.h"

#include <gtest/gtest.h>

#include <vector>

#include "error_check.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "waves.h"

namespace systole {
namespace {

void expect(const Tensor& y, Shape shape, double sum) {
  EXPECT_EQ(y.shape(), shape);
  EXPECT_NEAR(checksum(y), sum, 1e-12 * (std::abs(sum) + 1));
}

const Tensor kImage = wave({2, 7, 6, 4}, 0.1), kKernel = wave({6, 4, 3, 2}, 0.5);

TEST(Convolution, TakesImagesChannelsLastAndPyTorchsWeights) {
  expect(conv2d(kImage, kKernel, wave({6}, 0.9)), {2, 5, 5, 6}, 7.38131909228581);
}

TEST(Convolution, StridesAndPads) {
  expect(conv2d(kImage, kKernel, {}, {.stride = {2, 1}, .padding = {1, 2}}), {2, 4, 9, 6}, -19.9328667199032);
  expect(conv2d(kImage, kKernel, {}, {.padding = "valid"}), {2, 5, 5, 6},
         checksum(conv2d(kImage, kKernel, {})));
}

TEST(Convolution, PadsToTheSameSize) {
  expect(conv2d(kImage, kKernel, {}, {.padding = "same"}), {2, 7, 6, 6}, 2.15427313635838);
  expect(conv2d(kImage, kKernel, {}, {.stride = {2, 3}, .padding = "same"}), {2, 4, 2, 6},
         -0.874672310894567);
}

TEST(Convolution, Dilates) {
  expect(conv2d(kImage, kKernel, {}, {.dilation = {2, 3}}), {2, 3, 3, 6}, -5.35224151616518);
}

TEST(Convolution, WorksInGroupsAndByChannel) {
  expect(conv2d(kImage, wave({6, 2, 3, 2}, 0.5), {}, {.padding = 1, .groups = 2}), {2, 7, 7, 6},
         -0.198555745870518);
  expect(depthwise_conv2d(kImage, wave({8, 1, 3, 3}, 0.5), wave({8}, 0.9)), {2, 5, 4, 8}, 57.167798884751);
}

TEST(Convolution, RunsOverSequences) {
  expect(conv1d(wave({2, 9, 3}, 0.2), wave({5, 3, 4}, 0.4), wave({5}, 0.9), {.stride = 2, .padding = 1}),
         {2, 4, 5}, 1.21211894623559);
}

TEST(Convolution, TransposedScattersEveryPixel) {
  const Tensor x = wave({2, 4, 3, 4}, 0.3);
  expect(conv_transpose2d(x, wave({4, 5, 3, 2}, 0.6), wave({5}, 0.9)), {2, 6, 4, 5}, 1.91695383538625);
  expect(
      conv_transpose2d(
          x, wave({4, 3, 3, 2}, 0.6), {},
          {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 2}, .dilation = {1, 2}, .groups = 2}),
      {2, 8, 11, 6}, 0.728691958072271);
  expect(conv_transpose1d(wave({2, 5, 3}, 0.3), wave({3, 2, 4}, 0.6), {},
                          {.stride = 2, .padding = 1, .output_padding = 1}),
         {2, 11, 2}, 2.2529668919112);
}

TEST(Convolution, SaysWhatDoesNotFit) {
  const std::string channels =
      error_of(ErrorKind::kShape, [] { conv2d(wave({1, 5, 5, 3}, 0), wave({6, 4, 3, 3}, 0)); });
  EXPECT_NE(channels.find("conv2d"), std::string::npos) << channels;
  EXPECT_NE(channels.find("f64[1,5,5,3]"), std::string::npos) << channels;
  EXPECT_NE(channels.find("4 channels"), std::string::npos) << channels;
  error_of(ErrorKind::kShape, [] { conv2d(wave({5, 5, 3}, 0), wave({6, 3, 3, 3}, 0)); });
  error_of(ErrorKind::kShape, [] { conv2d(kImage, kKernel, wave({5}, 0)); });
  error_of(ErrorKind::kInvalidArgument, [] { conv2d(kImage, kKernel, {}, {.stride = 0}); });
  error_of(ErrorKind::kInvalidArgument, [] { conv2d(kImage, kKernel, {}, {.stride = {1, 2, 3}}); });
  error_of(ErrorKind::kInvalidArgument, [] { conv2d(kImage, kKernel, {}, {.padding = "full"}); });
  error_of(ErrorKind::kInvalidArgument, [] { conv2d(kImage, kKernel, {}, {.groups = 0}); });
  error_of(ErrorKind::kInvalidArgument,
           [] { conv_transpose2d(wave({2, 4, 3, 4}, 0), wave({4, 5, 3, 2}, 0), {}, {.output_padding = 1}); });
}

TEST(Pooling, MaximumAndMean) {
  expect(max_pool2d(kImage, 2), {2, 3, 3, 4}, 1.92211217258539);
  expect(max_pool2d(kImage, 3, {.stride = 2, .padding = 1}), {2, 4, 3, 4}, -0.791279757125124);
  expect(avg_pool2d(kImage, {3, 2}, {.stride = {2, 1}, .padding = 1}), {2, 4, 7, 4}, 0.584955516006342);
  expect(avg_pool2d(kImage, {3, 2}, {.stride = {2, 1}, .padding = 1, .count_padding = false}), {2, 4, 7, 4},
         1.66784216763181);
  expect(max_pool1d(wave({2, 9, 3}, 0.2), 3), {2, 3, 3}, -2.00960914646381);
  expect(avg_pool1d(wave({2, 9, 3}, 0.2), 2, {.stride = 1}), {2, 8, 3}, 1.54251688844436);
}

TEST(Pooling, ToAWantedSize) {
  expect(adaptive_avg_pool2d(kImage, {3, 4}), {2, 3, 4, 4}, 0.0438263375583419);
  expect(global_avg_pool(kImage), {2, 4}, 0.0342771021320587);
  expect(adaptive_avg_pool1d(wave({2, 9, 3}, 0.2), 9), {2, 9, 3}, checksum(wave({2, 9, 3}, 0.2)));
}

TEST(Activations, HaveTheValuesOfJax) {
  const Tensor x = wave({40}, 0.2, 4);
  const std::vector<std::pair<Tensor, double>> cases = {
      {relu(x), 5.71618383036544},         {relu6(x * 2), 10.5782790185427},
      {leaky_relu(x), 5.79150317726662},   {elu(x, 1.5), 9.37539163158766},
      {selu(x), 10.2948338767053},         {sigmoid(x), 1.10091365533172},
      {log_sigmoid(x), 8.44225817525374},  {softplus(x), 4.80586034522916},
      {gelu(x), 6.15076140468132},         {gelu(x, GeluForm::tanh), 6.15111033908542},
      {silu(x), 6.04460288928518},         {mish(x), 6.44540284825267},
      {hardsigmoid(x), 0.931070760907081}, {hardswish(x), 6.06235415545847}};
  for (const auto& [y, sum] : cases) expect(y, {40}, sum);
}

// The slopes at -1000, 0 and 1000, by hand.
TEST(Activations, HaveFiniteSlopesEverywhere) {
  const Tensor x = tensor({-1000.0, 0.0, 1000.0});
  const auto slopes = [&](const std::function<Tensor(const Tensor&)>& f) {
    return grad([&](const Tensor& v) { return sum(f(v)); })(x).to_vector<float>();
  };
  using Slopes = std::vector<float>;
  EXPECT_EQ(slopes([](const Tensor& v) { return relu(v); }), (Slopes{0, 0, 1}));
  EXPECT_EQ(slopes([](const Tensor& v) { return relu6(v); }), (Slopes{0, 0, 0}));
  EXPECT_EQ(slopes([](const Tensor& v) { return leaky_relu(v, 0.5); }), (Slopes{0.5, 0.5, 1}));
  EXPECT_EQ(slopes([](const Tensor& v) { return elu(v, 2); }), (Slopes{0, 2, 1}));
  EXPECT_EQ(slopes([](const Tensor& v) { return softplus(v); }), (Slopes{0, 0.5, 1}));
  EXPECT_EQ(slopes([](const Tensor& v) { return silu(v); }), (Slopes{0, 0.5, 1}));
  EXPECT_EQ(slopes([](const Tensor& v) { return hardswish(v); }), (Slopes{0, 0.5, 1}));
  EXPECT_EQ(slopes([](const Tensor& v) { return gelu(v); }), (Slopes{0, 0.5, 1}));
}

TEST(Activations, KeepNaNAndTheDType) {
  const Tensor nan = tensor({std::numeric_limits<float>::quiet_NaN()});
  for (const Tensor& y : {relu(nan), relu6(nan), elu(nan), softplus(nan), hardswish(nan), gelu(nan)})
    EXPECT_TRUE(std::isnan(y.item<float>()));
  EXPECT_EQ(silu(nan.to(DType::bf16)).dtype(), DType::bf16);
  EXPECT_EQ(sigmoid(tensor({1, 2})).dtype(), DType::f32);
  EXPECT_EQ(relu(tensor({-1, 2})).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 2}));
}

const Tensor kRows = wave({3, 4, 5}, 0.3, 3);

TEST(Distributions, AlongAnyAxis) {
  expect(softmax(kRows, 1), {3, 4, 5}, -0.286207454608129);
  expect(log_softmax(kRows), {3, 4, 5}, 12.2490310167142);
  error_of(ErrorKind::kInvalidArgument, [] { softmax(kRows, 3); });
}

TEST(Normalisation, OfLayers) {
  expect(layer_norm(kRows, wave({5}, 0.4), wave({5}, 0.8)), {3, 4, 5}, 0.147220729107032);
  expect(layer_norm(kRows, wave({4, 5}, 0.4), wave({4, 5}, 0.8)), {3, 4, 5}, 7.60333395326947);
  expect(rms_norm(kRows, wave({5}, 0.4)), {3, 4, 5}, 2.02318579026205);
  const std::string message =
      error_of(ErrorKind::kShape, [] { layer_norm(kRows, wave({4}, 0.4), wave({4}, 0.8)); });
  EXPECT_NE(message.find("f64[3,4,5]"), std::string::npos) << message;
}

TEST(Normalisation, OfGroupsAndBatches) {
  const Tensor x = wave({2, 3, 3, 6}, 0.2), weight = wave({6}, 0.4), bias = wave({6}, 0.8);
  expect(group_norm(x, 3, weight, bias), {2, 3, 3, 6}, -2.08497664365977);
  const BatchStatistics batch = batch_norm_train(x, weight, bias);
  expect(batch.y, {2, 3, 3, 6}, -2.07863665891216);
  expect(batch.mean, {6}, -0.0136608250716229);
  expect(batch.variance, {6}, 2.0687650008182);
  expect(batch_norm(x, weight, bias, wave({6}, 1.4), abs(wave({6}, 1.8))), {2, 3, 3, 6}, -3.84519697350752);
  error_of(ErrorKind::kShape, [&] { batch_norm_train(x, wave({5}, 0), bias); });
  error_of(ErrorKind::kInvalidArgument, [&] { group_norm(x, 4, weight, bias); });
}

TEST(Neural, VarianceOfABatchFarFromZero) {  // of 10^4, and of 10^4 + 1: 1/4, lost in f32 by mean squares
  std::vector<float> values;
  for (int i = 0; i < 256; ++i) values.push_back(10000.0F + static_cast<float>(i % 2));
  const Tensor x = Tensor(Literal::of<float>(Shape{256, 1}, values));
  const Tensor one = ones({1});
  const BatchStatistics batch = batch_norm_train(x, one, zeros({1}));
  EXPECT_NEAR(batch.mean.item<double>(), 10000.5, 1e-3);
  EXPECT_NEAR(batch.variance.item<double>(), 0.25, 1e-4);
}

TEST(Attention, WithEveryKindOfMask) {
  const Tensor q = wave({2, 3, 4, 5}, 0.1), k = wave({2, 3, 6, 5}, 0.2), v = wave({2, 3, 6, 7}, 0.3);
  const Shape shape{2, 3, 4, 7};
  expect(attention(q, k, v), shape, -0.550057884477082);
  expect(attention(q, k, v, {.causal = true}), shape, -1.57320851668514);
  expect(attention(q, k, v, {.scale = 0.25}), shape, -0.239458662163312);
  const Tensor seen = arange(24).reshape({4, 6}) * 7 % 5 != 0;
  expect(attention(q, k, v, {.mask = seen}), shape, -1.32708301288601);
  expect(attention(q, k, v, {.causal = true, .mask = seen}), shape, -3.48262553530183);
  expect(attention(q, k, v, {.mask = wave({3, 1, 6}, 0.7)}), shape, -4.78562635052097);
  error_of(ErrorKind::kShape, [&] { attention(q, k, wave({2, 3, 6}, 0)); });
}

TEST(Embedding, PicksRows) {
  const Tensor table = tensor({{1, 2}, {3, 4}, {5, 6}});
  EXPECT_EQ(embedding(table, tensor({2, 0})).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{5, 6, 1, 2}));
  error_of(ErrorKind::kDType, [&] { embedding(table, tensor({0.0})); });
}

TEST(Recurrent, LstmAndGruFollowPyTorchsGates) {
  const Tensor x = wave({5, 2, 3}, 0.1), h = wave({2, 4}, 0.2), c = wave({2, 4}, 0.3);
  const LstmOutput l =
      lstm(x, h, c, wave({16, 3}, 0.4), wave({16, 4}, 0.5), wave({16}, 0.6), wave({16}, 0.7));
  expect(l.y, {5, 2, 4}, 0.0909365778961114);
  expect(l.h, {2, 4}, -0.187102890106121);
  expect(l.c, {2, 4}, -0.000583618222919635);
  const GruOutput g = gru(x, h, wave({12, 3}, 0.4), wave({12, 4}, 0.5), wave({12}, 0.6), wave({12}, 0.7));
  expect(g.y, {5, 2, 4}, -1.07232238374149);
  expect(g.h, {2, 4}, 0.752839570872442);
}

TEST(Linear, MultipliesByTheTransposedWeight) {
  expect(linear(wave({2, 3, 4}, 0.1), wave({5, 4}, 0.2), wave({5}, 0.3)), {2, 3, 5}, 3.12276534105854);
  const std::string message = error_of(ErrorKind::kShape, [] { linear(wave({2, 3}, 0), wave({5, 4}, 0)); });
  EXPECT_NE(message.find("f64[2,3]"), std::string::npos) << message;
}

TEST(Dropout, KeepsTheMeanAndDependsOnTheKeyOnly) {
  const Tensor x = ones({10000});
  const std::vector<float> y = dropout(x, 0.25, random::key(3)).to_vector<float>();
  std::size_t zeros = 0;
  for (const float value : y) {
    zeros += value == 0;
    if (value != 0) {
      EXPECT_FLOAT_EQ(value, 4.0f / 3);
    }
  }
  EXPECT_NEAR(static_cast<double>(zeros), 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));
  EXPECT_EQ(dropout(x, 0.25, random::key(3)).to_vector<float>(), y);
  EXPECT_NE(dropout(x, 0.25, random::key(4)).to_vector<float>(), y);
  EXPECT_EQ(dropout(x, 0, random::key(3)).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(dropout(x, 1, random::key(3)).to_vector<float>(), zeros_like(x).to_vector<float>());
  error_of(ErrorKind::kInvalidArgument, [&] { dropout(x, 1.5, random::key(3)); });
}

}  // namespace
}  // namespace systole
