// Four networks learn CIFAR-10: LeNet, the convnet of cifar_convnet.cpp, Keras's CNN and ResNet-18, from the
// zoo by name. Pictures are shifted and mirrored by chance on the device, the learning rate rises and falls
// in one cycle, and the classes are reported one by one.
//
//   cifar10 [--model lenet|convnet|keras-cnn|resnet18] [--data DIR] [--train 0] [--test 0] [--epochs 10]
//           [--batch 128] [--lr 0.003] [--device auto] [--out FILE.safetensors] [--chart confusion.svg]
//
// Without DIR the pictures are drawn.

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "options.h"
#include "pictures.h"

int main(int argc, char** argv) try {
  using namespace systole;
  const Options options(argc, argv,
                        {{"model", "keras-cnn"},
                         {"data", ""},
                         {"train", "0"},
                         {"test", "0"},
                         {"epochs", "10"},
                         {"batch", "128"},
                         {"lr", "0.003"},
                         {"device", "auto"},
                         {"out", ""},
                         {"chart", ""}});
  const std::int64_t epochs = options.integer("epochs"), batch = options.integer("batch");
  const DeviceScope device(options["device"]);
  random::seed(1);
  const auto [train, test] = cifar_or_drawn(options);
  const std::int64_t steps = epochs * ((train.size() + batch - 1) / batch);

  nn::AnyModule model = nn::zoo::make(options["model"], {.input = {32, 32, 3}, .classes = 10});
  std::cout << options["model"] << ", " << parameters(model).count() << " parameters, on "
            << current_device().to_string() << "\n";
  optim::AdamW optimizer(model, {.lr = optim::schedules::one_cycle(options.number("lr"), steps),
                                 .weight_decay = 0.01,
                                 .groups = {optim::no_decay(model)}});
  // Means and deviations of CIFAR-10's channels; part of the saved model.
  const data::Transforms normalise{
      data::Normalize{.mean = {0.4914, 0.4822, 0.4465}, .stddev = {0.2470, 0.2435, 0.2616}}};
  training::Trainer trainer(model, std::move(optimizer),
                            {.loss = {"cross_entropy", {.label_smoothing = 0.05}},
                             .metrics = {"accuracy"},
                             .prepare = [&](const Tensor& x) { return normalise({x}, {})[0]; }});
  trainer.fit(train, {.epochs = epochs,
                      .batch = batch,
                      .validation = test,
                      .augment = {data::Crop{.padding = 4}, data::Flip{}}});

  const Tensor logits = trainer.predict(test), labels(test.columns()[1]);
  const std::vector<std::string> names = test.info().fields[1].classes;
  std::cout << metrics::classification_report(logits, labels, names);
  std::printf("test accuracy %.4f\n", metrics::accuracy(logits, labels));
  if (options.has("chart"))
    training::confusion_chart(metrics::confusion_matrix(logits, labels), {.names = names})
        .save(options["chart"]);
  if (options.has("out")) trainer.save(options["out"]);
} catch (const std::exception& error) {
  std::cerr << "cifar10: " << error.what() << "\n";
  return 1;
}
