// Layers against PyTorch: outputs, gradients and parameter names. tests/parity/make_layers.py makes PyTorch's
// numbers.

#include "systole/nn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/tensor.h"

#if __has_include(<nlohmann/json.hpp>)

#include "parity_digest.h"

namespace systole {
namespace {

using Tensors = std::vector<Tensor>;

class LayerParity : public ParityDevice {
 protected:
  template <class M, class F>
  void expect_layer(const std::string& name, M layer, const std::vector<Shape>& inputs, const F& run) {
    if (dtype() != DType::f32) nn::cast(layer, dtype());
    expect_parity("layers.json", name, inputs, parameters(layer),
                  [&](const Tensors& x) { return Tensors(run(layer, x)); });
  }
  template <class M>
  void expect_layer(const std::string& name, M layer, Shape input) {
    expect_layer(name, std::move(layer), {std::move(input)},
                 [](const M& m, const Tensors& x) { return Tensors{m(x[0])}; });
  }
};
INSTANTIATE_TEST_SUITE_P(On, LayerParity, parity_devices(), device_suffix);

const Shape kImage{2, 6, 7, 4}, kLine{2, 9, 4};

TEST_P(LayerParity, Convolutions) {
  expect_layer("conv1d", nn::Conv1d(4, 6, {.stride = 2, .padding = 1, .groups = 2}), kLine);
  expect_layer("conv1d_dilated", nn::Conv1d(4, 3, {.dilation = 2, .bias = false}), kLine);
  expect_layer(
      "conv2d",
      nn::Conv2d(4, 6,
                 {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2}),
      kImage);
  expect_layer("depthwise_conv2d", nn::DepthwiseConv2d(4, {.stride = 2, .padding = 1, .multiplier = 2}),
               kImage);
}

TEST_P(LayerParity, TransposedConvolutions) {
  expect_layer("conv_transpose2d",
               nn::ConvTranspose2d(4, 6, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}),
               kImage);
  expect_layer(
      "conv_transpose2d_dilated",
      nn::ConvTranspose2d(
          4, 2, {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 0}, .dilation = {2, 1}, .bias = false}),
      kImage);
  expect_layer("conv_transpose1d",
               nn::ConvTranspose1d(4, 3, {.kernel = 4, .stride = 3, .padding = 1, .output_padding = 2}),
               kLine);
}

