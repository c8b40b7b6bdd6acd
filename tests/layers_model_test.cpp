// Models as lists of layers, and AnyModule. Shapes by hand from the layers' definitions.

#include "systole/nn/layers_model.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/nn.h"
#include "systole/tensor.h"

namespace systole {
namespace {

using nn::AnyModule;
using nn::layers_model;
using Names = std::vector<std::string>;
using Lines = std::vector<std::string>;

Shape output(const Lines& lines, const Shape& input) { return nn::layers_output(lines, input); }

struct Net {
  nn::Linear fc1{4, 3};
  nn::BatchNorm norm{3};
  nn::Linear fc2{3, 2};
  Tensor forward(const Tensor& x) const { return fc2(norm(fc1(x))); }
};

// Neither copied nor moved.
struct Fixed {
  nn::Linear fc{4, 2};
  Fixed() = default;
  Fixed(const Fixed&) = delete;
  Fixed& operator=(const Fixed&) = delete;
  Tensor forward(const Tensor& x) const { return fc(x); }
  template <class V>
  static void visit(Fixed& self, V&& v) {
    v("fc", self.fc);
  }
};

TEST(AnyModule, IsAModuleWithTheNamesOfTheOneInside) {
  Net net;
  AnyModule any = net;
  EXPECT_EQ(parameters(any).names(), parameters(net).names());
  EXPECT_EQ(variables(any).names(), variables(net).names());
  EXPECT_TRUE(parameters(any).at("fc1.weight").same_cell(net.fc1.weight)) << "a copy shares";
  struct Outer {
    std::vector<AnyModule> parts;
  };
  const Outer outer{{any, nn::Linear(2, 2)}};
  EXPECT_EQ(parameters(outer).names()[0], "parts.0.fc1.weight");
  EXPECT_EQ(parameters(outer).names().back(), "parts.1.bias");
  ASSERT_NE(any.get<Net>(), nullptr);
  EXPECT_EQ(any.get<nn::Linear>(), nullptr);
  EXPECT_NE(any.type().find("Net"), std::string::npos);
  const Tensor x = ones({2, 4});
  nn::eval(any);
  nn::eval(net);
  EXPECT_EQ(any(x).to_vector<float>(), net.forward(x).to_vector<float>());
}

TEST(AnyModule, ModesDTypesAndClones) {
  AnyModule any = Net{};
  AnyModule copy = any;
  nn::eval(any);
  EXPECT_FALSE(any.get<Net>()->norm.training);
  EXPECT_TRUE(copy.get<Net>()->norm.training) << "a copy has modes of its own";
  const AnyModule own = nn::clone(any);
  EXPECT_FALSE(own.get<Net>()->fc1.weight.same_cell(any.get<Net>()->fc1.weight));
  nn::cast(any, DType::f64);
  EXPECT_EQ(any.get<Net>()->fc1.weight.dtype(), DType::f64);
  EXPECT_EQ(copy.get<Net>()->fc1.weight.dtype(), DType::f32);
  load_state_dict(copy, state_dict(any));
  EXPECT_EQ(copy.get<Net>()->fc1.weight.to_vector<float>(),
            any.get<Net>()->fc1.weight.to(DType::f32).to_vector<float>());
  EXPECT_NE(summary(any, {5, 4}).find("fc1      Linear"), std::string::npos) << summary(any, {5, 4});
}

TEST(AnyModule, HoldsWhatCannotBeCopiedButIsThenNotCopiedEither) {
  AnyModule any = std::make_unique<Fixed>();
  EXPECT_EQ(parameters(any).names(), (Names{"fc.weight", "fc.bias"}));
  AnyModule moved = std::move(any);
  EXPECT_EQ(moved(ones({1, 4})).shape(), (Shape{1, 2}));
  EXPECT_NE(error_of(ErrorKind::kUnsupported, [&] { AnyModule copy = moved; }).find("Fixed"),
            std::string::npos);
  AnyModule none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(parameters(none).empty());
  error_of(ErrorKind::kInvalidArgument, [&] { none(ones({1})); });
}

TEST(AnyModule, ACompiledFunctionNoticesItsMode) {
  AnyModule any = nn::Dropout{0.5};
  const auto run = compile([&](const Tensor& x) { return any(x); });
  const Tensor x = ones({1000});
  EXPECT_NE(run(x).to_vector<float>(), x.to_vector<float>());
  nn::eval(any);
  EXPECT_EQ(run(x).to_vector<float>(), x.to_vector<float>());
}

TEST(LayersModel, IsTheNetThatItsLinesSay) {
  const AnyModule model =
      layers_model({"conv 32 3x3 relu", "maxpool 2", "dropout 0.25", "flatten", "dense 128 relu", "dense 10"},
                   {28, 28, 1});
  EXPECT_EQ(parameters(model).names(),
            (Names{"0.weight", "0.bias", "4.weight", "4.bias", "5.weight", "5.bias"}));
  EXPECT_EQ(parameters(model).at("0.weight").shape(), (Shape{32, 1, 3, 3}));
  EXPECT_EQ(parameters(model).at("4.weight").shape(), (Shape{128, 13 * 13 * 32}));
  EXPECT_EQ(model(ones({3, 28, 28, 1})).shape(), (Shape{3, 10}));
  AnyModule copy = nn::clone(model);
  nn::eval(copy);
  for (const auto& part : nn::inventory(copy).parts)
    EXPECT_FALSE(part.mode.exists() && part.mode.get()) << part.name;
}

TEST(LayersModel, ComputesWhatTheLayersDo) {
  const AnyModule model = layers_model({"dense 3 tanh", "softmax"}, {2});
  const Parameters weights = parameters(model);
  const Tensor x = tensor({{1.0f, 2.0f}});
  const Tensor expected = softmax(tanh(linear(x, weights[0].variable, weights[1].variable)));
  EXPECT_EQ(model(x).to_vector<float>(), expected.to_vector<float>());
}

TEST(LayersModel, InfersShapesLayerByLayer) {
  EXPECT_EQ(output({"conv 8 3x3"}, {10, 12, 3}), (Shape{8, 10, 8}));
  EXPECT_EQ(output({"conv 8 3 pad same stride 2"}, {10, 13, 3}), (Shape{5, 7, 8}));
  EXPECT_EQ(output({"Conv 8 3x5 pad 1x2 groups 2 nobias GELU"}, {10, 12, 4}), (Shape{10, 12, 8}));
  EXPECT_EQ(output({"conv 8 5 dilation 2"}, {20, 3}), (Shape{12, 8}));
  EXPECT_EQ(output({"conv 4 3x3", "globalpool"}, {28, 28}), (Shape{4})) << "an image of one channel";
  EXPECT_EQ(output({"depthwise 3x3 multiplier 2 pad same relu6"}, {8, 8, 3}), (Shape{8, 8, 6}));
  EXPECT_EQ(output({"convtranspose 6 2x2 stride 2 leakyrelu"}, {4, 5, 3}), (Shape{8, 10, 6}));
  EXPECT_EQ(output({"maxpool 3 stride 2 pad 1"}, {9, 9, 2}), (Shape{5, 5, 2}));
  EXPECT_EQ(output({"avgpool 2"}, {9, 2}), (Shape{4, 2}));
  EXPECT_EQ(output({"batchnorm relu", "groupnorm 2", "layernorm", "rmsnorm"}, {4, 4, 6}), (Shape{4, 4, 6}));
  EXPECT_EQ(output({"reshape 4 -1", "flatten"}, {4, 4, 6}), (Shape{96}));
  EXPECT_EQ(output({"embedding 100 16", "lstm 8 bidirectional layers 2"}, {20}), (Shape{16}));
  EXPECT_EQ(output({"embedding 100 16", "gru 8 sequence dropout 0.1", "dense 100"}, {20}), (Shape{20, 100}));
  EXPECT_EQ(output({"rnn 8 last", "dense 1 sigmoid"}, {20, 3}), (Shape{1}));
}

TEST(LayersModel, RecurrentLayersKeepPyTorchsNamesAndTheirMode) {
  AnyModule model = layers_model({"embedding 9 4", "lstm 3 layers 2 dropout 0.5", "dense 2"}, {5});
  EXPECT_EQ(parameters(model).names()[1], "1.weight_ih_l0");
  const Tensor words = zeros({2, 5}, DType::i32);
  nn::eval(model);
  EXPECT_EQ(model(words).to_vector<float>(), model(words).to_vector<float>());
  nn::train(model);
  EXPECT_NE(model(words).to_vector<float>(), model(words).to_vector<float>());
}

TEST(LayersModel, AnUnknownLayerListsEachWordOnce) {
  for (const Lines& lines : {Lines{"qqqqqqqq"}, Lines{"dense 8 qqqqqqqq"}}) try {
      layers_model(lines, {9});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      std::set<std::string> seen;
      std::istringstream words(error.expected());
      for (std::string word; words >> word;) {
        if (word.ends_with(',')) word.pop_back();
        EXPECT_TRUE(seen.insert(word).second) << word << ": " << error.what();
      }
      EXPECT_TRUE(seen.contains("hardsigmoid")) << error.what();
    }
}

TEST(LayersModel, MistakesNameTheLayerTheShapeAndTheNearestWord) {
  const auto message = [](ErrorKind kind, const Lines& lines, const Shape& input) {
    return error_of(kind, [&] { layers_model(lines, input); });
  };
  const auto expect_in = [](const std::string& text, const Names& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_in(message(ErrorKind::kNotFound, {"conv 8 3x3", "maxpol 2"}, {9, 9, 1}),
            {"layer 2 \"maxpol 2\" on [7,7,8]", "did you mean 'maxpool'"});
  expect_in(message(ErrorKind::kNotFound, {"conv 8 3x3 strde 2"}, {9, 9, 1}), {"did you mean 'stride'"});
  expect_in(message(ErrorKind::kNotFound, {"dense 8 rellu"}, {9}), {"did you mean 'relu'"});
  expect_in(message(ErrorKind::kNotFound, {"conv 8 3 pad some"}, {9, 9, 1}), {"did you mean 'same'"});
  expect_in(message(ErrorKind::kShape, {"conv 8 3x3", "conv 8 9x9"}, {9, 9, 1}),
            {"layer 2 \"conv 8 9x9\" on [7,7,8]"});
  expect_in(message(ErrorKind::kShape, {"flatten", "conv 8 3"}, {9, 9, 1}), {"layer 2", "[81]", "image"});
  expect_in(message(ErrorKind::kInvalidArgument, {"conv 8 3 groups 2"}, {9, 9, 3}),
            {"layer 1 \"conv 8 3 groups 2\" on [9,9,3]"});
  expect_in(message(ErrorKind::kInvalidArgument, {"dense"}, {9}), {"ends too early", "outputs"});
  expect_in(message(ErrorKind::kInvalidArgument, {"dense many"}, {9}), {"many", "whole number"});
  expect_in(message(ErrorKind::kInvalidArgument, {"dropout 1.5"}, {9}), {"1.5"});
  expect_in(message(ErrorKind::kInvalidArgument, {"conv 8 3x"}, {9, 9, 1}), {"3x3"});
  expect_in(message(ErrorKind::kInvalidArgument, {"", "dense 3"}, {9}), {"layer 1"});
  expect_in(message(ErrorKind::kShape, {"reshape 5 5"}, {9}), {"layer 1 \"reshape 5 5\" on [9]"});
  message(ErrorKind::kInvalidArgument, {}, {9});
}

}  // namespace
}  // namespace systole
