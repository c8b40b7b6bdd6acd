// Article S0, section 3.2: a network with one hidden layer learns MNIST's digits, on whichever device is
// asked for. The article gives class numbers to the categorical form of the loss, which wants one-hot rows,
// and asks for the TPU by an argument of fit() that does not exist; here the loss takes numbers and the
// device is where the model is made.
//
//   mnist_mlp [--data DIR] [--train 0] [--test 0] [--epochs 5] [--batch 64] [--device auto]
//             [--out FILE.safetensors]
//
// DIR holds MNIST's four files; without it the digits are drawn. --device cpu, cuda, tpu, pjrt:cpu …

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "options.h"
#include "pictures.h"

int main(int argc, char** argv) try {
  using namespace systole;
  const Options options(argc, argv,
                        {{"data", ""},
                         {"train", "0"},
                         {"test", "0"},
                         {"epochs", "5"},
                         {"batch", "64"},
                         {"device", "auto"},
                         {"out", ""}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const auto [train, test] = mnist_or_drawn(options);
  std::cout << train.info().to_string() << "; on " << current_device().to_string() << "\n";

  nn::Sequential model{nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)};
  std::cout << nn::summary(model, {28, 28});

  training::Trainer trainer(model, optim::Adam(model), {.metrics = {"accuracy"}});
  trainer.fit(train, {.epochs = options.integer("epochs"), .batch = options.integer("batch")});

  const training::Logs result = trainer.evaluate(test);
  std::printf("test accuracy %.4f loss %.4f\n", result["accuracy"], result["loss"]);
  if (options.has("out")) trainer.save(options["out"]);
} catch (const std::exception& error) {
  std::cerr << "mnist_mlp: " << error.what() << "\n";
  return 1;
}
