// Expected numbers by NumPy on the data of waves.h; names and orders as PyTorch lists them.

#include "systole/nn.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "error_check.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/random.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"
#include "waves.h"

namespace systole {
namespace {

using Names = std::vector<std::string>;

void expect(const Tensor& y, Shape shape, double sum) {
  EXPECT_EQ(y.shape(), shape);
  EXPECT_NEAR(checksum(y), sum, 1e-12 * (std::abs(sum) + 1));
}

struct Net {
  nn::Linear fc1{4, 3}, fc2{3, 2, {.bias = false}};
  Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
};

struct Nested {
  Net first;
  std::vector<nn::Linear> many{{2, 2}, {2, 2}};
  std::array<Net, 1> fixed;
  std::tuple<nn::Linear, nn::ReLU, nn::LayerNorm> parts{nn::Linear(2, 2), nn::ReLU(), nn::LayerNorm(2)};
  std::optional<nn::Linear> absent, present{nn::Linear(2, 1)};
  std::unique_ptr<nn::Embedding> table = std::make_unique<nn::Embedding>(5, 2);
  nn::Linear raw[2] = {{1, 1}, {1, 1}};
  std::map<std::string, nn::Linear> heads{{"left", {1, 1}}};
  Variable scale{tensor({1.0, 2.0})};
  int number = 3;
  std::string text;
  std::vector<int> numbers{1, 2};
};

// A class of the user's own, with a constructor and private members.
class Hidden {
 public:
  explicit Hidden(std::int64_t width) : layer_(width, width) {}
  Tensor forward(const Tensor& x) const { return layer_(x); }
  void visit(auto&& v) { v("layer", layer_); }

