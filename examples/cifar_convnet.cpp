// Article S4, sections 5.1 to 5.5: a convolutional network learns CIFAR-10 and is tested without gradients.
// Nothing is wrapped for that: only what value_and_grad is asked for is differentiated. What the article
// calls convolution is cross-correlation, here as everywhere.
//
//   cifar_convnet [--data DIR] [--train 0] [--test 0] [--epochs 10] [--lr 0.001] [--every 200] [--device
//   auto]
//
// Without DIR the pictures are drawn. Section 5.6 is cifar_convnet_xla.cpp.

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "options.h"
#include "pictures.h"

namespace {

using namespace systole;

struct ConvNet {
  nn::Conv2d conv1{3, 32, {.kernel = 3, .padding = 1}}, conv2{32, 64, {.kernel = 3, .padding = 1}};
  nn::MaxPool2d pool{2};
  nn::Linear fc1{64 * 8 * 8, 512}, fc2{512, 10};

  Tensor forward(const Tensor& images) const {                      // [n, 32, 32, 3]
    const Tensor x = pool(relu(conv2(pool(relu(conv1(images))))));  // [n, 8, 8, 64]
    return fc2(relu(fc1(x.flatten(1))));
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"data", ""},
                         {"train", "0"},
                         {"test", "0"},
                         {"epochs", "10"},
                         {"lr", "0.001"},
                         {"every", "200"},
                         {"device", "auto"}});
  const DeviceScope device(options["device"]);
  random::seed(1);
  std::cout << "Running on " << current_device().to_string() << "\n";
  ConvNet model;

  const data::Transforms normalise{data::Normalize{.mean = {0.5}, .stddev = {0.5}}};
  const auto [train, test] = cifar_or_drawn(options);
  data::Loader train_loader(train, {.batch = 128, .map = normalise});
  data::Loader test_loader(test, {.batch = 128, .shuffle = false, .map = normalise});

  optim::SGD optimizer(model, {.lr = options.number("lr"), .momentum = 0.9});
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    const auto [loss, grads] =
        value_and_grad([&] { return cross_entropy(model.forward(x), y); }, parameters(model));
    optimizer.update(grads);
    return loss;
  });
  for (std::int64_t epoch = 1; epoch <= options.integer("epochs"); ++epoch) {
    double running_loss = 0;
    for (const data::Batch& batch : train_loader) {
      running_loss += step(batch.x(), batch.y()).item<double>();
      if ((batch.step + 1) % options.integer("every") != 0) continue;
      std::printf("[%lld, %5lld] loss: %.3f\n", static_cast<long long>(epoch),
                  static_cast<long long>(batch.step + 1),
                  running_loss / static_cast<double>(options.integer("every")));
      std::fflush(stdout);
      running_loss = 0;
    }
  }
  std::cout << "Finished training\n";

  const auto correct = compile(
      [&](const Tensor& x, const Tensor& y) { return sum(argmax(model.forward(x), 1).to(DType::i32) == y); });
  std::int64_t right = 0, total = 0;
  for (const data::Batch& batch : test_loader) {
    right += correct(batch.x(), batch.y()).item<std::int64_t>();
    total += batch.size();
  }
  std::printf("Accuracy on %lld test pictures: %.2f %%\n", static_cast<long long>(total),
              100 * static_cast<double>(right) / static_cast<double>(total));
} catch (const std::exception& error) {
  std::cerr << "cifar_convnet: " << error.what() << "\n";
  return 1;
}
