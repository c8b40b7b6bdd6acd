// A training loop written out: draws a data set of digits, trains a network on it, and writes a picture
// of what it then makes of digits it has never seen.
//
//   digits_by_hand [--train 20000] [--test 5000] [--epochs 6] [--device auto] [--out predictions.png]

#include <systole/systole.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>

#include "options.h"

namespace {

using namespace systole;

constexpr std::int64_t kBatch = 64, kShown = 100;

struct Mlp {
  nn::Linear fc1{784, 128}, fc2{128, 10};
  Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
};

// (count, 28, 28) bytes as (count, 784) numbers from 0 to 1.
Tensor rows(const Literal& images) { return Tensor(images).reshape({-1, 784}).to(DType::f32) / 255; }

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"train", "20000"},
                         {"test", "5000"},
                         {"epochs", "6"},
                         {"device", "auto"},
                         {"out", "predictions.png"}});
  const std::int64_t train_count = options.integer("train", kBatch), test_count = options.integer("test");
  const int epochs = static_cast<int>(options.integer("epochs"));
  const DeviceScope device(options["device"]);

  double start = seconds();
  const data::Digits train = data::digits(train_count, 1), test = data::digits(test_count, 2);
  std::printf("Drew %lld digits to learn from and %lld to be tested with in %.1f s.\n",
              static_cast<long long>(train_count), static_cast<long long>(test_count), seconds() - start);

  random::seed(1);
  Mlp model;
  optim::Adam optimizer(parameters(model), {.lr = 1e-3});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    auto [loss, grads] =
        value_and_grad([&] { return cross_entropy(model.forward(x), y); }, parameters(model));
    optimizer.update(grads);
    return loss;
  });
  auto predict = compile([&](const Tensor& x) { return argmax(model.forward(x), 1).to(DType::i32); });

  const Tensor x = rows(train.images), y(train.labels), test_x = rows(test.images), test_y(test.labels);
  const std::int64_t steps = train_count / kBatch;
  std::printf("Training 784-128-10 with Adam on %s, %lld steps of %lld images an epoch:\n",
              current_device().to_string().c_str(), static_cast<long long>(steps),
              static_cast<long long>(kBatch));
  double accuracy = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    start = seconds();
    const Tensor order = random::permutation(random::next_key(), train_count);
    const Tensor batches = order[slice(0, steps * kBatch)].reshape({steps, kBatch});
    const double loss = mean(step.many_at(batches, x, y)).item<double>();
    const double took = seconds() - start;
    accuracy = mean((predict(test_x) == test_y).to(DType::f32)).item<double>();
    std::printf("  epoch %d of %d: loss %.4f, test accuracy %.2f %%, %.0f images/s\n", epoch, epochs, loss,
                100 * accuracy, static_cast<double>(steps * kBatch) / took);
    std::fflush(stdout);
  }

  const data::Digits shown = data::digits(std::min(kShown, test_count), 2);  // the first of the test digits
  const Literal guesses = predict(rows(shown.images)).literal();
  try {
    io::save_png(options["out"], data::contact_sheet(shown.images, guesses, shown.labels));
    std::cout << "Predictions, wrong ones in red: " << std::filesystem::absolute(options["out"]).string()
              << "\n";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    std::cout << "No picture of predictions: " << error.what() << "\n";
  }
} catch (const std::exception& error) {
  std::cerr << "digits_by_hand: " << error.what() << "\n";
  return 1;
}
