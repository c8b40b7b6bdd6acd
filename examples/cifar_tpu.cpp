// Article S2, section 7.1.2: the network of Keras's tutorial learns CIFAR-10 on all cores of a TPU, each with
// its share of every batch. The article makes the model before it has the TPU, so that its weights are
// elsewhere, asks for more steps than the data has, and tests with 6,400 of the 10,000 pictures. Here a mesh
// is given to the Trainer, which puts the weights there; an epoch's steps go on where the last ended; the
// test is of all pictures.
//
//   cifar_tpu [--data DIR] [--train 0] [--test 0] [--epochs 10] [--steps 100] [--batch 64]
//             [--device tpu] [--devices -1]
//
// By default all cores of the TPU; where there is none, four devices of XLA on the processor or of the
// reference interpreter, so that it runs anywhere. Without DIR the pictures are drawn.

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <iostream>

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
                         {"steps", "100"},
                         {"batch", "64"},
                         {"device", found},
                         {"devices", found == "tpu" ? "-1" : "4"}});
  const auto [train, test] = cifar_or_drawn(options);
  const DeviceMesh mesh(options["device"], {{"data", options.integer("devices", -1)}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  nn::models::KerasCnn model;
  training::Trainer trainer(model, optim::Adam(model), {.metrics = {"accuracy"}, .mesh = mesh});
  trainer.fit(train.repeat(), {.epochs = options.integer("epochs"),
                               .batch = options.integer("batch"),
                               .steps_per_epoch = options.integer("steps"),
                               .validation = test});
  const runtime::Placement where = placement(parameters(model)[0].variable);
  std::cout << "The weights are on " << where.devices.size() << " devices, the first "
            << where.devices[0].to_string() << "\n";

  const training::Logs result = trainer.evaluate(test);
  std::printf("test accuracy %.4f loss %.4f (%lld pictures)\n", result["accuracy"], result["loss"],
              static_cast<long long>(test.size()));
} catch (const std::exception& error) {
  std::cerr << "cifar_tpu: " << error.what() << "\n";
  return 1;
}
