// Article S0, section 5.2: three convolutions learn MNIST on all cores of a TPU, validated after each epoch.
// The article feeds pictures of 28×28×1 to a network for 32×32×3, and takes the first 60,000 of training and
// test data shuffled together for training, so that the test has pictures it was trained with. Here the
// network fits the pictures, with a border of zeros, since without one its three poolings would leave a
// single pixel; the two sets stay apart, and all 10,000 test pictures count.
//
//   mnist_cnn_tpu [--data DIR] [--train 0] [--test 0] [--epochs 10] [--batch 128] [--device tpu] [--devices
//   -1]
//
// By default all cores of the TPU; where there is none, four devices of XLA on the processor or of the
// reference interpreter, so that it runs anywhere. Without DIR the digits are drawn. `--devices 1` is one
// device without a mesh.

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>

#include "first_device.h"
#include "options.h"
#include "pictures.h"

int main(int argc, char** argv) try {
  using namespace systole;
  const std::string found = first_device({"tpu", "pjrt:cpu", "reference"});
  const Options options(argc, argv,
                        {{"data", ""},
                         {"train", "0"},
                         {"test", "0"},
                         {"epochs", "10"},
                         {"batch", "128"},
                         {"device", found},
                         {"devices", found == "tpu" ? "-1" : "4"}});
  const auto [train, test] = mnist_or_drawn(options);
  std::cout << train.info().to_string() << "; on " << options["devices"] << " × " << options["device"]
            << "\n";

  const DeviceScope device(options["device"]);
  std::optional<DeviceMesh> mesh;
  if (options["devices"] != "1")
    mesh = DeviceMesh(options["device"], {{"data", options.integer("devices", -1)}});
  random::seed(1);
  nn::models::Cnn3 model({.input = {28, 28, 1}});
  // The article's per_image_standardization, on the device and with the model.
  const auto standardise = [](const Tensor& bytes) {
    const Tensor x = bytes.to(DType::f32).reshape({-1, 28, 28, 1});
    return data::Transforms{data::Standardize{}}({x}, {})[0];
  };
  training::Trainer trainer(model, optim::Adam(model),
                            {.metrics = {"accuracy"}, .prepare = standardise, .mesh = mesh});
  trainer.fit(train,
              {.epochs = options.integer("epochs"), .batch = options.integer("batch"), .validation = test});

  const training::Logs result = trainer.evaluate(test);
  std::printf("test accuracy %.4f loss %.4f (%lld pictures)\n", result["accuracy"], result["loss"],
              static_cast<long long>(test.size()));
} catch (const std::exception& error) {
  std::cerr << "mnist_cnn_tpu: " << error.what() << "\n";
  return 1;
}
