// What a Trainer says of data that it cannot take as it is: endless sets, batches of several sizes, targets
// that Mixup made or that a metric does not fit, labels of which nothing is known.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "error_check.h"
#include "systole/systole.h"
#include "trainer_fixture.h"

namespace systole {
namespace {

using training::Trainer;
using training::TrainerOptions;
using TrainerMessages = TrainerTest;

void expect_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

// Gives a sample for every number.
struct Endless {
  std::int64_t size() const { return data::kEndless; }
  data::Sample operator[](std::int64_t i) const {
    const float x = static_cast<float>(i % 3);
    return {Literal::of<float>({4}, std::vector<float>{x, 1, -x, 2}),
            Literal::scalar<std::int32_t>(static_cast<std::int32_t>(i % 2))};
  }
};

TEST_F(TrainerMessages, AnEndlessSetThatIsToBeShuffled) {
  Net net = seeded_net();
  training::Trainer trainer(net, "sgd");
  const training::FitOptions options{.epochs = 1, .batch = 5, .steps_per_epoch = 2, .verbose = 0};
  const std::string text = error_of(ErrorKind::kInvalidArgument, [&] { trainer.fit(Endless(), options); });
  expect_all(text, {"without end cannot be shuffled", "shuffle = false", "FitOptions"});
  EXPECT_EQ(text.find("9223372036854775807"), std::string::npos) << text;
  training::FitOptions in_order = options;
  in_order.shuffle = false;
  EXPECT_EQ(trainer.fit(Endless(), in_order).epochs(), 1U);
  data::Loader loader(Endless(), {.batch = 5, .shuffle = false});
  expect_all(error_of(ErrorKind::kInvalidArgument, [&] { loader.order(); }), {"has no end"});
  data::Loader again(source.repeat(), {.batch = 5});  // a repetition has an order
  EXPECT_EQ(again.next()->size(), 5);
}

// Sequences of 2, 3 and 4 rows, which come in batches of one length.
struct Uneven {
  std::int64_t size() const { return 12; }
  data::Sample operator[](std::int64_t i) const {
    const std::int64_t length = 2 + i / 4;
    return {Literal(Type{DType::f32, {length, 4}}), Literal::scalar<std::int32_t>(static_cast<int>(i % 2))};
  }
};
struct Pooled {
  nn::Linear fc{4, 2};
  Tensor forward(const Tensor& x) const { return fc(x.mean(1)); }
};

TEST_F(TrainerMessages, BatchesOfSeveralSizesNameTheSetting) {
  Pooled net;
  training::Trainer trainer(net, "sgd", {.metrics = {"accuracy"}});
  training::FitOptions options{.epochs = 1, .batch = 4, .shuffle = false, .verbose = 0, .steps_per_call = 3};
  expect_all(error_of(ErrorKind::kShape, [&] { trainer.fit(Uneven(), options); }),
             {"field 0", "different types", "steps_per_call = 1", "f32[4,2,4]", "f32[4,3,4]"});
  options.steps_per_call = 1;
  trainer.fit(Uneven(), options);
  EXPECT_EQ(trainer.evaluate(Uneven(), {.batch = 4})["accuracy"], 0.5);  // launches them one by one
}

// Accuracy of numbers that are learned was 0.0000, without a word.
TEST_F(TrainerMessages, AMetricThatDoesNotFitTheTargetsIsRefused) {
  nn::Linear one(4, 1), two(4, 2);
  const auto set = [&](Literal y) { return data::arrays(data.x, std::move(y)); };
  const data::Source numbers = set(Literal({DType::f32, {50, 1}}));
  const auto expect_refused = [&](auto& net, const TrainerOptions& options, const data::Source& given,
                                  const std::vector<std::string>& parts) {
    Trainer trainer(net, "sgd", options);
    for (const bool is_training : {true, false}) {
      const std::string text = error_of(ErrorKind::kInvalidArgument, [&] {
        if (is_training)
          trainer.fit(given, {.epochs = 1, .verbose = 0});
        else
          trainer.evaluate(given);
      });
      for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  };
  for (const char* loss : {"mse", "l1", "huber", "smooth_l1", "log_cosh"})
    for (const char* metric : {"accuracy", "top5", "f1_macro", "auc"})
      expect_refused(one, {.loss = loss, .metrics = {metric}}, numbers,
                     {std::string("metric ") + metric, "the loss learns numbers", "f32[", "mae"});
  expect_refused(two, {.metrics = {"mae"}}, source, {"metric mae", "the targets number classes", "accuracy"});
  expect_refused(two, {.metrics = {"r2"}}, source, {"metric r2", "the targets number classes"});
  // What fits: 0 and 1 as floats, one-hot rows, numbers, and a loss of one's own.
  const auto fit = [&](auto& net, const TrainerOptions& options, const data::Source& given) {
    return Trainer(net, "sgd", options).fit(given, {.epochs = 1, .verbose = 0}).logs["accuracy"];
  };
  EXPECT_GE(fit(one, {.loss = "bce_with_logits", .metrics = {"accuracy"}}, numbers), 0);
  EXPECT_GE(fit(two, {.loss = "mse", .metrics = {"accuracy"}}, set(Literal({DType::f32, {50, 2}}))), 0);
  const auto own = [](const Tensor& out, const Tensor& y) { return bce_with_logits(out, y); };
  EXPECT_GE(fit(one, {.loss = own, .metrics = {"accuracy"}}, numbers), 0);
  Trainer(one, "sgd", {.loss = "mse", .metrics = {"mae", "r2"}}).fit(numbers, {.epochs = 1, .verbose = 0});
}

TEST_F(TrainerMessages, MixupWithoutALossNamesOneForProbabilities) {
  Net net = seeded_net();
  training::Trainer trainer(net, "sgd");
  const training::FitOptions options{
      .epochs = 1, .batch = 10, .augment = {data::Mixup{.alpha = 0.2, .classes = 2}}, .verbose = 0};
  expect_all(error_of(ErrorKind::kDType, [&] { trainer.fit(source, options); }),
             {"none was chosen", "Mixup", "\"cross_entropy\" for probabilities", "TrainerOptions::loss"});
  training::Trainer named(net, "sgd", {.loss = "cross_entropy"});
  named.fit(source, options);
}

}  // namespace
}  // namespace systole