TEST_P(LayerParity, Pooling) {
  expect_layer("max_pool1d", nn::MaxPool1d{3, {.stride = 2, .padding = 1}}, kLine);
  expect_layer("avg_pool1d", nn::AvgPool1d{3, {.stride = 2, .padding = 1}}, kLine);
  expect_layer("max_pool2d", nn::MaxPool2d{{3, 2}, {.stride = {2, 1}, .padding = {1, 0}}}, kImage);
  expect_layer("avg_pool2d", nn::AvgPool2d{{3, 2}, {.stride = {2, 1}, .padding = {1, 0}}}, kImage);
  expect_layer("avg_pool2d_of_elements",
               nn::AvgPool2d{3, {.stride = 2, .padding = 1, .count_padding = false}}, kImage);
  expect_layer("global_avg_pool", nn::GlobalAvgPool{}, kImage);
  expect_layer("adaptive_avg_pool1d", nn::AdaptiveAvgPool1d{4}, kLine);
  expect_layer("adaptive_max_pool1d", nn::AdaptiveMaxPool1d{4}, kLine);
  expect_layer("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d{{3, 2}}, kImage);
  expect_layer("adaptive_max_pool2d", nn::AdaptiveMaxPool2d{{4, 3}}, kImage);
  expect_layer("global_max_pool", nn::GlobalMaxPool{}, kImage);
}

TEST_P(LayerParity, Norms) {
  expect_layer("group_norm", nn::GroupNorm(2, 4), kImage);
  expect_layer("group_norm_plain", nn::GroupNorm(4, 4, {.eps = 1e-3, .affine = false}), kLine);
  expect_layer("rms_norm", nn::RMSNorm(4), kLine);
  expect_layer("rms_norm_eps", nn::RMSNorm(4, {.eps = 0.1}), kLine);
  expect_layer("layer_norm_without_bias", nn::LayerNorm(4, {.bias = false}), kLine);
}

TEST_P(LayerParity, Activations) {
  expect_layer("prelu", nn::PReLU(4), kLine);
  for (const char* name :
       {"elu",         "gelu",        "gelu_tanh", "hardsigmoid", "hardswish", "hardtanh",   "leaky_relu",
        "log_sigmoid", "log_softmax", "mish",      "relu",        "relu6",     "selu",       "sigmoid",
        "silu",        "softmax",     "softplus",  "softsign",    "tanh",      "exponential"})
    expect_layer(
        std::string("activation_") + name, nn::Identity{}, {{3, 5}},
        [&](const nn::Identity&, const Tensors& x) { return Tensors{nn::activation(name)(4 * x[0])}; });
}

TEST_P(LayerParity, Rnn) {
  expect_layer("rnn_tanh", nn::RNN(3, 4, {.layers = 2, .bidirectional = true}), {{5, 2, 3}},
               [](const nn::RNN& m, const Tensors& x) {
                 const auto [y, h] = m(x[0]);
                 return Tensors{y, h};
               });
  expect_layer(
      "rnn_relu",
      nn::RNN(3, 4, {.layers = 2, .batch_first = true, .bias = false, .nonlinearity = RnnForm::relu}),
      {{2, 5, 3}, {2, 2, 4}}, [](const nn::RNN& m, const Tensors& x) {
        const auto [y, h] = m(x[0], x[1]);
        return Tensors{y, h};
      });
}

TEST_P(LayerParity, Gru) {
  expect_layer("gru", nn::GRU(3, 4, {.layers = 2, .bidirectional = true}), {{5, 2, 3}},
               [](const nn::GRU& m, const Tensors& x) {
                 const auto [y, h] = m(x[0]);
                 return Tensors{y, h};
               });
  expect_layer("gru_without_bias", nn::GRU(3, 4, {.layers = 2, .batch_first = true, .bias = false}),
               {{2, 5, 3}, {2, 2, 4}}, [](const nn::GRU& m, const Tensors& x) {
                 const auto [y, h] = m(x[0], x[1]);
                 return Tensors{y, h};
               });
}

TEST_P(LayerParity, Lstm) {
  expect_layer("lstm", nn::LSTM(3, 4, {.layers = 2, .bidirectional = true}), {{5, 2, 3}},
               [](const nn::LSTM& m, const Tensors& x) {
                 const auto [y, state] = m(x[0]);
                 return Tensors{y, state.h, state.c};
               });
  expect_layer("lstm_without_bias",
               nn::LSTM(3, 4, {.layers = 2, .batch_first = true, .bidirectional = true, .bias = false}),
               {{2, 5, 3}, {4, 2, 4}, {4, 2, 4}}, [](const nn::LSTM& m, const Tensors& x) {
                 const auto [y, state] = m(x[0], {x[1], x[2]});
                 return Tensors{y, state.h, state.c};
               });
}

const Shape kSrc{2, 4, 8}, kTgt{2, 3, 8};

// As in make_layers.py.
struct Masks {
  Tensor padding = tensor({{false, false, false, true}, {false, false, false, false}});
  Tensor tgt_padding = tensor({{false, false, false}, {false, false, true}});
  Tensor hidden =
      tensor({{false, true, false, false}, {false, false, true, false}, {true, false, false, false}});
};

TEST_P(LayerParity, Attention) {
  const Masks masks;
  using Attention = nn::MultiHeadAttention;
  expect_layer("attention_padding", Attention(8, 2), {kSrc}, [&](const Attention& m, const Tensors& x) {
    return Tensors{m(x[0], {.key_padding_mask = masks.padding})};
  });
  expect_layer(
      "attention_cross", Attention(8, 2, {.bias = false}), {kTgt, kSrc, kSrc},
      [&](const Attention& m, const Tensors& x) {
        return Tensors{m(x[0], x[1], x[2], {.attn_mask = masks.hidden, .key_padding_mask = masks.padding})};
      });
  expect_layer("attention_added", Attention(8, 2), {kTgt, kSrc, kSrc},
               [&](const Attention& m, const Tensors& x) {
                 return Tensors{m(x[0], x[1], x[2], {.attn_mask = number(wave({3, 4}, 0.7))})};
               });
}

TEST_P(LayerParity, TransformerEncoders) {
  const Masks masks;
  expect_layer("encoder_layer", nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 12, .dropout = 0}),
               kSrc);
  expect_layer(
      "encoder_layer_norm_first",
      nn::TransformerEncoderLayer(
          8, 2,
          {.dim_feedforward = 12, .dropout = 0, .activation = "gelu", .norm_first = true, .bias = false}),
      {kSrc}, [&](const nn::TransformerEncoderLayer& m, const Tensors& x) {
        return Tensors{m(x[0], {.key_padding_mask = masks.padding})};
      });
  expect_layer(
      "encoder",
      nn::TransformerEncoder(
          8, 2,
          {.layers = 2, .layer = {.dim_feedforward = 12, .dropout = 0, .norm_first = true}, .norm = true}),
      {kSrc}, [&](const nn::TransformerEncoder& m, const Tensors& x) {
        return Tensors{m(x[0], {.key_padding_mask = masks.padding, .is_causal = true})};
      });
}

