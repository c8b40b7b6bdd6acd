// The models of the zoo against PyTorch in f64 (tests/parity/make_zoo.py), their published sizes, models by
// name, and what fine-tuning needs.

#include "systole/nn/zoo.h"

#include <gtest/gtest.h>

#if __has_include(<nlohmann/json.hpp>)

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/counter_hash.h"
#include "error_check.h"
#include "io/crc32.h"
#include "scratch_folder.h"
#include "systole/io/safetensors.h"
#include "systole/nn.h"
#include "systole/optim.h"
#include "systole/tensor.h"

namespace systole {
namespace {

using nn::AnyModule;
namespace models = nn::models;
namespace zoo = nn::zoo;
using Names = std::vector<std::string>;
using State = std::map<std::string, Tensor>;

nlohmann::ordered_json fixture(const std::string& name) {
  std::ifstream in(std::string(SYSTOLE_SOURCE_DIR) + "/tests/parity/zoo/" + name + ".json");
  return nlohmann::ordered_json::parse(in, nullptr, false);
}

// A parameter or statistic as make_zoo.py's value() has it.
Tensor hashed(const std::string& name, const Shape& shape) {
  if (name.ends_with("num_batches_tracked")) return Tensor(Literal::scalar<std::int64_t>(0));
  const std::uint32_t seed = io::crc32(0, std::as_bytes(std::span(name)));
  const Tensor u(data::hashed_uniform(seed, {DType::f64, shape}));
  if (name.ends_with("running_var")) return 1 + 0.25 * u;
  if (name.ends_with("running_mean") || name.find("bias") != std::string::npos) return 0.1 * u;
  if (shape.rank() == 1) return 1 + 0.1 * u;
  const std::int64_t fan = shape.count() / shape[0].value();
  return u / std::sqrt(static_cast<double>(fan));
}

State state_of(const nlohmann::ordered_json& wanted) {
  // The second names of parameters that are tied in PyTorch.
  const std::map<std::string, std::string> tied{
      {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
      {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  State state;
  for (const auto& [name, sizes] : wanted.at("state").items()) {
    Shape shape;
    for (const std::int64_t size : sizes.get<std::vector<std::int64_t>>()) shape.push_back(size);
    const auto first = tied.find(name);
    state.emplace(name, hashed(first == tied.end() ? name : first->second, shape));
  }
  return state;
}

Tensor images(Shape shape) { return Tensor(data::hashed_uniform(1, {DType::f64, std::move(shape)})); }
Tensor words(Shape shape, std::uint32_t bound, std::uint32_t seed = 1) {
  return Tensor(data::hashed_integers(seed, shape, bound));
}

void expect_output(const Tensor& y, const nlohmann::ordered_json& wanted) {
  const std::vector<double> expected = wanted.at("output"), values = y.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  EXPECT_EQ(y.shape().to_string(),
            Shape(Ints(wanted.at("shape").get<std::vector<std::int64_t>>())).to_string());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-9) << i;
}

// Loads the fixture's state under its own names, which must be all of the model's, and compares what it
// gives.
template <class M, class... X>
void expect_parity(const std::string& name, M model, const X&... x) {
  const nlohmann::ordered_json wanted = fixture(name);
  ASSERT_TRUE(wanted.is_object()) << "tests/parity/zoo/" << name << ".json is missing: run make_zoo.py";
  nn::cast(model, DType::f64);
  nn::eval(model);
  load_state_dict(model, state_of(wanted));
  expect_output(model.forward(x...), wanted);
}

TEST(ZooParity, Mlp) {
  expect_parity("mlp", models::Mlp({.in = 12, .hidden = {9, 7}, .classes = 4, .activation = "gelu"}),
                images({3, 12}));
}
TEST(ZooParity, LeNet) {
  expect_parity("lenet", models::LeNet(), images({2, 32, 32, 3}));
  expect_parity("lenet_grey", zoo::make("lenet", {.input = {28, 28}}), images({2, 28, 28, 1}));
}
TEST(ZooParity, Convnet) { expect_parity("convnet", models::Convnet(), images({2, 32, 32, 3})); }
TEST(ZooParity, Cnn3WithoutPadding) {
  expect_parity("cnn3", models::Cnn3({.input = {28, 28, 1}, .padded = false}), images({2, 28, 28, 1}));
}
TEST(ZooParity, AlexNet) {
  expect_parity("alexnet", models::AlexNet({.classes = 10, .dense = 16}), images({1, 224, 224, 3}));
}
TEST(ZooParity, AlexNetForSmallImages) {
  expect_parity("alexnet_small",
                zoo::make("alexnet", {.input = {32, 32, 3}, .classes = 10, .options = {{"dense", 16}}}),
                images({2, 32, 32, 3}));
}
TEST(ZooParity, ResNetsLoadTorchvisionsState) {
  expect_parity("resnet18", models::ResNet::of(18, {.stem = 4, .classes = 10}), images({2, 64, 64, 3}));
  expect_parity("resnet34",
                zoo::make("resnet34", {.input = {32, 32, 3}, .classes = 10, .options = {{"width", 4}}}),
                images({2, 32, 32, 3}));
  expect_parity("resnet50", models::ResNet::of(50, {.stem = 4, .classes = 10}), images({2, 64, 64, 3}));
  expect_parity(
      "resnet50_v1",
      zoo::make("resnet50", {.classes = 10, .options = {{"width", 4}, {"version", "v1"}, {"small", false}}}),
      images({2, 64, 64, 3}));
}
using ZooFiles = ScratchFolder;
TEST_F(ZooFiles, ATorchvisionSafetensorsFileLoads) {
  const nlohmann::ordered_json wanted = fixture("resnet18");
  io::save_safetensors(folder_ / "resnet18.safetensors", state_of(wanted));
  AnyModule net = models::ResNet::of(18, {.stem = 4, .classes = 10});
  nn::cast(net, DType::f64);
  nn::eval(net);
  load_state_dict(net, io::load_safetensors(folder_ / "resnet18.safetensors"));
  expect_output(net(images({2, 64, 64, 3})), wanted);
}
TEST(ZooParity, Lstm) {
  expect_parity("lstm",
                zoo::make("lstm", {.classes = 3,
                                   .options = {{"vocabulary", 20},
                                               {"embedding", 6},
                                               {"hidden", 5},
                                               {"layers", 2},
                                               {"bidirectional", true}}}),
                words({3, 7}, 20));
  expect_parity(
      "lstm_next",
      zoo::make("lstm", {.classes = 20, .options = {{"task", "next"}, {"embedding", 6}, {"hidden", 5}}}),
      words({3, 7}, 20));
}

models::Gpt2 small_gpt() {
  models::Gpt2 model{{.layers = 2, .width = 16, .heads = 2, .vocabulary = 40, .length = 12}};
  nn::cast(model, DType::f64);
  load_state_dict(model, models::gpt2_state_dict(state_of(fixture("gpt2"))));
  return model;
}

TEST(ZooParity, Gpt2LoadsThePublishedNames) {
  const nlohmann::ordered_json wanted = fixture("gpt2");
  expect_output(small_gpt().forward(words({2, 9}, 40)), wanted);
  // The first checkpoints' names: "model/h0/attn/c_attn/w" of shape [1, in, out].
  State first;
  for (const auto& [name, value] : state_of(wanted)) {
    std::string old = "model" + name.substr(std::string("transformer").size());
    if (old.starts_with("model.h.")) old.erase(7, 1);
    for (char& c : old)
      if (c == '.') c = '/';
    const bool norm = old.find("ln_") != std::string::npos, matrix = old.find("c_") != std::string::npos;
    const bool weight = old.ends_with("/weight");
    old.erase(old.rfind('/'));
    if (norm || matrix) old += weight ? (norm ? "/g" : "/w") : "/b";
    first.emplace(old, matrix && weight ? value.unsqueeze(0) : value);
  }
  ASSERT_TRUE(first.contains("model/h1/mlp/c_proj/w") && first.contains("model/wte"));
  models::Gpt2 model{{.layers = 2, .width = 16, .heads = 2, .vocabulary = 40, .length = 12}};
  nn::cast(model, DType::f64);
  load_state_dict(model, models::gpt2_state_dict(first));
  expect_output(model.forward(words({2, 9}, 40)), wanted);
}

TEST(ZooParity, Gpt2WritesWhatPyTorchsArgmaxWrites) {
  const std::vector<int> prompt = {3, 1, 4};
  const models::Generator generate(small_gpt());
  const std::vector<int> expected = fixture("gpt2").at("text");
  EXPECT_EQ(generate(prompt, 8, {.temperature = 0}), expected);
  EXPECT_EQ(generate(prompt, 8, {.top_k = 1}), expected);
  EXPECT_EQ(generate(prompt, 8, {.temperature = 0}), expected) << "nothing is left of the text before";
}

TEST(ZooParity, Bert) {
  const models::BertOptions small{
      .layers = 2, .width = 16, .heads = 2, .vocabulary = 30, .length = 10, .classes = 3};
  const models::BertInput input{words({2, 8}, 30), words({2, 8}, 2, 2),
                                tensor({{1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 0, 0, 0}})};
  expect_parity("bert_classify", models::BertClassifier(small), input);
  expect_parity("bert_mask", models::BertMaskedLanguageModel(small), input);
}

TEST(Generate, DrawsAmongTheMostProbableWordsBySeed) {
  const models::Gpt2 model = small_gpt();
  const models::Generator generate(model);
  const std::vector<int> prompt = {3, 1, 4};
  const models::GenerateOptions options{.temperature = 1.5, .top_k = 3, .seed = 7};
  const std::vector<int> text = generate(prompt, 9, options);
  EXPECT_EQ(text.size(), 12u);
  EXPECT_EQ(generate(prompt, 9, options), text);
  EXPECT_NE(generate(prompt, 9, {.temperature = 1.5, .top_k = 3, .seed = 8}), text);
  const auto [values, places] = top_k(model.forward(tensor(text).reshape({1, 12})), 3);
  const std::vector<int> three = places.to_vector<int>();
  for (std::size_t i = prompt.size(); i < text.size(); ++i) {
    const std::set<int> allowed(three.begin() + 3 * (static_cast<long>(i) - 1),
                                three.begin() + 3 * static_cast<long>(i));
    EXPECT_TRUE(allowed.contains(text[i])) << i;
  }
}

TEST(Generate, ScoresThatAreNotFiniteAreAnErrorAndNoWord) {
  models::Gpt2 model = small_gpt();
  Literal table = Literal::copy_of(model.wte.weight.type(), model.wte.weight.literal().as_bytes());
  table.mutable_values<double>()[5] = std::numeric_limits<double>::quiet_NaN();
  model.wte.weight.assign(Tensor(table));
  const std::vector<int> prompt = {3, 1, 4};
  for (const models::GenerateOptions& options :
       {models::GenerateOptions{.temperature = 0}, models::GenerateOptions{.temperature = 1},
        models::GenerateOptions{.temperature = 1, .top_k = 3}}) {
    const std::string text =
        error_of(ErrorKind::kInvalidArgument, [&] { models::generate(model, prompt, 2, options); });
    EXPECT_NE(text.find("not finite"), std::string::npos) << text;
    EXPECT_NE(text.find("after 3 words"), std::string::npos) << text;
  }
}

TEST(Generate, GoesOnBeyondTheLengthAndStopsWhenTold) {
  const models::Generator generate(small_gpt());
  const std::vector<int> prompt = {3, 1, 4};
  EXPECT_EQ(generate(prompt, 30).size(), 33u);
  int seen = 0;
  EXPECT_EQ(generate(prompt, 30, {.each = [&](int) { return ++seen < 4; }}).size(), 7u);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { generate({}, 3); }).find("prompt"),
            std::string::npos);
  const std::vector<int> wrong = {40};
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { generate(wrong, 3); }).find("39"), std::string::npos);
}

