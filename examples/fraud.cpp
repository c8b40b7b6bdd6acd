// Card payments, one in a hundred of them fraud: a network that counts a fraud as much as a hundred honest
// payments, and a threshold chosen on payments that neither training nor test have seen. Accuracy says
// nothing here ("no fraud" is right for 99 %); what counts is how many alarms are right (precision) and how
// many frauds raise one (recall).
//
//   fraud [--count 40000] [--epochs 8] [--device auto] [--out curve.svg]

#include <systole/systole.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr double kShare = 0.01;

// Amount, distance from home, hour, minutes since the last payment, whether the shop is new, payments of the
// last day. Frauds come in two kinds: many small ones in a row, and a large one far away at night. Each
// number alone tells little: honest people travel and shop at night too.
data::Source made_up(std::int64_t count) {
  std::vector<Tensor> k = random::split(random::key(1), 9);
  const Tensor fraud = random::bernoulli(k[0], kShare, {count}),
               small = random::bernoulli(k[1], 0.5, {count});
  const Tensor serial = (fraud && small).to(DType::f32), large = (fraud && !small).to(DType::f32);
  const auto normal = [&](int i) { return random::normal(k[i], {count}); };
  const Tensor amount = exp(3.5 + normal(2) - 0.8 * serial + 1.6 * large);
  const Tensor distance = exp(1 + 1.5 * normal(3) + 0.5 * serial + 2.5 * large);
  const Tensor hour = mod(14 + 4 * normal(4) + 12 * large, 24);
  const Tensor pause = exp(6 + 1.2 * normal(5) - 3 * serial);
  const Tensor fresh = (random::uniform(k[6], {count}) < 0.2 + 0.5 * (serial + large)).to(DType::f32);
  const Tensor today = floor(exp(0.7 + 0.5 * normal(7) + 1.2 * serial));
  return data::arrays(stack({amount, distance, hour, pause, fresh, today}, 1), fraud.to(DType::f32));
}

// Skewed numbers as logarithms, the hour as a place on its circle.
Tensor features(const Tensor& x) {
  const auto column = [&](int i) { return x[{all, i}]; };
  const Tensor turn = column(2) * (2 * 3.14159265 / 24);
  return stack({log(column(0)) - 3.5, log(column(1)) - 1, sin(turn), cos(turn), log(column(3)) - 6, column(4),
                log1p(column(5)) - 1},
               1);
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv, {{"count", "40000"}, {"epochs", "8"}, {"device", "auto"}, {"out", ""}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const std::vector<data::Source> parts = made_up(options.integer("count")).split({0.6, 0.2, 0.2}, 1);
  const data::Source &train = parts[0], &validation = parts[1], &test = parts[2];

  nn::Sequential model{nn::Linear(7, 32), nn::ReLU(),        nn::Linear(32, 16),
                       nn::ReLU(),        nn::Linear(16, 1), [](const Tensor& x) { return x.squeeze(-1); }};
  training::Trainer trainer(model, optim::Adam(model, {.lr = 3e-3}),
                            {.loss = {"bce_with_logits", {.pos_weight = tensor((1 - kShare) / kShare)}},
                             .metrics = {"auc", "average_precision"},
                             .prepare = features});
  trainer.fit(train,
              {.epochs = options.integer("epochs"), .batch = 256, .validation = validation, .verbose = 2});

  // The threshold with the best F1.
  const metrics::PrecisionRecallCurve curve =
      metrics::precision_recall_curve(trainer.predict(validation), Tensor(validation.columns()[1]));
  double threshold = 0, best = 0;
  for (std::size_t i = 0; i < curve.thresholds.size(); ++i) {
    const double p = curve.precision[i], r = curve.recall[i];
    if (p + r > 0 && 2 * p * r / (p + r) > best) best = 2 * p * r / (p + r), threshold = curve.thresholds[i];
  }

  const Tensor scores = trainer.predict(test), truth(test.columns()[1]);
  const Tensor alarms = scores >= threshold;
  std::printf("test: %lld payments, %lld frauds, %lld alarms at a score of %.2f\n",
              static_cast<long long>(test.size()), static_cast<long long>(sum(truth).item<std::int64_t>()),
              static_cast<long long>(sum(alarms.to(DType::i32)).item<std::int64_t>()), threshold);
  std::printf("precision %.3f, recall %.3f, F1 %.3f, AUC %.4f, average precision %.3f\n",
              metrics::precision(alarms, truth), metrics::recall(alarms, truth), metrics::f1(alarms, truth),
              metrics::roc_auc(scores, truth), metrics::average_precision(scores, truth));
  if (options.has("out"))
    training::chart({{.name = "validation", .x = curve.recall, .y = curve.precision}},
                    {.title = "Precision over recall", .x_label = "recall", .y_label = "precision"})
        .save(options["out"]);
} catch (const std::exception& error) {
  std::cerr << "fraud: " << error.what() << "\n";
  return 1;
}
