// 50 training steps in f64 against PyTorch: the loss of every step and the final state of five models, on
// every device that models are tried on.
// Weights and data come from the counter hash on both sides; tests/parity/make_fixtures.py makes PyTorch's
// results.

#include <gtest/gtest.h>

#if __has_include(<nlohmann/json.hpp>)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "data/counter_hash.h"
#include "model_devices.h"
#include "systole/nn.h"
#include "systole/optim.h"
#include "systole/tensor.h"

namespace systole {
namespace {

constexpr std::int64_t kSteps = 50;
constexpr double kTolerance = 1e-7;  // relative

struct Data {
  Literal x, y;  // kSteps batches
};

Literal uniform(Shape shape) { return data::hashed_uniform(1, {DType::f64, std::move(shape)}); }
Literal labels(std::int64_t batch) { return data::hashed_integers(2, {kSteps, batch}, 10); }

nlohmann::json fixture(const std::string& name) {
  std::ifstream in(std::string(SYSTOLE_SOURCE_DIR) + "/tests/parity/" + name + ".json");
  return nlohmann::json::parse(in, nullptr, false);
}

// A tensor as the fixtures hold it: sum, sum of squares, first values. A sum may cancel, so its error counts
// against the sum of magnitudes' bound √(n · squares).
void expect_state(const std::string& name, const std::vector<double>& values, const nlohmann::json& wanted) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  const double scale = std::sqrt(static_cast<double>(values.size()) * squares);
  EXPECT_NEAR(sum, wanted.at("sum").get<double>(), kTolerance * scale) << name;
  EXPECT_NEAR(squares, wanted.at("squares").get<double>(), kTolerance * squares) << name;
  const std::vector<double> first = wanted.at("first");
  ASSERT_LE(first.size(), values.size()) << name;
  const double typical = std::sqrt(squares / static_cast<double>(values.size()));
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(values[i], first[i], kTolerance * std::max(std::abs(first[i]), typical)) << name << " " << i;
}

class Parity : public ModelDevice {
 protected:
  template <class Model, class MakeOptimizer>
  void expect_parity(const std::string& name, Model model, const MakeOptimizer& make_optimizer,
                     const Data& data, double std = 0);
};
INSTANTIATE_TEST_SUITE_P(On, Parity, model_devices(), device_suffix);

// `make_optimizer` takes the model's parameters; `std` is the deviation of matrices, 0: by fan-in.
template <class Model, class MakeOptimizer>
void Parity::expect_parity(const std::string& name, Model model, const MakeOptimizer& make_optimizer,
                           const Data& data, double std) {
  const nlohmann::json wanted = fixture(name);
  ASSERT_TRUE(wanted.is_object()) << "tests/parity/" << name << ".json is missing: run make_fixtures.py";
  nn::cast(model, DType::f64);
  for (const auto& [key, variable] : parameters(model))
    Variable(variable).assign(Tensor(data::hashed_parameter(key, variable.type(), std)));
  auto optimizer = make_optimizer(parameters(model));
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] =
        value_and_grad([&] { return cross_entropy(model.forward(x), y); }, parameters(model));
    optimizer.update(grads);
    return loss;
  });
  const Tensor results = step.many(Tensor(data.x), Tensor(data.y));
  expect_here(results);
  const std::vector<double> losses = results.to_vector<double>();

  const std::vector<double> expected = wanted.at("losses");
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], kTolerance * std::abs(expected[i])) << "step " << i + 1;
  std::size_t checked = 0;
  for (const auto& [key, variable] : variables(model)) {
    if (!wanted.at("final").contains(key)) continue;  // counters
    expect_state(key, variable.value().literal().to_doubles(), wanted.at("final").at(key));
    ++checked;
  }
  EXPECT_EQ(checked, wanted.at("final").size());
}

optim::Adam adam(const Parameters& parameters) { return optim::Adam(parameters, {.lr = 1e-3}); }

TEST_P(Parity, MlpWithAdam) {
  expect_parity("mlp", nn::models::Mlp(), adam, {uniform({kSteps, 16, 784}), labels(16)});
}

TEST_P(Parity, KerasCnnWithAdam) {
  expect_parity("keras_cnn", nn::models::KerasCnn(), adam, {uniform({kSteps, 2, 32, 32, 3}), labels(2)});
}

TEST_P(Parity, ReducedResNetWithMomentumAndWeightDecay) {
  const auto sgd = [](const Parameters& parameters) {
    return optim::SGD(parameters, {.lr = 0.02, .momentum = 0.9, .weight_decay = 1e-4});
  };
  const nn::models::ResNet model({.stages = {{4, 2, 1}, {8, 2, 2}}, .stem = 8, .classes = 10});
  expect_parity("resnet", model, sgd, {uniform({kSteps, 4, 32, 32, 3}), labels(4)});
}

TEST_P(Parity, LstmWithAdam) {
  const nn::models::LstmClassifier model{{.vocabulary = 50, .embedding = 16, .hidden = 24}};
  expect_parity("lstm", model, adam, {data::hashed_integers(1, {kSteps, 8, 12}, 50), labels(8)});
}

TEST_P(Parity, SmallGptWithAdamW) {
  const auto adamw = [](const Parameters& parameters) {
    return optim::AdamW(parameters, {.lr = 3e-4, .beta2 = 0.95, .weight_decay = 0.1});
  };
  const nn::models::Gpt2 model{{.layers = 2, .width = 32, .heads = 4, .vocabulary = 96, .length = 12}};
  const Literal words = data::hashed_integers(1, {kSteps, 2, 12}, 96);
  const Literal next = roll(Tensor(words), -1, -1).literal();  // the words to predict
  expect_parity("gpt", model, adamw, {words, next}, 0.1);
}

}  // namespace
}  // namespace systole

#endif
