// Five steps of each optimiser against PyTorch's formulas in NumPy (f64); the gradient of parameter i at step
// t is p/2 + wave(shape, 0.3·t + i).

#include "systole/optim.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "error_check.h"
#include "systole/nn.h"
#include "systole/tensor/compiled.h"
#include "systole/tensor/creation.h"
#include "systole/tensor/math.h"
#include "systole/tensor/random.h"
#include "systole/tensor/transforms.h"
#include "waves.h"

namespace systole {
namespace {

struct Two {
  Variable a{wave({3, 2}, 0.1)}, b{wave({4}, 0.2)};
};

std::vector<Tensor> gradients(const Two& two, int step) {
  const double phase = 0.3 * step;
  return {two.a * 0.5 + wave({3, 2}, phase), two.b * 0.5 + wave({4}, phase + 1)};
}

void expect_after_five_steps(const std::function<std::unique_ptr<optim::Optimizer>(const Two&)>& make,
                             double a, double b) {
  const Two two;
  const auto optimizer = make(two);
  for (int step = 1; step <= 5; ++step) optimizer->update(gradients(two, step));
  EXPECT_NEAR(checksum(two.a), a, 1e-12);
  EXPECT_NEAR(checksum(two.b), b, 1e-12);
  EXPECT_EQ(optimizer->step().value().item<int>(), 5);
}

template <class Optimizer, class Options>
auto made(Options options) {
  return [options](const Two& two) { return std::make_unique<Optimizer>(two, options); };
}

TEST(Sgd, FollowsPyTorch) {
  using Options = optim::SGDOptions;
  expect_after_five_steps(made<optim::SGD>(Options{.lr = 0.1}), 0.880445818116387, 1.64376981214703);
  expect_after_five_steps(made<optim::SGD>(Options{.lr = 0.1, .weight_decay = 0.1}), 0.809515332012891,
                          1.55791129433074);
  expect_after_five_steps(made<optim::SGD>(Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}),
                          -1.73343612121045, -0.333401598697706);
  expect_after_five_steps(
      made<optim::SGD>(Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}),
      -2.23782312505227, -0.490912164733802);
}

TEST(Adam, FollowsPyTorch) {
  using Options = optim::AdamOptions;
  expect_after_five_steps(made<optim::Adam>(Options{.lr = 0.1}), 0.859711325519058, 1.27790370359588);
  expect_after_five_steps(
      made<optim::Adam>(Options{.lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1}),
      0.870387579767255, 1.27113361862221);
}

TEST(AdamW, FollowsPyTorch) {
  expect_after_five_steps(made<optim::AdamW>(optim::AdamWOptions{.lr = 0.1}), 0.851361527619119,
                          1.26875732197846);
}

TEST(Optimizers, RunInACompiledStep) {
  const Two two;
  optim::Adam optimizer(parameters(two), {.lr = 0.1});
  auto step = compile([&](const Tensor& ga, const Tensor& gb) {
    optimizer.update(std::vector<Tensor>{two.a * 0.5 + ga, two.b * 0.5 + gb});
  });
  for (int t = 1; t <= 5; ++t) step(wave({3, 2}, 0.3 * t), wave({4}, 0.3 * t + 1));
  EXPECT_NEAR(checksum(two.a), 0.859711325519058, 1e-12);
  EXPECT_NEAR(checksum(two.b), 1.27790370359588, 1e-12);
  EXPECT_EQ(step.traces(), 1);
}

TEST(Optimizers, ANewLearningRateNeedsNoNewTrace) {
  struct One {
    Variable x{tensor({1.0}, DType::f64)};
  } one;
  optim::SGD optimizer(one, {.lr = 0.5});
  auto step = compile([&](const Tensor& g) { optimizer.update(std::vector<Tensor>{g}); });
  step(tensor({1.0}, DType::f64));
  EXPECT_DOUBLE_EQ(one.x.value().item<double>(), 0.5);
  optimizer.set_lr(0.125);
  step(tensor({1.0}, DType::f64));
  EXPECT_DOUBLE_EQ(one.x.value().item<double>(), 0.375);
  EXPECT_EQ(step.traces(), 1);
  EXPECT_DOUBLE_EQ(optimizer.lr().value().item<double>(), 0.125);
}

