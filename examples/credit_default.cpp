// Will a client pay next month? The UCI table of 30,000 credit card clients in Taiwan: limit, age, six months
// of delays, bills and payments. Only 22 % default, so that "nobody does" is right for 78 %: the measure is
// the area under the ROC curve, and the loss counts a default as much more as there are fewer of them.
//
//   credit_default --data uci_credit_default.csv [--epochs 8] [--device auto] [--out model.safetensors]
//
// Without --data, clients are made up.

#include <systole/systole.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr std::int64_t kFeatures = 23;

// Amounts over many orders of magnitude; what they have to do with a default is a logistic rule.
data::Source made_up(std::int64_t count) {
  const std::vector<Tensor> keys = random::split(random::key(1), 3);
  const Tensor z = random::normal(keys[0], {count, kFeatures});
  const Tensor rule = sum(z * random::normal(keys[1], {kFeatures}, 0, 0.35), 1) - 1.6;
  return data::arrays(exp(2 * z + 5), random::bernoulli(keys[2], sigmoid(rule), {count}).to(DType::i32));
}

// Every number as it is and as an order of magnitude, which may be negative: a bill that was overpaid.
Tensor features(const Tensor& x) { return concat({x, sign(x) * log1p(abs(x))}, 1); }

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv, {{"data", ""}, {"epochs", "8"}, {"device", "auto"}, {"out", ""}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const data::Source all =
      options.has("data") ? data::csv(options["data"], {.label = "Y", .drop = {"ID"}}) : made_up(6000);
  auto [train, test] = all.stratified_split(0.8, 1);
  const double share = mean(tensor(train.labels()).to(DType::f32)).item<double>();
  std::printf("%s\n%lld to learn from, %lld to be tested with; %.1f %% default\n",
              all.info().to_string().c_str(), static_cast<long long>(train.size()),
              static_cast<long long>(test.size()), 100 * share);

  const Tensor x = features(Tensor(train.columns()[0]));
  const Tensor centre = mean(x, 0), spread = stddev(x, 0);
  nn::Sequential model{nn::Linear(2 * kFeatures, 64),
                       nn::ReLU(),
                       nn::Dropout{0.2},
                       nn::Linear(64, 32),
                       nn::ReLU(),
                       nn::Dropout{0.2},
                       nn::Linear(32, 2)};
  const std::int64_t epochs = options.integer("epochs"), steps = epochs * ((train.size() + 127) / 128);
  training::Trainer trainer(
      model, optim::AdamW(model, {.lr = optim::schedules::cosine(2e-3, steps)}),
      {.loss = {"cross_entropy", {.class_weights = tensor({0.5 / (1 - share), 0.5 / share})}},
       .metrics = {"accuracy", "precision", "recall", "auc"},
       .prepare = [&](const Tensor& rows) { return (features(rows) - centre) / spread; }});
  trainer.fit(train, {.epochs = epochs, .batch = 128, .validation = test, .verbose = 2});
  const training::Logs logs = trainer.evaluate(test);
  std::printf("test AUC %.4f, accuracy %.4f (%.4f by saying no), precision %.4f, recall %.4f\n", logs["auc"],
              logs["accuracy"], 1 - share, logs["precision"], logs["recall"]);
  if (options.has("out")) trainer.save(options["out"]);
} catch (const std::exception& error) {
  std::cerr << "credit_default: " << error.what() << "\n";
  return 1;
}
