// Article S2, appendix: the convolutional network of Keras's tutorial learns CIFAR-10 on the GPU, and a
// picture shows how. The article draws the accuracy of a validation that fit() was never given; here the test
// pictures are the validation.
//
//   cifar_keras_gpu [--data DIR] [--train 0] [--test 0] [--epochs 10] [--batch 64]
//                   [--out history.svg] [--device cuda]          by default a GPU, or the processor
//
// Without DIR the pictures are drawn.

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <filesystem>
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
                         {"batch", "64"},
                         {"out", "history.svg"},
                         {"device", first_device({"cuda", "cpu"})}});
  const DeviceScope device(options["device"]);
  random::seed(1);
  const auto [train, test] = cifar_or_drawn(options);  // bytes, which the Trainer brings to 0 … 1
  std::cout << train.info().to_string() << "; on " << current_device().to_string() << "\n";

  nn::Sequential model{nn::Conv2d(3, 32),    nn::ReLU(), nn::MaxPool2d(),  // 32×32 to 15×15
                       nn::Conv2d(32, 64),   nn::ReLU(), nn::MaxPool2d(),  // 6×6
                       nn::Conv2d(64, 64),   nn::ReLU(), nn::Flatten(),    // 4×4
                       nn::Linear(1024, 64), nn::ReLU(), nn::Linear(64, 10)};
  training::Trainer trainer(model, optim::Adam(model), {.metrics = {"accuracy"}});
  const training::FitResult history = trainer.fit(
      train, {.epochs = options.integer("epochs"), .batch = options.integer("batch"), .validation = test});

  const training::Logs result = trainer.evaluate(test);
  std::printf("test accuracy %.4f loss %.4f\n", result["accuracy"], result["loss"]);
  training::history_chart(history, "accuracy", {.x_label = "Epoch", .y_label = "Accuracy"})
      .save(options["out"]);
  std::cout << "History: " << std::filesystem::absolute(options["out"]).string() << "\n";
} catch (const std::exception& error) {
  std::cerr << "cifar_keras_gpu: " << error.what() << "\n";
  return 1;
}
