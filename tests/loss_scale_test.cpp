// Loss scaling by hand: powers of two keep every number exact, so nothing here has a tolerance but the
// training in f16, which is compared with the peers' losses in f32.

#include "systole/optim/loss_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/optim.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/linalg.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/transforms.h"

namespace systole {
namespace {

struct Weights {
  Variable a{tensor({10.0, 20.0})}, b{tensor({4.0})};
};

// The gradient of both is g on its way through f16, where 65504 is the largest number.
Tensor loss_of(const Weights& w, const Tensor& g) {
  const Tensor low = (w.a.to(DType::f16) * g.to(DType::f16)).to(DType::f32);
  return sum(low) + sum(w.b);
}

struct Trained {
  Weights weights;
  optim::SGD optimizer{weights, {.lr = 0.5}};
  optim::LossScale scale{{.initial = 1024, .interval = 3}};

  auto step() {
    return [this](const Tensor& g) {
      auto [loss, grads, finite] =
          scale.value_and_grad([&] { return loss_of(weights, g); }, parameters(weights));
      optimizer.update(grads, finite);
      scale.update(finite);
      return loss;
    };
  }
  // a[0], b, how many updates there were, the scale.
  std::vector<double> now() const {
    return {weights.a.to_vector<float>()[0], weights.b.to_vector<float>()[0],
            static_cast<double>(optimizer.step().item<int>()), scale.scale().item<float>()};
  }
};

// 1024·128 is infinite in f16. Three finite steps then double the scale.
const std::vector<float> kGradients = {1, 128, 1, 1, 1, 1};
const std::vector<std::vector<double>> kStates = {{9.5, 3.5, 1, 1024}, {9.5, 3.5, 1, 512},
                                                  {9, 3, 2, 512},      {8.5, 2.5, 3, 512},
                                                  {8, 2, 4, 1024},     {7.5, 1.5, 5, 1024}};

TEST(LossScale, AnOverflowSkipsThatUpdateAloneAndHalvesTheScaleWhichGrowsAfterTheInterval) {
  Trained eager, compiled;
  auto step = compile(compiled.step());
  for (std::size_t i = 0; i < kGradients.size(); ++i) {
    const double a = eager.now()[0], b = eager.now()[1];
    const Tensor g = tensor({kGradients[i]});
    EXPECT_EQ(eager.step()(g).item<float>(), kGradients[i] * (2 * a + 10) + b) << i;  // a[1] is a[0] + 10
    step(g);
    EXPECT_EQ(eager.now(), kStates[i]) << i;
    EXPECT_EQ(compiled.now(), kStates[i]) << i;
  }
  EXPECT_EQ(step.traces(), 1);
}

TEST(LossScale, ManyStepsAreOneProgram) {
  Trained trained;
  auto step = compile(trained.step());
  std::vector<float> gradients = kGradients;
  const Tensor losses = step.many(reshape(tensor(gradients), {6, 1}));
  EXPECT_EQ(losses.shape(), Shape{6});
  EXPECT_EQ(trained.now(), kStates.back());
}

TEST(LossScale, NoMomentSeesWhatIsNotFinite) {
  Weights weights;
  optim::Adam adam(weights);
  const Tensor bad = tensor({std::nan(""), 1.0}), fine = tensor({1.0});
  for (const double b : {1.0, HUGE_VAL}) {
    const std::vector<Tensor> grads = {b == 1 ? tensor({1.0, 1.0}) : bad, b == 1 ? fine : tensor({b})};
    adam.update(grads, optim::LossScale::all_finite(grads));
  }
  EXPECT_EQ(adam.step().item<int>(), 1);
  EXPECT_EQ(adam.state().at("adam.m.a").to_vector<float>(), (std::vector<float>{0.1F, 0.1F}));
  for (const auto& [name, variable] : adam.state())
    EXPECT_TRUE(all(is_finite(variable)).item<bool>() || variable.dtype() == DType::i32) << name;
}

TEST(LossScale, OneGradientThatIsNotFiniteHoldsUpAllParameters) {
  const Tensor fine = tensor({1.0, -3e38}), bad = tensor({1.0, -HUGE_VAL});
  EXPECT_TRUE(optim::LossScale::all_finite(std::vector{fine, fine}).item<bool>());
  EXPECT_FALSE(optim::LossScale::all_finite(std::vector{fine, bad}).item<bool>());
  EXPECT_FALSE(optim::LossScale::all_finite(std::vector{tensor({std::nan("")}), fine}).item<bool>());
  EXPECT_TRUE(optim::LossScale::all_finite({}).item<bool>());
}

// Small tensors are looked at together, by types; large ones alone.
TEST(LossScale, ABadNumberIsFoundWhereverItIs) {
  std::vector<Tensor> all;
  for (int i = 0; i < 10; ++i) all.push_back(ones({2, i % 3 + 1}));
  all.push_back(tensor(1.0));
  all.push_back(ones({3}).to(DType::f16));
  all.push_back(ones({2}).to(DType::f16));
  all.push_back(ones({5}).to(DType::f64));
  all.push_back(ones({70, 70}));
  all.push_back(ones({0}));
  EXPECT_TRUE(optim::LossScale::all_finite(all).item<bool>());
  for (const std::size_t i : {0, 7, 8, 10, 12, 13, 14}) {
    std::vector<Tensor> with_bad = all;
    std::vector<double> numbers(static_cast<std::size_t>(all[i].size()), 1.0);
    numbers.back() = i % 2 == 0 ? HUGE_VAL : std::nan("");
    with_bad[i] = tensor(numbers).reshape(all[i].shape()).to(all[i].dtype());
    EXPECT_FALSE(optim::LossScale::all_finite(with_bad).item<bool>()) << i;
  }
}

// 2^-30 is zero in f16, whose least number is 2^-24.
TEST(LossScale, SmallGradientsSurviveF16) {
  Variable x{tensor({1.0})};
  const auto loss = [&] { return sum(x.to(DType::f16).to(DType::f32)) * std::ldexp(1.0, -30); };
  EXPECT_EQ(grad(loss, {x})[0].item<float>(), 0);
  const optim::LossScale scale;
  const std::vector<Variable> all = {x};
  const auto [value, grads, finite] = scale.value_and_grad(loss, all);
  EXPECT_EQ(value.item<float>(), std::ldexp(1.0F, -30));
  EXPECT_EQ(grads[0].item<float>(), std::ldexp(1.0F, -30));
  EXPECT_TRUE(finite.item<bool>());
}

// As torch.amp: the scale is a power of two, so f32 numbers are those of an unscaled run to the last bit.
TEST(LossScale, WithoutOverflowNothingDiffersFromAnUnscaledRun) {
  struct Net {
    Variable w{tensor({{0.3, -0.2}, {0.5, 0.7}})};
  } plain, scaled;
  optim::Adam first(plain, {.lr = 0.1}), second(scaled, {.lr = 0.1});
  optim::LossScale scale({.interval = 2});
  const Tensor x = tensor({{1.1, 0.4}, {-0.6, 0.9}, {0.2, -1.3}});
  const auto loss_of = [&](const Net& net) { return mean(square(tanh(matmul(x, net.w)) - x)); };
  auto plainly = compile([&] {
    const auto [loss, grads] = value_and_grad([&] { return loss_of(plain); }, parameters(plain));
    first.update(grads);
    return loss;
  });
  auto with_scale = compile([&] {
    const auto [loss, grads, finite] =
        scale.value_and_grad([&] { return loss_of(scaled); }, parameters(scaled));
    second.update(grads, finite);
    scale.update(finite);
    return loss;
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(plainly().item<float>(), with_scale().item<float>()) << i;
  EXPECT_EQ(plain.w.to_vector<float>(), scaled.w.to_vector<float>());
  EXPECT_EQ(scale.scale().item<float>(), 4 * 65536.0F);
}

TEST(LossScale, TheFunctionMayReturnMoreThanTheLoss) {
  Variable x{tensor({3.0})};
  const optim::LossScale scale;
  const std::vector<Variable> all = {x};
  const auto [value, grads, finite] =
      scale.value_and_grad([&] { return std::pair{sum(x * x), x + 1.0}; }, all);
  EXPECT_EQ(value.first.item<float>(), 9);
  EXPECT_EQ(value.second.item<float>(), 4);
  EXPECT_EQ(grads[0].item<float>(), 6);
}

TEST(LossScale, ParametersOfF16GetTheirGradientsInF32) {
  Variable x{tensor({1.0}).to(DType::f16)};
  const optim::LossScale scale({.initial = 1024});
  const std::vector<Variable> all = {x};
  const auto [value, grads, finite] =
      scale.value_and_grad([&] { return sum(x.to(DType::f32)) * std::ldexp(1.0, -30); }, all);
  EXPECT_EQ(grads[0].dtype(), DType::f32);
  EXPECT_EQ(grads[0].item<float>(), std::ldexp(1.0F, -30));
}

TEST(LossScale, GoesOnFromASavedState) {
  Trained before, after;
  for (int i = 0; i < 4; ++i) before.step()(tensor({kGradients[i]}));
  EXPECT_EQ(before.scale.state().names(),
            (std::vector<std::string>{"loss_scale.scale", "loss_scale.finite_steps"}));
  const auto restore = [](const Parameters& from, const Parameters& to) {
    for (const auto& [name, variable] : from) to.at(name).assign(variable);
  };
  restore(parameters(before.weights), parameters(after.weights));
  restore(before.optimizer.state(), after.optimizer.state());
  restore(before.scale.state(), after.scale.state());
  for (int i = 4; i < 6; ++i) {
    after.step()(tensor({kGradients[i]}));
    EXPECT_EQ(after.now(), kStates[i]) << i;
  }
}

TEST(LossScale, StaysBetweenOneAndTheLargestFloat) {
  optim::LossScale scale({.initial = 2, .growth = 1e30, .interval = 1});
  const Tensor yes = tensor(true), no = tensor(false);
  scale.update(no);
  scale.update(no);
  EXPECT_EQ(scale.scale().item<float>(), 1);
  scale.update(yes);
  scale.update(yes);
  EXPECT_EQ(scale.scale().item<float>(), 1e30F);
}

TEST(LossScale, RefusesImpossibleOptionsAndWhatIsNoAnswer) {
  const auto refuse = [](optim::LossScaleOptions options) {
    error_of(ErrorKind::kInvalidArgument, [&] { optim::LossScale{options}; });
  };
  refuse({.initial = 0.5});
  refuse({.initial = 1e39});
  refuse({.growth = 0.9});
  refuse({.interval = 0});
  refuse({.backoff = 1});
  Weights weights;
  optim::SGD sgd(weights);
  const std::string message = error_of(ErrorKind::kInvalidArgument, [&] {
    sgd.update(std::vector<Tensor>{tensor({1.0, 1.0}), tensor({1.0})}, tensor({1.0}));
  });
  EXPECT_NE(message.find("bool"), std::string::npos) << message;
  EXPECT_EQ(sgd.step().item<int>(), 0);
}

}  // namespace
}  // namespace systole