TEST(Zoo, ModelsHaveThePublishedSizes) {
  EXPECT_EQ(parameters(zoo::make("resnet18")).count(), 11'689'512);
  EXPECT_EQ(parameters(zoo::make("resnet34")).count(), 21'797'672);
  EXPECT_EQ(parameters(zoo::make("ResNet-50")).count(), 25'557'032);
  EXPECT_EQ(parameters(zoo::make("alexnet")).count(), 61'100'840);
  EXPECT_EQ(parameters(zoo::make("lenet")).count(), 62'006);
  EXPECT_EQ(parameters(zoo::make("keras_cnn")).count(), 122'570);
  EXPECT_EQ(parameters(zoo::make("mlp")).count(), 101'770);
}

TEST(Zoo, LanguageModelsHaveThePublishedSizes) {
  EXPECT_EQ(parameters(zoo::make("gpt2")).count(), 124'439'808);
  EXPECT_EQ(parameters(zoo::make("bert", {.options = {{"task", "hidden"}}})).count(), 109'482'240);
}

TEST(Zoo, OptionsMayBeTextAndFitTheData) {
  const AnyModule mlp =
      zoo::make("mlp", {.input = {28, 28}, .classes = 3, .options = {{"hidden", "[20, 10]"}}});
  EXPECT_EQ(parameters(mlp).names(),
            (Names{"0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"}));
  EXPECT_EQ(mlp(zeros({5, 28, 28, 1})).shape(), (Shape{5, 3}));
  const AnyModule padded = zoo::make("cnn3", {.input = {32, 32, 3}, .options = {{"padding", "same"}}});
  EXPECT_EQ(parameters(padded).count(), parameters(models::Cnn3()).count());
  EXPECT_EQ(parameters(zoo::make("cnn3")).count(), 93'322) << "the Keras net for MNIST";
  const AnyModule gpt = zoo::make(
      "gpt2", {.input = {16}, .classes = 65, .options = {{"layers", "1"}, {"width", "8"}, {"heads", "2"}}});
  EXPECT_EQ(gpt(zeros({2, 16}, DType::i32)).shape(), (Shape{2, 16, 65}));
  EXPECT_EQ(parameters(zoo::make("mlp", {.options = {{"hidden", "[]"}}})).names(),
            (Names{"0.weight", "0.bias"}));
}

TEST(Zoo, MistakesNameTheNearest) {
  EXPECT_NE(error_of(ErrorKind::kNotFound, [] { zoo::make("resnt18"); }).find("did you mean 'resnet18'"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kNotFound, [] { zoo::make("mlp", {.options = {{"hiden", 3}}}); })
                .find("did you mean 'hidden'"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [] { zoo::make("mlp", {.options = {{"hidden", "a"}}}); })
                .find("[512, 256]"),
            std::string::npos);
  EXPECT_NE(
      error_of(ErrorKind::kInvalidArgument, [] { zoo::make("resnet50", {.options = {{"version", "v2"}}}); })
          .find("v1.5"),
      std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kShape, [] { zoo::make("lenet", {.input = {8, 8, 3}}); }).find("[8,8,3]"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument,
                     [] { zoo::make("gpt2", {.options = {{"width", 10}, {"heads", 4}}}); })
                .find("multiple"),
            std::string::npos);
}

TEST(Zoo, EveryEntrySaysWhatItIsAndIsMadeWithItsStandardOptions) {
  const std::set<std::string> large = {"alexnet", "resnet101", "resnet152", "gpt2", "bert"};
  EXPECT_EQ(zoo::names().size(), zoo::entries().size());
  for (const zoo::Entry& entry : zoo::entries()) {
    EXPECT_FALSE(entry.about.empty() || entry.input.empty()) << entry.name;
    if (large.contains(entry.name)) continue;
    zoo::Settings options;
    for (const zoo::OptionEntry& option : entry.options) options.emplace(option.name, option.standard);
    const AnyModule plain = zoo::make(entry.name);
    EXPECT_EQ(parameters(zoo::make(entry.name, {.options = options})).names(), parameters(plain).names());
    Shape batch{1};
    for (const Dim& dim : entry.input) batch.push_back(dim);
    AnyModule model = plain;
    nn::eval(model);
    EXPECT_EQ(model(zeros(batch, entry.text ? DType::i32 : DType::f32)).size(0), 1) << entry.name;
  }
}

AnyModule small_resnet() {
  return zoo::make("resnet18", {.input = {8, 8, 3}, .classes = 10, .options = {{"width", 2}}});
}

TEST(FineTuning, AFrozenBodyStaysAsItIsWhileANewHeadLearns) {
  AnyModule model = small_resnet();
  nn::replace_head(model, 3);
  EXPECT_EQ(parameters(model).at("fc.weight").shape(), (Shape{3, 16}));
  nn::freeze_all_but_head(model);
  EXPECT_EQ(parameters(model).names(), (Names{"fc.weight", "fc.bias"}));
  const State before = state_dict(model);
  for (const auto& [name, value] : before) value.eval();
  nn::train(model);
  optim::SGD optimizer(parameters(model), {.lr = 0.1});
  const Tensor x = images({4, 8, 8, 3}).to(DType::f32), y = tensor({0, 1, 2, 0});
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&] { return cross_entropy(model(x), y); }, parameters(model));
    optimizer.update(grads);
    return loss;
  });
  const double first = step(x, y).item<double>();
  for (int i = 0; i < 5; ++i) step(x, y);
  EXPECT_LT(step(x, y).item<double>(), first);
  for (const auto& [name, value] : state_dict(model)) {
    const bool head = name.starts_with("fc.");
    EXPECT_EQ(value.literal().to_doubles() == before.at(name).literal().to_doubles(), !head) << name;
  }
  nn::unfreeze(model);
  EXPECT_EQ(parameters(model).names(), parameters(small_resnet()).names());
  model(x);
  EXPECT_EQ(variables(model).at("bn1.num_batches_tracked").item<int>(), 1) << "statistics move again";
}

TEST(FineTuning, PatternsAreNamesBeginningsAndStars) {
  AnyModule model = small_resnet();
  EXPECT_EQ(nn::freeze(model, "layer1"), 12);
  EXPECT_EQ(nn::freeze(model, "*.bn2.bias"), 8);
  EXPECT_EQ(nn::freeze(model, "conv1.weight"), 1);
  const AnyModule copy = nn::clone(model);
  EXPECT_EQ(parameters(copy).names(), parameters(model).names());
  EXPECT_EQ(nn::unfreeze(model, "*"), 62);
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { nn::freeze(model, "layr1"); }).find("layer1"),
            std::string::npos);
  models::Gpt2 gpt{{.layers = 1, .width = 8, .heads = 2, .vocabulary = 11, .length = 6}};
  error_of(ErrorKind::kUnsupported, [&] { nn::replace_head(gpt, 3); });
}

}  // namespace
}  // namespace systole

#endif
