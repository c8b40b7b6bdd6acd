// Malignant or benign? Five-fold cross-validation of a small network on the Wisconsin breast cancer data:
// every part is the test of a network that has not seen it, and whose inputs are standardised by what it has
// seen.
//
//   breast_cancer --data breast_cancer.csv [--epochs 40] [--folds 5] [--device auto]
//
// Without --data, rows are made up.

#include <systole/systole.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

// Two clouds that overlap a little, of 30 numbers with very different units.
data::Source made_up(std::int64_t count) {
  const std::vector<Tensor> keys = random::split(random::key(1), 3);
  const Tensor y = random::bernoulli(keys[0], 0.63, {count}).to(DType::i32);
  const Tensor shift = (y.to(DType::f32) - 0.5).unsqueeze(1) * random::uniform(keys[1], {30}, 0.2, 1.2);
  const Tensor units = exp(linspace(-5, 7, 30));
  return data::arrays((random::normal(keys[2], {count, 30}) + shift + 2) * units, y);
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv, {{"data", ""}, {"epochs", "40"}, {"folds", "5"}, {"device", "auto"}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const data::Source all = options.has("data") ? data::csv(options["data"]) : made_up(400);
  std::cout << all.info().to_string() << "\n";
  const data::StratifiedKFold folds{.splits = options.integer("folds"), .shuffle = true, .seed = 0};

  std::vector<double> accuracies;
  for (const data::Fold& fold : folds(all)) {
    const data::Source train = all.select(fold.train), test = all.select(fold.test);
    const Tensor x(train.columns()[0]);  // f32[rows,30]
    const Tensor centre = mean(x, 0), spread = stddev(x, 0);

    nn::Sequential model{nn::Linear(30, 16), nn::ReLU(), nn::Dropout{0.2}, nn::Linear(16, 2)};
    training::Trainer trainer(model, optim::AdamW(model, {.lr = 5e-3, .weight_decay = 0.05}),
                              {.metrics = {"accuracy", "auc"},
                               .prepare = [&](const Tensor& rows) { return (rows - centre) / spread; }});
    trainer.fit(train, {.epochs = options.integer("epochs"), .batch = 32, .verbose = 0});
    const training::Logs logs = trainer.evaluate(test);
    accuracies.push_back(logs["accuracy"]);
    std::printf("fold %zu: %lld rows to learn from, %lld to be tested with, %s\n", accuracies.size(),
                static_cast<long long>(train.size()), static_cast<long long>(test.size()),
                logs.to_string().c_str());
  }
  std::printf("mean accuracy %.4f, deviation %.4f\n", mean(tensor(accuracies)).item<double>(),
              stddev(tensor(accuracies)).item<double>());
} catch (const std::exception& error) {
  std::cerr << "breast_cancer: " << error.what() << "\n";
  return 1;
}
