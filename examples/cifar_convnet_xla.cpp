// Article S4, section 5.6, which is cut off after its first line: the program of sections 5.1 to 5.5 on a
// TPU, or on any other device that XLA drives through a PJRT plugin. The model is not wrapped and no step is
// marked: a compiled function is one XLA program, here of `--launch` steps, whose weights stay on the device
// from one launch to the next.
//
//   cifar_convnet_xla [--data DIR] [--train 0] [--test 0] [--epochs 10] [--lr 0.001] [--launch 20]
//                     [--device pjrt:cpu]          by default a TPU, or XLA on the processor
//
// Without DIR the pictures are drawn. The same losses as cifar_convnet's come out, apart from rounding.

#include <systole/systole.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>

#include "first_device.h"
#include "options.h"
#include "pictures.h"

int main(int argc, char** argv) try {
  using namespace systole;
  const Options options(argc, argv,
                        {{"data", ""},
                         {"train", "0"},
                         {"test", "0"},
                         {"epochs", "10"},
                         {"lr", "0.001"},
                         {"launch", "20"},
                         {"device", first_device({"tpu", "pjrt:cpu", "cpu"})}});
  constexpr std::int64_t kBatch = 128;
  const DeviceScope device(options["device"]);
  random::seed(1);
  std::cout << "Running on " << current_device().to_string() << "\n";

  nn::models::Convnet model;  // that of cifar_convnet
  optim::SGD optimizer(model, {.lr = options.number("lr"), .momentum = 0.9});
  const auto normalised = [](const Tensor& bytes) { return (bytes.to(DType::f32) / 255 - 0.5) / 0.5; };
  const auto step = compile([&](const Tensor& x, const Tensor& y) {
    const auto [loss, grads] =
        value_and_grad([&] { return cross_entropy(model.forward(normalised(x)), y); }, parameters(model));
    optimizer.update(grads);
    return loss;
  });
  const auto correct = compile([&](const Tensor& x, const Tensor& y) {
    return sum(argmax(model.forward(normalised(x)), 1).to(DType::i32) == y);
  });

  // All pictures lie on the device as bytes; a launch is told which of them each of its steps takes.
  const auto [train, test] = cifar_or_drawn(options);
  const std::vector<Literal> columns = train.columns();
  const Tensor x = Tensor(columns[0]), y = Tensor(columns[1]);
  const std::int64_t launch = std::min(options.integer("launch"), train.size() / kBatch);
  const std::int64_t launches = train.size() / kBatch / launch;
  for (std::int64_t epoch = 1; epoch <= options.integer("epochs"); ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor order = random::permutation(random::next_key(), train.size());
    const Tensor batches = order[slice(0, launches * launch * kBatch)].reshape({launches, launch, kBatch});
    double loss = 0;
    for (std::int64_t i = 0; i < launches; ++i) loss = mean(step.many_at(batches[i], x, y)).item<double>();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("[%lld, %5lld] loss: %.3f, %.0f pictures/s\n", static_cast<long long>(epoch),
                static_cast<long long>(launches * launch), loss,
                static_cast<double>(launches * launch * kBatch) / took.count());
    std::fflush(stdout);
  }

  std::int64_t right = 0;
  for (const data::Batch& batch : data::Loader(test, {.batch = 500, .shuffle = false}))
    right += correct(batch.x(), batch.y()).item<std::int64_t>();
  std::printf("Accuracy on %lld test pictures: %.2f %%\n", static_cast<long long>(test.size()),
              100 * static_cast<double>(right) / static_cast<double>(test.size()));
} catch (const std::exception& error) {
  std::cerr << "cifar_convnet_xla: " << error.what() << "\n";
  return 1;
}