TEST_P(LayerParity, TransformerDecoders) {
  const Masks masks;
  expect_layer("decoder_layer", nn::TransformerDecoderLayer(8, 2, {.dim_feedforward = 12, .dropout = 0}),
               {kTgt, kSrc}, [&](const nn::TransformerDecoderLayer& m, const Tensors& x) {
                 return Tensors{m(x[0], x[1],
                                  {.tgt = {.key_padding_mask = masks.tgt_padding, .is_causal = true},
                                   .memory = {.key_padding_mask = masks.padding}})};
               });
  expect_layer("decoder_layer_norm_first",
               nn::TransformerDecoderLayer(
                   8, 2, {.dim_feedforward = 12, .dropout = 0, .activation = "gelu", .norm_first = true}),
               {kTgt, kSrc}, [&](const nn::TransformerDecoderLayer& m, const Tensors& x) {
                 return Tensors{m(x[0], x[1], {.memory = {.attn_mask = masks.hidden}})};
               });
  expect_layer("decoder",
               nn::TransformerDecoder(8, 2, {.layers = 2, .layer = {.dim_feedforward = 12, .dropout = 0}}),
               {kTgt, kSrc},
               [&](const nn::TransformerDecoder& m, const Tensors& x) { return Tensors{m(x[0], x[1])}; });
  expect_layer(
      "transformer",
      nn::Transformer(
          8, 2, {.encoder_layers = 2, .decoder_layers = 1, .layer = {.dim_feedforward = 12, .dropout = 0}}),
      {kSrc, kTgt}, [&](const nn::Transformer& m, const Tensors& x) {
        return Tensors{m(x[0], x[1],
                         {.src = {.key_padding_mask = masks.padding},
                          .tgt = {.attn_mask = nn::square_subsequent_mask(3)},
                          .memory = {.key_padding_mask = masks.padding}})};
      });
}

TEST_P(LayerParity, Positions) {
  expect_layer("sinusoidal_positions", nn::SinusoidalPositions(8), {2, 5, 8});
  expect_layer("sinusoidal_positions_odd", nn::SinusoidalPositions(7), {2, 5, 7});
  expect_layer("learned_positions", nn::LearnedPositions(9, 8), {2, 5, 8});
  expect_layer("rotary", nn::RotaryPositions{}, {2, 3, 5, 6});
  expect_layer("rotary_interleaved", nn::RotaryPositions{{.base = 500, .interleaved = true, .first = 7}},
               {2, 3, 5, 6});
}

}  // namespace
}  // namespace systole

#endif