TEST(Optimizers, ListTheirStateByName) {
  const Two two;
  const optim::Adam adam(two);
  EXPECT_EQ(adam.state().names(), (std::vector<std::string>{"adam.lr", "adam.step", "adam.m.a", "adam.m.b",
                                                            "adam.v.a", "adam.v.b"}));
  EXPECT_EQ(adam.state().at("adam.m.a").name(), "adam.m.a");
  EXPECT_EQ(adam.state().at("adam.v.b").shape(), Shape{4});
  EXPECT_EQ(optim::SGD(two).state().names(), (std::vector<std::string>{"sgd.lr", "sgd.step"}));
  EXPECT_EQ(optim::SGD(two, {.momentum = 0.9}).state().names(),
            (std::vector<std::string>{"sgd.lr", "sgd.step", "sgd.velocity.a", "sgd.velocity.b"}));
}

TEST(Optimizers, GoOnFromASavedState) {
  const Two first, second;
  optim::Adam before(first, {.lr = 0.1}), after(second, {.lr = 0.3});
  for (int step = 1; step <= 3; ++step) before.update(gradients(first, step));
  for (const auto& [name, variable] : before.state()) after.state().at(name).assign(variable);
  Variable a = second.a, b = second.b;
  a.assign(first.a);
  b.assign(first.b);
  for (int step = 4; step <= 5; ++step) after.update(gradients(second, step));
  EXPECT_NEAR(checksum(second.a), 0.859711325519058, 1e-12);
}

TEST(Optimizers, UpdateSmallFloats) {
  struct One {
    Variable x{tensor({1.0, 2.0}).to(DType::bf16)};
  } one;
  optim::AdamW optimizer(one, {.lr = 0.5, .weight_decay = 0});
  optimizer.update(std::vector<Tensor>{tensor({1.0, -1.0})});  // a gradient of f32
  EXPECT_EQ(one.x.dtype(), DType::bf16);
  const std::vector<float> x = one.x.value().to(DType::f32).to_vector<float>();
  EXPECT_NEAR(x[0], 0.5, 1e-2);
  EXPECT_NEAR(x[1], 2.5, 1e-2);
}

TEST(Optimizers, NameTheParameterThatAGradientDoesNotFit) {
  const Two two;
  optim::SGD optimizer(two);
  const std::string few =
      error_of(ErrorKind::kInvalidArgument, [&] { optimizer.update(std::vector<Tensor>{wave({3, 2}, 0)}); });
  EXPECT_NE(few.find("\"b\""), std::string::npos) << few;
  const std::string shape = error_of(
      ErrorKind::kShape, [&] { optimizer.update(std::vector<Tensor>{wave({3, 2}, 0), wave({5}, 0)}); });
  EXPECT_NE(shape.find("\"b\""), std::string::npos) << shape;
  EXPECT_NE(shape.find("f64[4]"), std::string::npos) << shape;
  EXPECT_EQ(optimizer.step().value().item<int>(), 0);
}

TEST(Optimizers, RefuseImpossibleOptions) {
  const Two two;
  error_of(ErrorKind::kInvalidArgument, [&] { optim::Adam(two, {.beta1 = 1}); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::SGD(two, {.lr = -1}); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::SGD(two, {.nesterov = true}); });
  error_of(ErrorKind::kInvalidArgument, [&] { optim::SGD(two).set_lr(std::nan("")); });
}

// The program of the first page: a step is one launch, many steps are one scan.
TEST(Training, AModelLearnsByCompiledSteps) {
  struct Mlp {
    nn::Linear fc1{2, 16}, fc2{16, 2};
    Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
  };
  random::seed(1);
  Mlp m;
  optim::Adam opt(parameters(m), {.lr = 1e-2});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&] { return cross_entropy(m.forward(x), y); }, parameters(m));
    opt.update(grads);
    return loss;
  });
  // Exclusive or.
  const Tensor x = tensor({{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}}), y = tensor({0, 1, 1, 0});
  const float first = step(x, y).item<float>();
  const Tensor losses = step.many(x + zeros({400, 1, 1}), y + zeros({400, 1}, DType::i32));
  EXPECT_EQ(losses.shape(), Shape{400});
  EXPECT_LT(step(x, y).item<float>(), 0.05f * first);
  EXPECT_EQ(opt.step().value().item<int>(), 402);
  EXPECT_EQ(argmax(m.forward(x), 1).to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace systole
