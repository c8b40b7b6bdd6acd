// How hard the digits are: a linear model must not solve them, or they would show nothing about networks. The
// same bound was found with L-BFGS in JAX: 87 to 91 % on the test digits, however much it is regularised and
// with up to 60,000 digits to learn from. That a network reaches 97 % is the demo's test.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "systole/data.h"
#include "systole/nn.h"
#include "systole/optim.h"
#include "systole/tensor.h"

namespace systole {
namespace {

Tensor rows(const Literal& images) { return Tensor(images).reshape({-1, 784}).to(DType::f32) / 255; }

double accuracy(const nn::Linear& model, const Tensor& x, const Tensor& y) {
  return mean((argmax(model(x), 1).to(DType::i32) == y).to(DType::f32)).item<double>();
}

TEST(DigitsDifficulty, ALinearModelStaysBelow93Percent) {
  const DeviceScope device("auto");
  constexpr std::int64_t kCount = 10'000, kBatch = 100, kSteps = kCount / kBatch;
  const data::Digits train = data::digits(kCount, 1), test = data::digits(5'000, 2);
  const Tensor x = rows(train.images).eval(), y(train.labels), test_x = rows(test.images).eval(),
               test_y(test.labels);
  random::seed(1);
  nn::Linear model(784, 10);
  optim::Adam optimizer(parameters(model), {.lr = 3e-3});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&] { return cross_entropy(model(x), y); }, parameters(model));
    optimizer.update(grads);
    return loss;
  });
  double best = 0;
  for (int epoch = 0; epoch < 40; ++epoch) {
    if (epoch == 30) optimizer.set_lr(3e-4);
    const Tensor order = random::permutation(random::next_key(), kCount).reshape({kSteps, kBatch});
    step.many_at(order, x, y).eval();
    best = std::max(best, accuracy(model, test_x, test_y));  // even when stopped at the best moment
  }
  EXPECT_GT(accuracy(model, x, y), 0.93) << "the model did not learn what it could";
  EXPECT_GT(best, 0.80);
  EXPECT_LE(best, 0.93);
  RecordProperty("best_test_accuracy", std::to_string(best));
}

}  // namespace
}  // namespace systole
