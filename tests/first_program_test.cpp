// The program every page of the documentation starts from, as printed there.

#include <gtest/gtest.h>

#include "systole/systole.h"

using namespace systole;

struct Mlp {
  nn::Linear fc1{784, 128}, fc2{128, 10};
  Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
};

TEST(FirstProgram, CompilesAndTrains) {
  random::seed(1);
  const Tensor xs = random::normal(random::key(7), {20, 16, 784});
  const Tensor ys = random::randint(random::key(8), {20, 16}, 0, 10);
  const Tensor x = xs[0], y = ys[0];

  Mlp m;
  optim::Adam opt(parameters(m), {.lr = 1e-3});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&] { return cross_entropy(m.forward(x), y); }, parameters(m));
    opt.update(grads);
    return loss;
  });
  Tensor loss = step(x, y);           // one step, one launch
  Tensor losses = step.many(xs, ys);  // many steps, one launch

  EXPECT_NEAR(loss.item<float>(), 2.3, 0.5);  // log 10, before anything is learnt
  EXPECT_EQ(losses.shape(), Shape{20});
  for (int i = 0; i < 20; ++i) loss = step(x, y);
  EXPECT_LT(loss.item<float>(), 0.5);
  EXPECT_EQ(step.traces(), 1);
  EXPECT_EQ(parameters(m).names(),
            (std::vector<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
}