namespace systole {
namespace {

// The message of a call with a wrong shape names the layer, what it takes and what it got.
template <class F>
void expect_refused(const std::string& layer, const std::string& wanted, const std::string& got,
                    const F& call) {
  const std::string message = error_of(ErrorKind::kShape, call);
  for (const std::string& part : {layer, wanted, got})
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

TEST(LayerErrors, NameTheLayerTheShapeItTakesAndTheOneItGot) {
  const Tensor line = zeros({2, 9, 4}), image = zeros({2, 6, 7, 4}), flat = zeros({2, 3});
  expect_refused("conv1d", "[batch, width, channels]", "f32[2,6,7,4]", [&] { nn::Conv1d(4, 3)(image); });
  expect_refused("conv1d", "5 channels", "f32[2,9,4]", [&] { nn::Conv1d(5, 3)(line); });
  expect_refused("conv2d", "[batch, height, width, channels]", "f32[2,9,4]", [&] { nn::Conv2d(4, 3)(line); });
  expect_refused("conv2d", "3 channels", "f32[2,6,7,4]", [&] { nn::DepthwiseConv2d(3)(image); });
  expect_refused("conv_transpose2d", "3 channels", "f32[2,6,7,4]", [&] { nn::ConvTranspose2d(3, 4)(image); });
  expect_refused("conv_transpose1d", "[batch, width, channels]", "f32[2,3]",
                 [&] { nn::ConvTranspose1d(3, 4)(flat); });
  expect_refused("max_pool1d", "[batch, width, channels]", "f32[2,3]", [&] { nn::MaxPool1d{}(flat); });
  expect_refused("avg_pool1d", "[batch, width, channels]", "f32[2,3]", [&] { nn::AvgPool1d{}(flat); });
  expect_refused("max_pool2d", "[batch, height, width, channels]", "f32[2,3]",
                 [&] { nn::MaxPool2d{}(flat); });
  expect_refused("avg_pool2d", "[batch, height, width, channels]", "f32[2,3]",
                 [&] { nn::AvgPool2d{}(flat); });
  for (const bool largest : {false, true}) {
    const std::string kind = largest ? "max" : "avg";
    expect_refused("adaptive_" + kind + "_pool1d", "[batch, width, channels]", "f32[2,3]",
                   [&] { largest ? nn::AdaptiveMaxPool1d{}(flat) : nn::AdaptiveAvgPool1d{}(flat); });
    expect_refused("adaptive_" + kind + "_pool2d", "[batch, height, width, channels]", "f32[2,3]",
                   [&] { largest ? nn::AdaptiveMaxPool2d{}(flat) : nn::AdaptiveAvgPool2d{}(flat); });
    expect_refused("global_" + kind + "_pool", "[batch, spatial…, channels]", "f32[2,3]",
                   [&] { largest ? nn::GlobalMaxPool{}(flat) : nn::GlobalAvgPool{}(flat); });
  }
  expect_refused("GroupNorm", "[batch, …, 6]", "f32[2,6,7,4]", [&] { nn::GroupNorm(3, 6)(image); });
  expect_refused("rms_norm", "f32[2,9,4]", "f32[5]", [&] { nn::RMSNorm(5)(line); });
  expect_refused("layer_norm", "f32[2,9,4]", "f32[5]", [&] { nn::LayerNorm(5)(line); });
  expect_refused("linear", "[…, 5]", "f32[2,9,4]", [&] { nn::Linear(5, 2)(line); });
  expect_refused("batch_norm", "[4]", "f32[5]", [&] { nn::BatchNorm(5)(line); });
  expect_refused("PReLU", "[…, 5]", "f32[2,9,4]", [&] { nn::PReLU(5)(line); });
  expect_refused("Flatten", "[batch, …]", "f32[3]", [&] { nn::Flatten{}(zeros({3})); });
  expect_refused("Dropout2d", "[batch, height, width, channels]", "f32[2,9,4]",
                 [&] { nn::Dropout2d{}(line); });
  expect_refused("Dropout1d", "[batch, width, channels]", "f32[2,6,7,4]", [&] { nn::Dropout1d{}(image); });
  expect_refused("LSTM", "[length, batch, 5]", "f32[2,9,4]", [&] { nn::LSTM(5, 3)(line); });
  expect_refused("GRU", "[batch, length, 5]", "f32[2,9,4]",
                 [&] { nn::GRU(5, 3, {.batch_first = true})(line); });
  expect_refused("RNN", "[length, batch, 4]", "f32[2,3]", [&] { nn::RNN(4, 3)(flat); });
  expect_refused("GRU", "[2,9,3]", "f32[1,9,3]",
                 [&] { nn::GRU(4, 3, {.layers = 2})(line, zeros({1, 9, 3})); });
  // With as many keys as queries, or fewer or more: query i sees keys 0 to i.
  {
    random::seed(1);
    nn::MultiHeadAttention attention(4, 2);
    const Tensor queries = random::normal(random::key(1), {1, 3, 4}),
                 keys = random::normal(random::key(2), {1, 5, 4});
    const Tensor hidden = tensor({{false, true, true, true, true},
                                  {false, false, true, true, true},
                                  {false, false, false, true, true}});
    const auto causal = attention(queries, keys, keys, {.is_causal = true}).to_vector<float>();
    const auto masked = attention(queries, keys, keys, {.attn_mask = hidden}).to_vector<float>();
    for (std::size_t i = 0; i < causal.size(); ++i) EXPECT_NEAR(causal[i], masked[i], 1e-6);
    for (const float x : attention(keys, queries, queries, {.is_causal = true}).to_vector<float>())
      EXPECT_TRUE(std::isfinite(x));
  }
  expect_refused("MultiHeadAttention", "[batch, length, 8]", "f32[2,9,4]",
                 [&] { nn::MultiHeadAttention(8, 2)(line); });
  expect_refused("key_padding_mask", "[2,9]", "bool[9,2]", [&] {
    nn::MultiHeadAttention(4, 2)(line, {.key_padding_mask = zeros({9, 2}, DType::boolean)});
  });
  expect_refused("attn_mask", "[2,2,9,9]", "f32[9,8]",
                 [&] { nn::MultiHeadAttention(4, 2)(line, {.attn_mask = zeros({9, 8})}); });
  expect_refused("TransformerEncoderLayer", "[batch, length, 8]", "f32[2,9,4]",
                 [&] { nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 4})(line); });
  expect_refused("TransformerDecoderLayer: memory", "[batch, length, 4]", "f32[2,3]",
                 [&] { nn::TransformerDecoderLayer(4, 2, {.dim_feedforward = 4})(line, flat); });
  expect_refused("SinusoidalPositions", "[batch, length, 8]", "f32[2,9,4]",
                 [&] { nn::SinusoidalPositions{8}(line); });
  expect_refused("LearnedPositions", "at most 5 places", "f32[2,9,4]",
                 [&] { nn::LearnedPositions(5, 4)(line); });
  expect_refused("rotary", "[batch, heads, length, depth]", "f32[2,9,4]", [&] { nn::rotary(line); });
}

TEST(LayerErrors, OptionsThatDoNotFit) {
  for (const auto& make : std::vector<std::function<void()>>{
           [] { nn::Conv1d(4, 6, {.kernel = {3, 3}}); }, [] { nn::Conv1d(3, 4, {.groups = 2}); },
           [] { nn::ConvTranspose2d(4, 3, {.groups = 2}); },
           [] { nn::DepthwiseConv2d(4, {.kernel = {1, 2, 3}}); },
           [] { nn::ConvTranspose2d(2, 2, {.output_padding = 1})(zeros({1, 2, 2, 2})); },
           [] { nn::GroupNorm(4, 6); }, [] { nn::GRU(3, 4, {.layers = 0}); },
           [] { nn::TransformerEncoder(8, 2, {.layers = 0}); }, [] { nn::TransformerEncoderLayer(8, 3); },
           [] { nn::Dropout{2}(zeros({2})); }})
    error_of(ErrorKind::kInvalidArgument, make);
}

TEST(LayerErrors, AnUnknownActivationGivesTheNearest) {
  const std::string message = error_of(ErrorKind::kNotFound, [] { nn::activation("leaky_rleu"); });
  EXPECT_NE(message.find("'leaky_relu'"), std::string::npos) << message;
  error_of(ErrorKind::kNotFound, [] { nn::TransformerEncoderLayer(8, 2, {.activation = "rleu"}); });
  for (const char* name :
       {"ReLU", "LeakyReLU", "SiLU", "ReLU6", "GELU", "LogSoftmax", "hard_swish", "linear"})
    EXPECT_TRUE(nn::activation(name)) << name;
}

TEST(Layers, DropoutOfWholeChannels) {
  random::seed(3);
  const nn::Dropout2d images{0.5};
  const Tensor y = images(ones({8, 3, 2, 16}));
  const Tensor sums = sum(y, {1, 2});  // each 0, or 6 · 2
  EXPECT_TRUE(all(sums == 0 || sums == 12).item<bool>());
  EXPECT_NEAR(mean(y).item<double>(), 1, 0.25);
  nn::Dropout1d lines{0.5};
  EXPECT_EQ(lines(ones({2, 5, 3})).shape(), (Shape{2, 5, 3}));
  nn::eval(lines);
  EXPECT_EQ(sum(lines(ones({2, 5, 3}))).item<float>(), 30);
}

TEST(Layers, DropoutBetweenLayersAndInAttentionIsForTrainingOnly) {
  random::seed(4);
  struct Net {
    nn::GRU gru{4, 4, {.layers = 2, .dropout = 0.5}};
    nn::TransformerEncoderLayer layer{4, 2, {.dim_feedforward = 8, .dropout = 0.5}};
    nn::MultiHeadAttention attention{4, 2, {.dropout = 0.5}};
  } net;
  const Tensor x = random::normal(random::key(1), {5, 2, 4});
  const auto differs = [&] {
    return std::vector<bool>{!allclose(net.gru(x).y, net.gru(x).y), !allclose(net.layer(x), net.layer(x)),
                             !allclose(net.attention(x), net.attention(x))};
  };
  EXPECT_EQ(differs(), (std::vector<bool>{true, true, true}));
  nn::eval(net);
  EXPECT_EQ(differs(), (std::vector<bool>{false, false, false}));
}

// Of one key nothing can be lost but all of it: rows are v / (1 - p) or 0.
TEST(Layers, DropoutInAttentionDropsAndScalesWeights) {
  const Tensor q = ones({1, 64, 1, 2}), v = ones({1, 64, 1, 2});
  const Tensor y = attention(q, q, v, {.dropout = 0.25, .key = random::key(7)});
  EXPECT_TRUE(all(abs(y - 4.0 / 3) < 1e-6 || y == 0).item<bool>());
  EXPECT_NEAR(mean(y).item<double>(), 1, 0.2);
  error_of(ErrorKind::kInvalidArgument, [&] { attention(q, q, v, {.dropout = 0.25}); });
}

TEST(Layers, StackedLstmsUseTheComposite) {
  const nn::LSTM lstm(3, 4, {.layers = 2, .bidirectional = true, .bias = false});
  const auto run = compile([&](const Tensor& x) { return lstm(x).y; });
  std::size_t found = 0;
  const ir::Graph graph = run.graph(zeros({5, 2, 3}));
  for (const ir::Node& node : graph.nodes())
    if (const auto* attrs = node.attrs.get_if<ir::CompositeAttrs>()) found += attrs->name == "lstm";
  EXPECT_EQ(found, 4u);
}

TEST(Layers, RotaryProductsDependOnDistancesOnly) {
  const Tensor q = random::normal(random::key(1), {1, 1, 1, 8}),
               k = random::normal(random::key(2), {1, 1, 1, 8});
  for (const bool interleaved : {false, true}) {
    const auto product = [&](std::int64_t a, std::int64_t b) {
      return sum(nn::rotary(q, {.interleaved = interleaved, .first = a}) *
                 nn::rotary(k, {.interleaved = interleaved, .first = b}))
          .item<double>();
    };
    EXPECT_NEAR(product(9, 4), product(105, 100), 1e-4);
  }
}

double variance(const Variable& v) { return var(v).item<double>(); }

TEST(Initialisers, OfKerasAreCutAtTwoDeviations) {
  random::seed(6);
  Variable v(zeros({60, 40, 3, 3}));  // fan_in 360, fan_out 540
  const struct {
    void (*assign)(Variable);
    double variance;
    bool uniform;
  } rows[] = {{nn::init::he_normal, 2.0 / 360, false},     {nn::init::he_uniform, 2.0 / 360, true},
              {nn::init::lecun_normal, 1.0 / 360, false},  {nn::init::lecun_uniform, 1.0 / 360, true},
              {nn::init::glorot_normal, 2.0 / 900, false}, {nn::init::glorot_uniform, 2.0 / 900, true}};
  for (const auto& row : rows) {
    row.assign(v);
    EXPECT_NEAR(variance(v) / row.variance, 1, 0.03);
    const double bound =
        row.uniform ? std::sqrt(3 * row.variance) : 2 * std::sqrt(row.variance) / 0.87962566103423978;
    EXPECT_LE(max(abs(v)).item<double>(), bound * (1 + 1e-6));
    EXPECT_GT(max(abs(v)).item<double>(), bound * 0.99);
  }
  nn::init::variance_scaling(
      v, {.scale = 3, .mode = nn::init::Fan::out, .distribution = nn::init::Distribution::normal});
  EXPECT_NEAR(variance(v) / (3.0 / 540), 1, 0.03);
  nn::init::kaiming_normal(v, 0, nn::init::Fan::out);
  EXPECT_NEAR(variance(v) / (2.0 / 540), 1, 0.03);
}

TEST(Initialisers, OrthogonalRowsOrColumns) {
  random::seed(7);
  for (const Shape& shape : {Shape{5, 8}, Shape{8, 5}, Shape{6, 2, 3, 2}, Shape{300, 300}}) {
    Variable v(zeros(shape, DType::f64));
    nn::init::orthogonal(v, 2);
    const Tensor m = v.value().reshape({shape[0], -1});
    const bool wide = m.size(0) <= m.size(1);
    const Tensor product = wide ? matmul(m, transpose(m)) : matmul(transpose(m), m);
    EXPECT_TRUE(allclose(product, 4 * eye(product.size(0), {}, DType::f64), 1e-12, 1e-12))
        << shape.to_string();
  }
}

TEST(Initialisers, EyeDiracAndSparse) {
  Variable matrix(zeros({3, 4}));
  nn::init::eye(matrix, 2);
  EXPECT_EQ(matrix.to_vector<float>(), (std::vector<float>{2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0}));
  // A convolution that gives back what it gets; in two groups, each its own first channel.
  nn::Conv2d conv(4, 4, {.padding = 1, .bias = false}),
      grouped(4, 6, {.padding = 1, .groups = 2, .bias = false});
  nn::init::dirac(conv.weight);
  const Tensor x = random::normal(random::key(1), {1, 5, 4, 4});
  EXPECT_TRUE(allclose(conv(x), x));
  nn::init::dirac(grouped.weight, 2);
  const Tensor y = grouped(x);
  EXPECT_TRUE(allclose(y[{ellipsis, slice(0, 2)}], x[{ellipsis, slice(0, 2)}]));
  EXPECT_TRUE(allclose(y[{ellipsis, slice(3, 5)}], x[{ellipsis, slice(2, 4)}]));
  EXPECT_EQ(sum(abs(y[{ellipsis, 2}])).item<float>(), 0);
  Variable mostly(zeros({50, 20}));
  nn::init::sparse(mostly, 0.9, 3);
  const Tensor zeros_of = sum(mostly.value() == 0, 0);
  EXPECT_EQ(min(zeros_of).item<int>(), 45);
  EXPECT_EQ(max(zeros_of).item<int>(), 45);
  error_of(ErrorKind::kShape, [&] { nn::init::dirac(mostly); });
  error_of(ErrorKind::kShape, [&] { nn::init::eye(conv.weight); });
  error_of(ErrorKind::kShape, [&] { nn::init::orthogonal(Variable(zeros({3}))); });
  error_of(ErrorKind::kInvalidArgument, [&] { nn::init::sparse(mostly, 2); });
}

TEST(Initialisers, HaveNames) {
  random::seed(8);
  Variable v(zeros({60, 40}));
  nn::init::by_name("HeNormal", v);
  EXPECT_NEAR(variance(v) / (2.0 / 40), 1, 0.1);
  nn::init::by_name("kaiming_uniform_", v);
  EXPECT_NEAR(variance(v) / (2.0 / 40), 1, 0.1);
  nn::init::by_name("random_normal", v);
  EXPECT_NEAR(variance(v) / 0.0025, 1, 0.1);
  nn::init::by_name("ones", v);
  EXPECT_EQ(min(v).item<float>(), 1);
  Variable kernel(zeros({4, 4, 3}));
  for (const std::string& name : nn::init::names()) nn::init::by_name(name, name == "dirac" ? kernel : v);
  const std::string message = error_of(ErrorKind::kNotFound, [&] { nn::init::by_name("he_norml", v); });
  EXPECT_NE(message.find("'he_normal'"), std::string::npos) << message;
}

TEST(Initialisers, GainsArePyTorchs) {
  EXPECT_NEAR(nn::init::gain("relu"), 1.4142135623730951, 1e-15);
  EXPECT_NEAR(nn::init::gain("tanh"), 1.6666666666666667, 1e-15);
  EXPECT_NEAR(nn::init::gain("leaky_relu", 0.2), 1.3867504905630728, 1e-15);
  EXPECT_EQ(nn::init::gain("selu"), 0.75);
}

}  // namespace
}  // namespace systole
