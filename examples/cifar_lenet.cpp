// Article S2, section 4.1.2: LeNet learns CIFAR-10 in a training loop of one's own, by SGD with momentum, on
// the GPU when there is one. The article reports every 2000 batches, of which an epoch has 500, and so never
// does; here it is every 100.
//
//   cifar_lenet [--data DIR] [--train 0] [--test 0] [--epochs 10] [--lr 0.001] [--every 100] [--device auto]
//
// Without DIR the pictures are drawn.

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "options.h"
#include "pictures.h"

namespace {

using namespace systole;

struct Net {
  nn::Conv2d conv1{3, 6, {.kernel = 5}}, conv2{6, 16, {.kernel = 5}};
  nn::Linear fc1{16 * 5 * 5, 120}, fc2{120, 84}, fc3{84, 10};

  Tensor forward(const Tensor& images) const {      // [n, 32, 32, 3]
    Tensor x = max_pool2d(relu(conv1(images)), 2);  // [n, 14, 14, 6]
    x = max_pool2d(relu(conv2(x)), 2).flatten(1);   // [n, 400]
    return fc3(relu(fc2(relu(fc1(x)))));
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
                         {"every", "100"},
                         {"device", "auto"}});
  const DeviceScope device(options["device"]);
  random::seed(1);
  const auto [train, test] = cifar_or_drawn(options);
  std::cout << train.info().to_string() << "; on " << current_device().to_string() << "\n";
  // Bytes become numbers from 0 to 1, as by torchvision's ToTensor.
  data::Loader loader(train, {.batch = 100, .map = {data::Normalize{}}});

  Net net;
  optim::SGD optimizer(net, {.lr = options.number("lr"), .momentum = 0.9});
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    const auto [loss, grads] =
        value_and_grad([&] { return cross_entropy(net.forward(x), y); }, parameters(net));
    optimizer.update(grads);
    return loss;
  });

  const std::size_t every = static_cast<std::size_t>(options.integer("every"));
  for (std::int64_t epoch = 1; epoch <= options.integer("epochs"); ++epoch) {
    std::vector<Tensor> losses;  // read only when they are reported: until then the device is not waited for
    for (const data::Batch& batch : loader) {
      losses.push_back(step(batch.x(), batch.y()));
      if (losses.size() < every) continue;
      std::printf("[%lld, %5lld] loss: %.3f\n", static_cast<long long>(epoch),
                  static_cast<long long>(batch.step + 1), mean(stack(losses)).item<double>());
      std::fflush(stdout);
      losses.clear();
    }
  }
  std::cout << "Finished training\n";

  const auto predict = compile([&](const Tensor& x) { return net.forward(x); });
  metrics::Accumulator accuracy("accuracy");
  for (const data::Batch& batch : data::Loader(test, {.batch = 100, .map = {data::Normalize{}}}))
    accuracy.update(predict(batch.x()), batch.y());
  std::printf("test accuracy %.4f\n", accuracy.result());
} catch (const std::exception& error) {
  std::cerr << "cifar_lenet: " << error.what() << "\n";
  return 1;
}