 private:
  nn::Linear layer_;
};

struct Tied {
  nn::Embedding table{7, 4};
  nn::Linear head{4, 7, {.bias = false}};
};

TEST(Modules, NameParametersByTheirMembers) {
  EXPECT_EQ(parameters(Net{}).names(), (Names{"fc1.weight", "fc1.bias", "fc2.weight"}));
}

TEST(Modules, WalkContainersByIndex) {
  const Nested nested;
  EXPECT_EQ(parameters(nested).names(),
            (Names{"first.fc1.weight", "first.fc1.bias",     "first.fc2.weight", "many.0.weight",
                   "many.0.bias",      "many.1.weight",      "many.1.bias",      "fixed.0.fc1.weight",
                   "fixed.0.fc1.bias", "fixed.0.fc2.weight", "parts.0.weight",   "parts.0.bias",
                   "parts.2.weight",   "parts.2.bias",       "present.weight",   "present.bias",
                   "table.weight",     "raw.0.weight",       "raw.0.bias",       "raw.1.weight",
                   "raw.1.bias",       "heads.left.weight",  "heads.left.bias",  "scale"}));
}

TEST(Modules, AClassGivesItsMembersByVisit) {
  struct Outer {
    Hidden inner{3};
  };
  const Outer outer;
  EXPECT_EQ(parameters(outer).names(), (Names{"inner.layer.weight", "inner.layer.bias"}));
}

TEST(Modules, ATiedParameterIsListedOnceUnderItsFirstName) {
  Tied tied;
  tied.head.weight = tied.table.weight;
  EXPECT_EQ(parameters(tied).names(), (Names{"table.weight"}));
  EXPECT_EQ(parameters(tied).count(), 28);
  const Tied copy = nn::clone(tied);
  EXPECT_TRUE(copy.head.weight.same_cell(copy.table.weight));
  EXPECT_FALSE(copy.table.weight.same_cell(tied.table.weight));
}

TEST(Modules, AWalkNamesVariables) {
  const Net net;
  EXPECT_EQ(net.fc1.bias.name(), "");
  parameters(net);
  EXPECT_EQ(net.fc1.bias.name(), "fc1.bias");
  const std::string message =
      error_of(ErrorKind::kShape, [&] { parameters(net).at("fc1.bias").assign(zeros({2})); });
  EXPECT_NE(message.find("fc1.bias"), std::string::npos) << message;
}

TEST(Modules, FrozenVariablesAndBuffersAreNoParameters) {
  nn::BatchNorm norm(3);
  EXPECT_EQ(parameters(norm).names(), (Names{"weight", "bias"}));
  EXPECT_EQ(variables(norm).names(),
            (Names{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}));
  norm.bias.set_trainable(false);
  EXPECT_EQ(parameters(norm).names(), (Names{"weight"}));
}

TEST(Modules, ParametersAreFoundByName) {
  const Net net;
  EXPECT_EQ(parameters(net).at("fc2.weight").shape(), (Shape{2, 3}));
  EXPECT_EQ(parameters(net).count(), 4 * 3 + 3 + 3 * 2);
  const std::string message = error_of(ErrorKind::kNotFound, [&] { parameters(net).at("fc3.weight"); });
  EXPECT_NE(message.find("fc1.weight, fc1.bias, fc2.weight"), std::string::npos) << message;
}

TEST(Modules, SwitchModes) {
  struct Model {
    nn::Dropout drop{0.5};
    std::vector<nn::BatchNorm> norms{nn::BatchNorm(2)};
    bool training = true;
  } model;
  nn::eval(model);
  EXPECT_FALSE(model.drop.training);
  EXPECT_FALSE(model.norms[0].training);
  EXPECT_FALSE(model.training);
  nn::train(model);
  EXPECT_TRUE(model.drop.training);
  EXPECT_TRUE(model.norms[0].training);
}

TEST(Modules, ACopySharesVariablesAndACloneDoesNot) {
  Net net;
  const Net copy = net, clone = nn::clone(net);
  const float before = sum(clone.fc1.bias).item<float>();
  net.fc1.bias.assign(ones({3}) * 100);
  EXPECT_EQ(sum(copy.fc1.bias).item<float>(), 300);
  EXPECT_EQ(sum(clone.fc1.bias).item<float>(), before);
  EXPECT_TRUE(clone.fc1.bias.trainable());
}

TEST(Modules, CastChangesTheDTypeOfFloats) {
  nn::BatchNorm norm(3);
  nn::cast(norm, DType::f64);
  EXPECT_EQ(norm.weight.dtype(), DType::f64);
  EXPECT_EQ(norm.running_var.dtype(), DType::f64);
  EXPECT_FALSE(norm.running_var.trainable());
  EXPECT_EQ(norm.num_batches_tracked.dtype(), DType::i64);
}

TEST(Modules, MoveToADevice) {
  Net net;
  nn::to(net, "reference");
  EXPECT_EQ(net.fc1.weight.value().device().backend, "reference");
}

TEST(StateDict, HoldsAndRestoresEverything) {
  Net net, other;
  const std::map<std::string, Tensor> values = state_dict(net);
  EXPECT_EQ(values.size(), 3u);
  load_state_dict(other, values);
  EXPECT_EQ(other.fc1.weight.value().to_vector<float>(), net.fc1.weight.value().to_vector<float>());
}

TEST(StateDict, NamesWhatIsMissingUnexpectedOrOfAnotherShape) {
  Net net;
  std::map<std::string, Tensor> values = state_dict(net);
  const std::vector<float> before = net.fc1.weight.value().to_vector<float>();
  values["fc1.weight"] = zeros({3, 4});
  values.erase("fc1.bias");
  values["fc9.bias"] = zeros({1});
  const std::string message = error_of(ErrorKind::kNotFound, [&] { load_state_dict(net, values); });
  EXPECT_NE(message.find("missing: fc1.bias"), std::string::npos) << message;
  EXPECT_NE(message.find("unexpected: fc9.bias"), std::string::npos) << message;
  EXPECT_EQ(net.fc1.weight.value().to_vector<float>(), before);
  load_state_dict(net, values, false);
  EXPECT_EQ(sum(abs(net.fc1.weight)).item<float>(), 0);
  const std::string shape =
      error_of(ErrorKind::kShape, [&] { load_state_dict(net, {{"fc1.weight", zeros({4, 3})}}, false); });
  EXPECT_NE(shape.find("fc1.weight"), std::string::npos) << shape;
  EXPECT_NE(shape.find("f32[3,4]"), std::string::npos) << shape;
}

TEST(StateDict, AcceptsEveryNameOfATiedParameterAndConverts) {
  Tied tied;
  tied.head.weight = tied.table.weight;
  load_state_dict(tied, {{"head.weight", ones({7, 4}, DType::f64)}});
  EXPECT_EQ(sum(tied.table.weight).item<float>(), 28);
  load_state_dict(tied, {{"head.weight", zeros({7, 4})}, {"table.weight", zeros({7, 4})}});
  EXPECT_EQ(sum(tied.table.weight).item<float>(), 0);
}

TEST(Layers, LinearStartsAsInPyTorch) {
  const nn::Linear layer(400, 300);
  for (const Variable& v : {layer.weight, layer.bias}) {
    EXPECT_LE(max(abs(v)).item<double>(), 0.05);  // 1/√400
    EXPECT_GT(max(abs(v)).item<double>(), 0.049);
  }
  EXPECT_NEAR(var(layer.weight).item<double>(), 0.05 * 0.05 / 3, 1e-5);
  EXPECT_FALSE(nn::Linear(2, 3, {.bias = false}).bias.defined());
}

TEST(Layers, ConvolutionHasItsOptions) {
  const nn::Conv2d conv{4, 6, {.kernel = {3, 5}, .stride = 2, .padding = {1, 2}, .groups = 2, .bias = false}};
  EXPECT_EQ(conv.weight.shape(), (Shape{6, 2, 3, 5}));
  EXPECT_FALSE(conv.bias.defined());
  EXPECT_LE(max(abs(conv.weight)).item<double>(), 1 / std::sqrt(30.0));
  EXPECT_EQ(conv(zeros({2, 8, 8, 4})).shape(), (Shape{2, 4, 4, 6}));
  error_of(ErrorKind::kInvalidArgument, [] { nn::Conv2d(3, 4, {.groups = 2}); });
}

TEST(Layers, BatchNormFollowsPyTorchsStatistics) {
  nn::BatchNorm norm(6);
  nn::cast(norm, DType::f64);
  norm.weight.assign(wave({6}, 0.4));
  norm.bias.assign(wave({6}, 0.8));
  const Tensor x = wave({2, 3, 3, 6}, 0.2);
  expect(norm(x), {2, 3, 3, 6}, -2.07863665891216);
  norm(wave({3, 2, 2, 6}, 1.1));
  expect(norm.running_mean, {6}, -0.00213871263626075);
  expect(norm.running_var, {6}, 3.53363404809965);
  EXPECT_EQ(norm.num_batches_tracked.value().item<std::int64_t>(), 2);
  nn::eval(norm);
  expect(norm(x), {2, 3, 3, 6}, -1.21524669433697);
  EXPECT_EQ(norm.num_batches_tracked.value().item<std::int64_t>(), 2);
  nn::train(norm);
  error_of(ErrorKind::kShape, [&] { norm(wave({1, 6}, 0)); });
}

TEST(Layers, BatchNormAssignsItsStatisticsInACompiledStep) {
  nn::BatchNorm norm(6);
  nn::cast(norm, DType::f64);
  auto step = compile([&](const Tensor& x) {
    const auto [loss, grads] = value_and_grad([&] { return sum(norm(x)); }, parameters(norm));
    return loss;
  });
  step(wave({2, 3, 3, 6}, 0.2));
  step(wave({3, 2, 2, 6}, 1.1));
  expect(norm.running_mean, {6}, -0.00213871263626075);
  expect(norm.running_var, {6}, 3.53363404809965);
  EXPECT_EQ(norm.num_batches_tracked.value().item<std::int64_t>(), 2);
}

TEST(Layers, DropoutDrawsANewMaskEachTimeInACompiledProgramToo) {
  nn::Dropout drop{0.5};
  const Tensor x = ones({64});
  auto run = compile([&](const Tensor& v) { return drop(v); });
  const std::vector<float> first = run(x).to_vector<float>();
  EXPECT_NE(run(x).to_vector<float>(), first);
  EXPECT_NE(drop(x).to_vector<float>(), drop(x).to_vector<float>());
  nn::eval(drop);
  EXPECT_EQ(drop(x).to_vector<float>(), x.to_vector<float>());
}

TEST(Layers, ACompiledFunctionSeesThatTheModeChanged) {
  nn::Dropout drop{0.5};
  const Tensor x = ones({64});
  auto run = compile([&](const Tensor& v) { return drop(v); });
  EXPECT_NE(run(x).to_vector<float>(), x.to_vector<float>());
  nn::eval(drop);
  EXPECT_EQ(run(x).to_vector<float>(), x.to_vector<float>());
}

TEST(Layers, TwoDropoutsOfOneStepDiffer) {
  const nn::Dropout a{0.5}, b{0.5};
  const Tensor x = ones({64});
  auto run = compile([&](const Tensor& v) { return std::pair{a(v), b(v)}; });
  const auto [left, right] = run(x);
  EXPECT_NE(left.to_vector<float>(), right.to_vector<float>());
}

TEST(Layers, FlattenKeepsOrTurnsTheOrder) {
  const Tensor x = arange(8).reshape({1, 2, 2, 2});
  EXPECT_EQ(nn::Flatten{}(x).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(nn::Flatten{.channels_first = true}(x).to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{0, 2, 4, 6, 1, 3, 5, 7}));
}

TEST(Layers, SequentialRunsAndNumbersItsLayers) {
  const nn::Sequential net{nn::Linear(3, 3), nn::ReLU(), [](const Tensor& x) { return x * 2; },
                           nn::Linear(3, 1)};
  EXPECT_EQ(parameters(net).names(), (Names{"0.weight", "0.bias", "3.weight", "3.bias"}));
  const Tensor x = wave({2, 3}, 0.1).to(DType::f32);
  const Tensor by_hand = net.get<3>()(relu(net.get<0>()(x)) * 2);
  EXPECT_EQ(net(x).to_vector<float>(), by_hand.to_vector<float>());
}

void fill(const Parameters& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    Variable v = list.variables()[i];
    v.assign(wave(v.shape(), 0.1 * static_cast<double>(i), 0.5));
  }
}

TEST(Layers, LstmOfTwoLayersInBothDirections) {
  nn::LSTM lstm(3, 4, {.layers = 2, .bidirectional = true});
  nn::cast(lstm, DType::f64);
  const Parameters list = parameters(lstm);
  EXPECT_EQ(list.size(), 16u);
  EXPECT_EQ(list.names()[0], "weight_ih_l0");
  EXPECT_EQ(list.names()[5], "weight_hh_l0_reverse");
  EXPECT_EQ(list.names()[15], "bias_hh_l1_reverse");
  fill(list);
  const auto [y, state] = lstm(wave({5, 2, 3}, 0.1));
  expect(y, {5, 2, 8}, -0.403591056207414);
  expect(state.h, {4, 2, 4}, 0.0127558025876089);
  expect(state.c, {4, 2, 4}, 0.163943044590854);
}

TEST(Layers, LstmTakesTheBatchFirstAndAState) {
  random::seed(3);
  const nn::LSTM lstm(3, 4, {.batch_first = true});
  const Tensor x = wave({2, 6, 3}, 0.1).to(DType::f32);
  const auto [whole, end] = lstm(x);
  EXPECT_EQ(whole.shape(), (Shape{2, 6, 4}));
  EXPECT_EQ(end.h.shape(), (Shape{1, 2, 4}));
  const auto [first, middle] = lstm(x[{all, slice(0, 2)}]);
  const auto [second, last] = lstm(x[{all, slice(2, 6)}], middle);
  EXPECT_TRUE(allclose(second, whole[{all, slice(2, 6)}], 1e-5, 1e-6));
  EXPECT_TRUE(allclose(last.c, end.c, 1e-5, 1e-6));
}

TEST(Layers, AttentionOfManyHeads) {
  nn::MultiHeadAttention attention(6, 2, {.causal = true});
  EXPECT_EQ(parameters(attention).names(),
            (Names{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(sum(abs(attention.in_proj_bias)).item<float>(), 0);
  nn::cast(attention, DType::f64);
  fill(parameters(attention));
  const Tensor x = wave({2, 4, 6}, 0.5), k = wave({2, 3, 6}, 0.6);
  expect(attention(x), {2, 4, 6}, -0.465011444032545);
  attention.causal = false;
  expect(attention(x, k, k), {2, 4, 6}, -0.224910133665086);
  error_of(ErrorKind::kInvalidArgument, [] { nn::MultiHeadAttention(6, 4); });
}

TEST(Layers, TransformerBlockAddsToItsInput) {
  const nn::TransformerBlock block(8, 2);
  const Parameters list = parameters(block);
  EXPECT_EQ(list.names(), (Names{"ln1.weight", "ln1.bias", "attn.in_proj_weight", "attn.in_proj_bias",
                                 "attn.out_proj.weight", "attn.out_proj.bias", "ln2.weight", "ln2.bias",
                                 "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  for (const char* name : {"attn.out_proj.weight", "fc2.weight", "fc2.bias"}) nn::init::zeros(list.at(name));
  const Tensor x = wave({2, 3, 8}, 0.1).to(DType::f32);
  EXPECT_TRUE(allclose(block(x), x));
}

TEST(Initialisers, HaveTheirVariances) {
  random::seed(5);
  Variable v(zeros({60, 40, 3, 3}));  // fan_in 360, fan_out 540
  const auto variance = [&] { return var(v).item<double>(); };
  nn::init::xavier_uniform(v, 2);
  EXPECT_NEAR(variance(), 4 * 2.0 / 900, 3e-4);
  EXPECT_LE(max(abs(v)).item<double>(), 2 * std::sqrt(6.0 / 900));
  nn::init::xavier_normal(v);
  EXPECT_NEAR(variance(), 2.0 / 900, 1e-4);
  nn::init::kaiming_uniform(v);
  EXPECT_NEAR(variance(), 2.0 / 360, 2e-4);
  nn::init::kaiming_normal(v, 1);
  EXPECT_NEAR(variance(), 1.0 / 360, 1e-4);
  nn::init::truncated_normal(v, 0, 0.02);
  EXPECT_LE(max(abs(v)).item<double>(), 0.04);
  nn::init::constant(v, 3);
  EXPECT_EQ(min(v).item<float>(), 3);
  error_of(ErrorKind::kShape, [] { nn::init::xavier_normal(Variable(zeros({3}))); });
}

TEST(Losses, CrossEntropyInItsForms) {
  const Tensor logits = wave({3, 4, 5}, 0.3, 3), labels = arange(12).reshape({3, 4}) * 7 % 5;
  EXPECT_NEAR(cross_entropy(logits, labels).item<double>(), 3.8421688664547, 1e-12);
  EXPECT_NEAR(cross_entropy(logits, labels, {.reduction = Reduction::sum}).item<double>(), 46.1060263974563,
              1e-11);
  expect(cross_entropy(logits, labels, {.reduction = Reduction::none}), {3, 4}, 5.18511288151067);
  expect(nll_loss(log_softmax(logits), labels, {.reduction = Reduction::none}), {3, 4}, 5.18511288151067);
  EXPECT_NEAR(cross_entropy(logits, softmax(wave({3, 4, 5}, 1.3))).item<double>(), 2.25296794626487, 1e-12);
}

TEST(Losses, MeanSquaredError) {
  const Tensor a = wave({3, 4}, 0.1), b = wave({3, 4}, 0.2);
  EXPECT_NEAR(mse_loss(a, b).item<double>(), 0.00520568284913347, 1e-14);
  EXPECT_NEAR(mse_loss(a, b, {.reduction = Reduction::sum}).item<double>(), 0.0624681941896017, 1e-14);
}

TEST(Losses, SayWhatDoesNotFit) {
  const std::string rows = error_of(ErrorKind::kShape, [] { cross_entropy(zeros({3, 5}), tensor({1, 2})); });
  EXPECT_NE(rows.find("[3]"), std::string::npos) << rows;
  const std::string floats = error_of(ErrorKind::kDType, [] { cross_entropy(zeros({3, 5}), zeros({3})); });
  EXPECT_NE(floats.find("integers"), std::string::npos) << floats;
  error_of(ErrorKind::kDType, [] { cross_entropy(tensor({{1, 2}}), tensor({1})); });
  error_of(ErrorKind::kShape, [] { mse_loss(zeros({3, 1}), zeros({3})); });
}

TEST(Models, HavePyTorchsNamesAndCounts) {
  EXPECT_EQ(parameters(nn::models::Mlp()).names(), (Names{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(parameters(nn::models::KerasCnn()).names(),
            (Names{"0.weight", "0.bias", "3.weight", "3.bias", "6.weight", "6.bias", "9.weight", "9.bias",
                   "11.weight", "11.bias"}));
  EXPECT_EQ(parameters(nn::models::KerasCnn()).count(), 122570);
  EXPECT_EQ(parameters(nn::models::Cnn3()).names(),
            (Names{"0.weight", "0.bias", "3.weight", "3.bias", "6.weight", "6.bias", "10.weight", "10.bias",
                   "12.weight", "12.bias"}));
  EXPECT_EQ(parameters(nn::models::LstmClassifier()).names(),
            (Names{"emb.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0",
                   "lstm.bias_hh_l0", "fc.weight", "fc.bias"}));
}

TEST(Models, ResNet50HasItsParameters) {
  const nn::models::ResNet resnet;
  const Parameters list = parameters(resnet);
  EXPECT_EQ(list.count(), 25557032);
  EXPECT_EQ(list.size(), 161u);
  const Names start(list.names().begin(), list.names().begin() + 18);
  EXPECT_EQ(start,
            (Names{"conv1.weight", "bn1.weight", "bn1.bias", "blocks.0.conv1.weight", "blocks.0.bn1.weight",
                   "blocks.0.bn1.bias", "blocks.0.conv2.weight", "blocks.0.bn2.weight", "blocks.0.bn2.bias",
                   "blocks.0.conv3.weight", "blocks.0.bn3.weight", "blocks.0.bn3.bias",
                   "blocks.0.short.weight", "blocks.0.bns.weight", "blocks.0.bns.bias",
                   "blocks.1.conv1.weight", "blocks.1.bn1.weight", "blocks.1.bn1.bias"}));
  EXPECT_EQ(list.names().back(), "fc.bias");
}

TEST(Models, AReducedResNetRuns) {
  nn::models::ResNet net({.stages = {{4, 1, 1}, {8, 2, 2}}, .stem = 8, .classes = 3});
  EXPECT_EQ(parameters(net).at("blocks.2.conv1.weight").shape(), (Shape{8, 32, 1, 1}));
  EXPECT_EQ(net.forward(zeros({2, 16, 16, 3})).shape(), (Shape{2, 3}));
}

TEST(Models, GptTiesItsOutputToTheWords) {
  const nn::models::Gpt2 gpt{{.layers = 2, .width = 8, .heads = 2, .vocabulary = 11, .length = 6}};
  const Names names = parameters(gpt).names();
  const Names start(names.begin(), names.begin() + 14);
  EXPECT_EQ(start, (Names{"wte.weight", "wpe.weight", "h.0.ln1.weight", "h.0.ln1.bias", "h.0.qkv.weight",
                          "h.0.qkv.bias", "h.0.proj.weight", "h.0.proj.bias", "h.0.ln2.weight",
                          "h.0.ln2.bias", "h.0.fc.weight", "h.0.fc.bias", "h.0.fc2.weight", "h.0.fc2.bias"}));
  EXPECT_EQ(names.size(), 2 + 2 * 12 + 2u);
  const Tensor words = tensor({{1, 2, 3, 4}, {5, 6, 7, 8}});
  const Tensor logits = gpt.forward(words);
  EXPECT_EQ(logits.shape(), (Shape{2, 4, 11}));
  // Causal: a later word changes no earlier logits.
  const Tensor changed = gpt.forward(tensor({{1, 2, 3, 9}, {5, 6, 7, 0}}));
  const Tensor before = logits[{all, slice(0, 3)}], after = changed[{all, slice(0, 3)}];
  EXPECT_EQ(after.to_vector<float>(), before.to_vector<float>());
  EXPECT_NE(changed.to_vector<float>(), logits.to_vector<float>());
  error_of(ErrorKind::kShape, [&] { gpt.forward(zeros({1, 7}, DType::i32)); });
}

TEST(Summary, IsATable) {
  struct Model {
    nn::Conv2d conv{3, 8, {.padding = 1}};
    nn::BatchNorm norm{8};
    nn::Dropout drop{0.5};
    nn::Linear fc{8, 1000};
    Tensor forward(const Tensor& x) const { return fc(drop(global_avg_pool(relu(norm(conv(x)))))); }
  };
  const Model model;
  EXPECT_EQ(summary(model, {2, 4, 4, 3}), R"(layer    type       output     parameters
─────────────────────────────────────────
(model)  Model      [2,1000]        9,240
conv     Conv2d     [2,4,4,8]         224
norm     BatchNorm  [2,4,4,8]          16
drop     Dropout    [2,8]               –
fc       Linear     [2,1000]        9,000
─────────────────────────────────────────
9,240 trainable parameters, 17 other numbers, 0.04 MB
)");
  EXPECT_EQ(model.norm.num_batches_tracked.value().item<int>(), 0);
  EXPECT_TRUE(model.drop.training);
  EXPECT_EQ(summary(Net{}), R"(layer    type    parameters
───────────────────────────
(model)  Net             21
fc1      Linear          15
fc2      Linear           6
───────────────────────────
21 trainable parameters, 0 other numbers, 0.00 MB
)");
}

}  // namespace
}  // namespace systole
