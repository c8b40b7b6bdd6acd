// Article S1, section 4, the training in it: a ResNet that knows ImageNet is fine-tuned on other pictures.
// The article calls fit() on a model that was never compiled, with a head for 1000 classes, and trains all of
// it at once. Here the weights come from a file with torchvision's names, the head is replaced, learns alone
// while the rest is frozen, and then with the last stage at a tenth of the rate.
//
//   resnet_finetune [--weights resnet18.safetensors] [--depth 18] [--data SPEC] [--side 224] [--train 0]
//                   [--epochs 3] [--batch 32] [--lr 0.001] [--device auto] [--out FILE.safetensors]
//
// SPEC is images:DIR (a folder per class) or cifar10:DIR; without one the pictures are drawn. Without weights
// a network of random ones stands for the trained one, by way of a file as well.

#include <systole/systole.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>

#include "options.h"
#include "pictures.h"

namespace {

using namespace systole;

// A stage of fine-tuning: an optimiser for what is not frozen now.
double tune(nn::models::ResNet& model, const data::TrainTest& data, double lr, const Options& options) {
  // What torchvision's networks were trained with.
  const data::Transforms normalise{
      data::Normalize{.mean = {0.485, 0.456, 0.406}, .stddev = {0.229, 0.224, 0.225}}};
  training::Trainer trainer(
      model, optim::AdamW(model, {.lr = lr}),
      {.metrics = {"accuracy"}, .prepare = [&](const Tensor& x) { return normalise({x}, {})[0]; }});
  std::printf("training %lld of %lld numbers\n", static_cast<long long>(parameters(model).count()),
              static_cast<long long>(variables(model).count()));
  trainer.fit(
      data.train,
      {.epochs = options.integer("epochs"), .batch = options.integer("batch"), .augment = {data::Flip{}}});
  if (options.has("out")) trainer.save(options["out"]);
  return trainer.evaluate(data.test)["accuracy"];
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"weights", ""},
                         {"depth", "18"},
                         {"data", ""},
                         {"side", "224"},
                         {"train", "0"},
                         {"epochs", "3"},
                         {"batch", "32"},
                         {"lr", "0.001"},
                         {"device", "auto"},
                         {"out", ""}});
  const DeviceScope device(options["device"]);
  random::seed(1);
  const int depth = static_cast<int>(options.integer("depth"));
  const std::int64_t side = options.integer("side");

  data::TrainTest data =
      options.has("data") ? data::open(options["data"]) : data::TrainTest{drawn_pictures(1000, 1), {}};
  if (const std::int64_t count = options.integer("train", 0); count > 0) data.train = data.train.take(count);
  if (data.test.empty()) std::tie(data.train, data.test) = data.train.stratified_split(0.8, 1);
  const data::Transforms resize{data::Resize{side, side}};
  data = {data.train.map(resize).cache(), data.test.map(resize).cache()};
  const std::int64_t classes = std::ssize(data.train.info().fields[1].classes);
  std::cout << data.train.info().to_string() << "; on " << current_device().to_string() << "\n";

  std::string weights = options["weights"];
  if (weights.empty()) {
    weights = "resnet" + options["depth"] + "-random.safetensors";
    io::save_safetensors(weights, state_dict(nn::models::ResNet::of(depth)));
  }
  nn::models::ResNet model = nn::models::ResNet::of(depth);
  load_state_dict(model, io::load_safetensors(weights));
  const Tensor before = variables(model).at("layer1.0.conv1.weight").value();

  nn::replace_head(model, classes);
  nn::freeze_all_but_head(model);
  const double head = tune(model, data, options.number("lr"), options);
  std::printf("test accuracy %.4f with a new head\n", head);

  nn::unfreeze(model, "layer4");
  const double last = tune(model, data, options.number("lr") / 10, options);
  std::printf("test accuracy %.4f with the last stage\n", last);

  const Tensor after = variables(model).at("layer1.0.conv1.weight").value();
  std::cout << "The first stage is " << (all(before == after).item<bool>() ? "as it was" : "changed")
            << ".\n";
} catch (const std::exception& error) {
  std::cerr << "resnet_finetune: " << error.what() << "\n";
  return 1;
}
