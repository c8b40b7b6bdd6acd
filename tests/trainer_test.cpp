// The Trainer against loops written out by hand with the same functions, and its behaviour when things end
// early, go wrong or are resumed.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "error_check.h"
#include "systole/ir/text.h"
#include "systole/systole.h"
#include "train/interrupt.h"
#include "train/late_notice.h"
#include "trainer_fixture.h"

namespace systole {
namespace {

using training::FitOptions;
using training::Trainer;
using training::TrainerOptions;

TEST_F(TrainerTest, FitEqualsALoopByHand) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.1, .momentum = 0.9}), {.metrics = {"accuracy"}});
  const training::FitResult result = trainer.fit(source, {.epochs = 2, .batch = 8, .seed = 5, .verbose = 0});

  Net by_hand = seeded_net();
  optim::SGD opt(by_hand, {.lr = 0.1, .momentum = 0.9});
  std::vector<double> losses;
  for (int epoch = 0; epoch < 2; ++epoch) {
    const std::vector<std::int64_t> order = data::permutation(50, 5, epoch);
    double sum = 0;
    for (std::size_t first = 0; first < 50; first += 8) {
      const std::size_t count = std::min<std::size_t>(8, 50 - first);
      const std::vector<Literal> batch = source.read(std::span(order).subspan(first, count));
      const Tensor x(batch[0]), y(batch[1]);
      auto [loss, grads] =
          value_and_grad([&] { return cross_entropy(by_hand.forward(x), y); }, parameters(by_hand));
      opt.update(grads);
      sum += loss.item<double>() * static_cast<double>(count);
    }
    losses.push_back(sum / 50);
  }
  const std::vector<float> got = flat(parameters(net)), wanted = flat(parameters(by_hand));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
  EXPECT_EQ(result.epochs(), 2u);
  EXPECT_NEAR(result["loss"][0], losses[0], 1e-6);
  EXPECT_NEAR(result["loss"][1], losses[1], 1e-6);
  EXPECT_LT(result["loss"][1], result["loss"][0]);
  EXPECT_GT(result.logs["accuracy"], 0.5);
}

TEST_F(TrainerTest, TheNumberOfStepsPerLaunchChangesNothing) {
  std::vector<std::vector<float>> ends;
  for (const std::int64_t per_call : {1, 2, 4, 0}) {
    Net net = seeded_net();
    Trainer trainer(net, optim::Adam(net));
    trainer.fit(source, {.epochs = 2, .batch = 8, .verbose = 0, .steps_per_call = per_call});
    ends.push_back(flat(parameters(net)));
  }
  for (const auto& end : ends) EXPECT_EQ(end, ends[0]);
}

TEST_F(TrainerTest, DataOnTheDeviceAndDataFromALoaderGiveTheSame) {
  std::vector<std::vector<float>> ends;
  for (const std::int64_t bytes : {std::int64_t{1} << 20, std::int64_t{0}}) {
    Net net = seeded_net();
    Trainer trainer(net, optim::Adam(net), {.metrics = {"accuracy"}});
    trainer.fit(source, {.epochs = 2, .batch = 8, .verbose = 0, .device_bytes = bytes});
    ends.push_back(flat(parameters(net)));
  }
  EXPECT_EQ(ends[0], ends[1]);
}

// A model without chance: scores are the inputs.
struct Identity {
  Variable scale{Tensor(Literal::scalar<float>(1))};
  Tensor forward(const Tensor& x) const { return x * scale; }
};

TEST_F(TrainerTest, EvaluateGivesTheMeanLossAndTheMetrics) {
  Identity model;
  Trainer trainer(model, optim::SGD(model), {.metrics = {"accuracy", "f1_macro"}});
  // Rows [2,0], [0,1], [0,3] with labels 0, 0, 1: losses log(1+e^-2), log(1+e), log(1+e^-3).
  const Tensor x = tensor({{2, 0}, {0, 1}, {0, 3}}, DType::f32), y = tensor({0, 0, 1});
  const training::Logs logs = trainer.evaluate(x, y, {.batch = 2});
  EXPECT_NEAR(logs["loss"],
              (std::log1p(std::exp(-2)) + std::log1p(std::exp(1)) + std::log1p(std::exp(-3))) / 3, 1e-6);
  EXPECT_NEAR(logs["accuracy"], 2.0 / 3, 1e-6);
  EXPECT_NEAR(logs["f1_macro"], 2.0 / 3, 1e-6);  // class 0: 2·1·½/1½, class 1: 2·½·1/1½
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { logs["acuracy"]; }).find("accuracy"), std::string::npos);
  EXPECT_EQ(trainer.predict(x, {.batch = 2}).to_vector<float>(), x.to_vector<float>());
}

TEST_F(TrainerTest, ValidationSplitKeepsTheEnd) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.0}));
  const training::FitResult result =
      trainer.fit(source, {.epochs = 1, .batch = 10, .validation_split = 0.2, .verbose = 0});
  EXPECT_NEAR(result["loss"][0], trainer.evaluate(source.take(40))["loss"], 1e-6);
  EXPECT_NEAR(result["val_loss"][0], trainer.evaluate(source.skip(40))["loss"], 1e-6);
}

TEST_F(TrainerTest, DataThatRunsOutIsReported) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net));
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view message) { warnings.emplace_back(message); }, LogLevel::warn);
  const training::FitResult result =
      trainer.fit(source, {.epochs = 1, .batch = 10, .steps_per_epoch = 9, .verbose = 0});
  set_log_sink({});
  EXPECT_TRUE(result.ran_out);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("it has 5 steps of 10 samples, steps_per_epoch is 9"), std::string::npos)
      << warnings[0];
  // Endless data has as many as are asked for.
  const training::FitResult endless =
      trainer.fit(source.repeat(), {.epochs = 1, .batch = 10, .steps_per_epoch = 9, .verbose = 0});
  EXPECT_FALSE(endless.ran_out);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { trainer.fit(source.repeat(), {.verbose = 0}); })
                .find("steps_per_epoch"),
            std::string::npos);
}

TEST_F(TrainerTest, LinesArePlainWithoutATerminal) {
  Net net = seeded_net();
  Trainer trainer(net, optim::Adam(net), {.metrics = {"accuracy"}});
  std::ostringstream out;
  trainer.fit(source, {.epochs = 2, .batch = 10, .validation = source, .out = &out});
  const std::string text = out.str();
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("epoch 2/2"), std::string::npos) << text;
  EXPECT_NE(text.find("val_accuracy 0."), std::string::npos) << text;
}

TEST_F(TrainerTest, CallbacksSeeStopAndSchedule) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.1}));
  const Scratch folder;
  std::vector<double> rates;
  const training::FitResult result = trainer.fit(
      source,
      {.epochs = 10,
       .batch = 10,
       .verbose = 0,
       .callbacks = {
           training::schedule([](std::int64_t epoch, double lr) { return epoch == 1 ? lr : lr / 2; }),
           training::csv_log(folder.path() / "log.csv"), training::on_epoch_end([&](training::Run& run) {
             rates.push_back(run.lr());
             if (run.epoch() == 3) run.stop("enough");
           })}});
  EXPECT_EQ(result.stopped, "enough");
  EXPECT_EQ(result.epochs(), 3u);
  ASSERT_EQ(rates.size(), 3u);
  EXPECT_NEAR(rates[2], 0.025, 1e-9);
  EXPECT_EQ(training::History::read_csv(folder.path() / "log.csv")["loss"], result["loss"]);
}

// Learns for two epochs; then its weights are turned round after every launch.
TEST_F(TrainerTest, EarlyStoppingBringsTheBestWeightsBack) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.1}));
  std::vector<std::vector<float>> after;
  const auto spoil = [&](training::Run& run) {
    if (run.epoch() > 2) net.fc2.weight.assign(Tensor(net.fc2.weight) * -9);
  };
  const training::FitResult result = trainer.fit(
      source, {.epochs = 20,
               .batch = 50,
               .validation = source,
               .verbose = 0,
               .callbacks = {training::on_steps_end(spoil), training::on_epoch_end([&](training::Run&) {
                               after.push_back(flat(parameters(net)));
                             }),
                             training::early_stopping({.patience = 2, .restore_best = true})}});
  EXPECT_EQ(result.epochs(), 4u);
  EXPECT_NE(result.stopped.find("val_loss"), std::string::npos) << result.stopped;
  EXPECT_EQ(flat(parameters(net)), after[1]);
}

TEST_F(TrainerTest, AccumulatedGradientsAreThoseOfALargerBatch) {
  std::vector<std::vector<float>> ends;
  for (const std::int64_t accumulate : {1, 2}) {
    Net net = seeded_net();
    Trainer trainer(net, optim::SGD(net, {.lr = 0.1}), {.accumulate = accumulate});
    trainer.fit(source.take(40), {.epochs = 1, .batch = 8 / accumulate, .verbose = 0});
    ends.push_back(flat(parameters(net)));
  }
  for (std::size_t i = 0; i < ends[0].size(); ++i) EXPECT_NEAR(ends[0][i], ends[1][i], 1e-6);
}

TEST_F(TrainerTest, TheAverageServesInEvaluation) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.5}), {.ema = 0.5});
  trainer.fit(source, {.epochs = 1, .batch = 25, .verbose = 0});  // two steps: the average is half of both
  const std::vector<float> weights = flat(parameters(net));
  const double averaged = trainer.evaluate(source)["loss"];
  EXPECT_EQ(flat(parameters(net)), weights);
  Trainer plain(net, optim::SGD(net));
  EXPECT_NE(averaged, plain.evaluate(source)["loss"]);
}

// Adds one field to another, and a target of its own: fields are arguments.
struct TwoInputs {
  nn::Linear fc{4, 2};
  Tensor forward(const Tensor& a, const Tensor& b) const { return fc(a + b); }
};

TEST_F(TrainerTest, FieldsAreArgumentsAndAloneTheyAreTheirOwnTarget) {
  TwoInputs two;
  Trainer trainer(two, optim::Adam(two));
  const data::Source three = data::arrays(data.x, data.x, data.y);
  EXPECT_GT(trainer.fit(three, {.epochs = 1, .batch = 10, .verbose = 0}).logs["loss"], 0);
  EXPECT_NE(
      error_of(ErrorKind::kInvalidArgument, [&] { trainer.fit(source, {.verbose = 0}); }).find("forward"),
      std::string::npos);

  nn::Sequential coder{nn::Linear(4, 2), nn::Linear(2, 4)};
  Trainer autoencoder(coder, "adam", {.loss = "mse"});
  EXPECT_GT(autoencoder.fit(data::arrays(data.x), {.epochs = 1, .batch = 10, .verbose = 0}).logs["loss"], 0);

  Trainer own(two, "adam", {.step = [&](std::span<const Tensor> fields) -> training::Outcome {
                return {mean(square(two.forward(fields[0], fields[0])))};
              }});
  EXPECT_GT(own.fit(source, {.epochs = 1, .batch = 10, .verbose = 0}).logs["loss"], 0);
}

// Where a sum of the row falls below 0, the logarithm has no value.
struct Logarithm {
  nn::Linear fc{4, 2};
  Tensor forward(const Tensor& x) const { return fc(x) + sum(log(x[{all, slice(0, 1)}] + 1.5), 1, true); }
};

TEST_F(TrainerTest, TheFirstBadOpIsNamedAndTheWeightsStay) {
  random::seed(1);
  Logarithm model;
  Trainer trainer(model, optim::SGD(model, {.lr = 0.1}));
  const std::vector<float> before = flat(parameters(model));
  try {
    trainer.fit(source, {.epochs = 1, .batch = 50, .verbose = 0});
    FAIL() << "it trained";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("epoch 1, step 1"), std::string::npos) << text;
    EXPECT_NE(text.find("log of f32[50,1] gives nan"), std::string::npos) << text;
  }
  EXPECT_EQ(flat(parameters(model)), before);
  // The trainer goes on with data that is fine.
  std::vector<std::int64_t> fine;
  for (std::int64_t i = 0; i < 50; ++i)
    if (data.x.values<float>()[static_cast<std::size_t>(i * 4)] > -1) fine.push_back(i);
  EXPECT_GT(trainer.fit(source.select(fine), {.epochs = 1, .batch = 8, .verbose = 0}).logs["loss"], 0);
}

// sqrt has an infinite derivative at 0, which a loss of finite numbers does not show.
struct Root {
  Variable w{Tensor(Literal::scalar<float>(0)), "w"};
  Tensor forward(const Tensor& x) const { return sqrt(square(w.value())) + x * 0; }
};
TEST_F(TrainerTest, BadGradientsAreFoundToo) {
  Root model;
  Trainer trainer(model, optim::SGD(model),
                  {.loss = [](const Tensor& out, const Tensor&) { return mean(out); }});
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { trainer.fit(source, {.batch = 50, .verbose = 0}); })
                .find("in the gradient"),
            std::string::npos);
  EXPECT_EQ(model.w.item<float>(), 0);
}

TEST_F(TrainerTest, MixedPrecisionLearns) {
  for (const training::Precision precision : {training::Precision::bf16, training::Precision::f16}) {
    Net net = seeded_net();
    Trainer trainer(net, optim::Adam(net, {.lr = 0.01}), {.metrics = {"accuracy"}, .precision = precision});
    const training::FitResult result = trainer.fit(source, {.epochs = 10, .batch = 10, .verbose = 0});
    EXPECT_LT(result.logs["loss"], 0.8 * result["loss"][0]);
    EXPECT_EQ(net.fc1.weight.dtype(), DType::f32);
  }
}

struct Crash : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// With dropout, a schedule and momentum, so that every kind of state counts.
struct DropNet {
  nn::Linear fc1{4, 8};
  nn::Dropout drop{0.3};
  nn::BatchNorm norm{8};
  nn::Linear fc2{8, 2};
  Tensor forward(const Tensor& x) const { return fc2(norm(drop(relu(fc1(x))))); }
};

std::vector<float> trained(const data::Source& source, const std::filesystem::path& folder,
                           std::int64_t crash_at, training::History* history = nullptr) {
  random::seed(4);
  DropNet net;
  Trainer trainer(net, optim::Adam(net, {.lr = optim::schedules::cosine(0.01, 20)}),
                  {.metrics = {"accuracy"}, .ema = 0.9});
  FitOptions options{.epochs = 4, .batch = 8, .validation = source, .verbose = 0};
  options.callbacks = {training::early_stopping({.patience = 100, .restore_best = true})};
  options.steps_per_call = 2;
  if (!folder.empty()) options.checkpoints = {.folder = folder, .every_steps = 2};
  if (crash_at > 0)
    options.callbacks.push_back(training::on_steps_end([&](training::Run& run) {
      if (run.step() >= crash_at) throw Crash("crash");
    }));
  else
    options.callbacks.push_back(training::on_steps_end([](training::Run&) {}));
  training::FitResult result = trainer.fit(source, options);
  if (history != nullptr) *history = result;
  return flat(variables(net));
}

TEST_F(TrainerTest, ResumedRunsEndWithTheSameWeights) {
  training::History whole, resumed;
  const std::vector<float> expected = trained(source, {}, 0, &whole);
  for (const std::int64_t crash_at : {1, 6, 9, 14, 27}) {
    const Scratch folder;
    EXPECT_THROW(trained(source, folder.path(), crash_at), Crash);
    EXPECT_EQ(trained(source, folder.path(), 0, &resumed), expected) << crash_at;
    for (const char* column : {"loss", "accuracy", "val_loss", "lr"})
      EXPECT_EQ(resumed[column], whole[column]) << crash_at << " " << column;
  }
}

TEST_F(TrainerTest, CheckpointsOfOtherSettingsAreRefused) {
  const Scratch folder;
  Net net = seeded_net();
  Trainer trainer(net, optim::Adam(net));
  trainer.fit(source, {.epochs = 1, .batch = 8, .verbose = 0, .checkpoints = {.folder = folder.path()}});
  EXPECT_NE(
      error_of(
          ErrorKind::kInvalidArgument,
          [&] { trainer.fit(source, {.batch = 10, .verbose = 0, .checkpoints = {.folder = folder.path()}}); })
          .find("other settings"),
      std::string::npos);
}

TEST_F(TrainerTest, ASecondTrainingInTheFolderIsRefusedAndTheFirstGoesOn) {
  const Scratch folder;
  Net expected = seeded_net();
  FitOptions options{.epochs = 2, .batch = 8, .verbose = 0};
  options.callbacks = {training::on_steps_end([](training::Run&) {})};
  Trainer(expected, optim::Adam(expected)).fit(source, options);

  options.checkpoints.folder = folder.path();
  std::string message, fresh;
  FitOptions first = options;
  first.callbacks = {training::on_epoch_end([&](training::Run& run) {
    if (run.epoch() != 1) return;
    Net other;
    Trainer second(other, optim::Adam(other));
    message = error_of(ErrorKind::kIo, [&] { second.fit(source, options); });
    FitOptions begins = options;
    begins.checkpoints.resume = training::Resume::fresh;
    fresh = error_of(ErrorKind::kIo, [&] { second.fit(source, begins); });
    training::CheckpointFolder(folder.path()).save_best(run.step(), run.trainer().weights());
  })};
  Net net = seeded_net();
  Trainer trainer(net, optim::Adam(net));
  trainer.fit(source, first);
  for (const std::string& text : {message, fresh})
    EXPECT_NE(text.find("process " + std::to_string(::getpid()) + " on host "), std::string::npos) << text;
  EXPECT_EQ(flat(parameters(net)), flat(parameters(expected)));
  // The folder is free again.
  Net again;
  Trainer third(again, optim::Adam(again));
  EXPECT_TRUE(third.fit(source, options).resumed);
  EXPECT_EQ(flat(parameters(again)), flat(parameters(expected)));
}

TEST_F(TrainerTest, CtrlCEndsAfterTheLaunchWithACheckpoint) {
  const Scratch folder;
  FitOptions options{.epochs = 3, .batch = 8, .verbose = 0, .checkpoints = {.folder = folder.path()}};
  options.steps_per_call = 2;
  Net expected = seeded_net();
  Trainer(expected, optim::Adam(expected))
      .fit(source, {.epochs = 3, .batch = 8, .verbose = 0, .steps_per_call = 2});

  Net net = seeded_net();
  FitOptions stopping = options;
  stopping.callbacks = {training::on_steps_end([](training::Run& run) {
    if (run.step() == 4) std::raise(SIGINT);
  })};
  options.callbacks = {training::on_steps_end([](training::Run&) {})};
  {
    Trainer trainer(net, optim::Adam(net));
    EXPECT_TRUE(trainer.fit(source, stopping).interrupted);
  }
  Net again = seeded_net();
  Trainer trainer(again, optim::Adam(again));
  const training::FitResult result = trainer.fit(source, options);
  EXPECT_TRUE(result.resumed);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(flat(parameters(again)), flat(parameters(expected)));
}

// One of the signals at the step, by a callback that nothing is issued ahead of.
training::CallbackRef raise_at(std::int64_t step, int signal) {
  return training::on_steps_end([=](training::Run& run) {
    if (run.step() == step) std::raise(signal);
  });
}

TEST_F(TrainerTest, SigtermInterruptsLikeCtrlCAndTheProgramGoesOn) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const Scratch folder;
    FitOptions options{.epochs = 3, .batch = 8, .verbose = 0, .checkpoints = {.folder = folder.path()}};
    options.steps_per_call = 2;
    options.callbacks = {raise_at(4, signal)};
    Net net = seeded_net();
    Trainer trainer(net, optim::Adam(net));
    const training::FitResult result = trainer.fit(source, options);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.signal, signal);
    EXPECT_EQ(training::CheckpointFolder(folder.path()).list().back().step, 4);
    options.callbacks = {training::on_steps_end([](training::Run&) {})};
    EXPECT_EQ(trainer.fit(source, options).signal, 0);
  }
}

// Data that says when a sample is read.
struct Watched {
  Points points;
  std::function<void(std::int64_t)> read;
  std::int64_t size() const { return points.y.shape()[0].value(); }
  std::pair<Literal, Literal> operator[](std::int64_t i) const {
    if (read) read(i);
    const auto at = static_cast<std::size_t>(i);
    return {Literal::of<float>({4}, points.x.values<float>().subspan(4 * at, 4)),
            Literal::scalar(points.y.values<std::int32_t>()[at])};
  }
};

// The checkpoint does not wait for the validation, which is made up for when the training goes on: wherever
// the signal comes, the two parts are the whole.
TEST_F(TrainerTest, ASignalAtTheEndOfAnEpochOrInItsValidationLosesNothing) {
  struct Hooks {
    std::function<void(std::int64_t)> read;
    std::function<void()> measured;
    std::int64_t step = -1;
  };
  const auto fit = [&](const Hooks& hooks, const std::filesystem::path& folder) {
    Net net = seeded_net();
    const metrics::Metric last{.name = "last", .of_all = [&](const auto& output, const auto&) {
                                 if (hooks.measured) hooks.measured();
                                 return static_cast<double>(output.shape()[0].value());
                               }};
    Trainer trainer(net, optim::Adam(net), {.metrics = {"accuracy", last}});
    FitOptions options{.epochs = 3, .batch = 8, .validation = Watched{points(40), hooks.read}, .verbose = 0};
    options.steps_per_call = 2;
    options.checkpoints.folder = folder;
    options.callbacks = {raise_at(hooks.step, SIGTERM)};
    const training::FitResult result = trainer.fit(source, options);
    return std::pair(result, flat(variables(net)));
  };
  const auto [whole, expected] = fit({}, {});
  std::atomic<int> reads = 0, measures = 0;
  const Hooks moments[] = {{.step = 7},   // the last of the first epoch
                           {.step = 21},  // the last of all
                           {.read =
                                [&](std::int64_t i) {
                                  if (i == 39 && ++reads == 2) std::raise(SIGTERM);
                                }},
                           {.measured = [&] {
                             if (++measures == 2) std::raise(SIGTERM);
                           }}};
  for (const Hooks& hooks : moments) {
    const Scratch folder;
    const training::FitResult cut = fit(hooks, folder.path()).first;
    EXPECT_TRUE(cut.interrupted);
    EXPECT_EQ(cut.signal, SIGTERM);
    const auto [rest, got] = fit({}, folder.path());
    EXPECT_TRUE(rest.resumed);
    EXPECT_EQ(got, expected);
    for (const char* column : {"loss", "val_loss", "val_accuracy", "val_last"})
      EXPECT_EQ(rest[column], whole[column]) << column;
  }
}

// Nothing is left to do when the signal comes, and who sent it is told all the same.
TEST_F(TrainerTest, ASignalInTheLastCheckpointOrWhileCallbacksEndIsReported) {
  struct AtTheEnd final : training::Callback {
    std::function<void()> work;
    void end(training::Run&) override {
      if (work) work();
    }
  };
  enum class Moment { none, end, save, early_stop };
  const auto fit = [&](Moment moment, const std::filesystem::path& folder) {
    Net net = seeded_net();
    Trainer trainer(net, optim::Adam(net));
    FitOptions options{.epochs = 3, .batch = 8, .verbose = 0};
    options.checkpoints.folder = folder;
    const auto at_end = std::make_shared<AtTheEnd>();
    if (moment == Moment::end) at_end->work = [] { std::raise(SIGTERM); };
    options.callbacks = {at_end, training::on_epoch_end([=](training::Run& run) {
                           const bool stops = run.epoch() == 2 && moment == Moment::early_stop;
                           if (stops) run.stop("enough");
                           if (!stops && (run.epoch() != 3 || moment != Moment::save)) return;
                           set_file_fault([is_done = std::make_shared<bool>(false)](FileStep step) {
                             if (step == FileStep::write && !std::exchange(*is_done, true))
                               std::raise(SIGTERM);
                             return 0;
                           });
                         })};
    const training::FitResult result = trainer.fit(source, options);
    set_file_fault({});
    return std::pair(result, flat(variables(net)));
  };
  const auto expected = fit(Moment::none, {}).second;
  for (const Moment moment : {Moment::end, Moment::save, Moment::early_stop}) {
    SCOPED_TRACE(static_cast<int>(moment));
    const Scratch folder;
    const training::FitResult cut = fit(moment, folder.path()).first;
    EXPECT_TRUE(cut.interrupted);
    EXPECT_EQ(cut.signal, SIGTERM);
    const auto [rest, got] = fit(Moment::none, folder.path());
    EXPECT_TRUE(rest.resumed);
    EXPECT_FALSE(rest.interrupted);
    EXPECT_EQ(rest.signal, 0);
    EXPECT_EQ(rest.epochs(), 3u);
    EXPECT_EQ(got, expected);
  }
}

// A step that takes longer than a container engine waits: it is said before the process is killed.
TEST_F(TrainerTest, ACheckpointThatIsLateIsReportedWhileItIsAwaited) {
  const training::InterruptScope interrupt(true);
  std::promise<std::string> said;
  set_log_sink([&](LogLevel, std::string_view line) { said.set_value(std::string(line)); }, LogLevel::warn);
  {
    const training::LateNotice unneeded(
        interrupt, [](double) { return "never"; }, std::chrono::milliseconds(1));
    const training::LateNotice notice(
        interrupt, [](double seconds) { return "late by " + std::to_string(seconds >= 0.05); },
        std::chrono::milliseconds(50));
  }
  {
    const training::LateNotice notice(
        interrupt, [](double seconds) { return "late by " + std::to_string(seconds >= 0.05); },
        std::chrono::milliseconds(50));
    std::raise(SIGTERM);
    EXPECT_EQ(said.get_future().get(), "late by 1");
  }
  set_log_sink({});
}

// As Docker does that waits: the second one ends the process, whatever the training is doing.
TEST_F(TrainerTest, ASecondSignalEndsTheProcessAtOnce) {
  for (const auto& [first, second] : {std::pair{SIGTERM, SIGTERM}, {SIGTERM, SIGINT}, {SIGINT, SIGTERM}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      const training::InterruptScope interrupt(true);
      std::raise(first);
      if (!interrupt.requested() || interrupt.signal() != first) ::_exit(1);
      std::raise(second);
      ::_exit(2);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), second);
  }
  // What the program had set is there again.
  static std::atomic<int> own = 0;
  std::signal(SIGTERM, [](int) { ++own; });
  {
    const training::InterruptScope interrupt(true);
  }
  std::raise(SIGTERM);
  EXPECT_EQ(own, 1);
  std::signal(SIGTERM, SIG_DFL);
}

TEST_F(TrainerTest, ASavedModelPredictsTheSame) {
  const Scratch folder;
  const data::Digits digits = data::digits(40, 1);
  random::seed(2);
  nn::Sequential model{nn::Flatten(), nn::Linear(784, 10)};
  Trainer trainer(model, "adam", {.metrics = {"accuracy"}});
  trainer.fit(Tensor(digits.images), Tensor(digits.labels), {.epochs = 2, .batch = 10, .verbose = 0});
  trainer.save(folder.path() / "m.safetensors");
  const SavedModel loaded = load(folder.path() / "m.safetensors");
  const Tensor x = Tensor(data::digits(7, 9).images);
  const std::vector<float> got = loaded(x).to_vector<float>(), wanted = trainer.predict(x).to_vector<float>();
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5);
}

// The sums of integers in a graph that are in 64 bits, for which devices are slow.
void find_wide_sums(const ir::Graph& graph, std::vector<std::string>& found) {
  for (const ir::Node& node : graph.nodes()) {
    for (const ir::GraphRef& body : node.graphs) find_wide_sums(*body, found);
    if (node.op != ir::Op::reduce && node.op != ir::Op::cumulative) continue;
    if (node.types[0].dtype == DType::i64 || node.types[0].dtype == DType::u64)
      found.push_back(std::string(ir::name(node.op)) + " " + node.types[0].to_string());
  }
}

TEST_F(TrainerTest, AStepSumsNoIntegersInSixtyFourBits) {
  const Scratch dump;
  std::vector<std::int64_t> labels;
  for (const std::int32_t label : data.y.values<std::int32_t>()) labels.push_back(label);
  labels[3] = -100;
  const data::Source wide = data::arrays(data.x, Literal::of<std::int64_t>({50}, labels));
  const data::Source narrow = data::arrays(
      data.x, Literal::of<std::int32_t>({50}, std::vector<std::int32_t>(labels.begin(), labels.end())));
  ::setenv("SYSTOLE_DUMP", dump.path().c_str(), 1);
  for (const data::Source& set : {wide, narrow})
    for (const losses::Settings& settings :
         {losses::Settings{.ignore_index = -100},
          losses::Settings{
              .label_smoothing = 0.1, .ignore_index = -100, .class_weights = tensor({1.0, 2.0})}}) {
      Net net = seeded_net();
      Trainer trainer(net, "adam",
                      {.loss = training::Loss("cross_entropy", settings), .metrics = {"accuracy", "top5"}});
      trainer.fit(set, {.epochs = 1, .verbose = 0});
      trainer.evaluate(set);
    }
  ::unsetenv("SYSTOLE_DUMP");
  int steps = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dump.path())) {
    const std::string name = entry.path().filename().string();
    if (name.find("_step-input.sir") == std::string::npos) continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::vector<std::string> found;
    find_wide_sums(ir::parse(text, name), found);
    EXPECT_TRUE(found.empty()) << name << ": " << found[0];
    ++steps;
  }
  EXPECT_GE(steps, 8);  // of training and of evaluation, four times
}

TEST_F(TrainerTest, RobertaCountsItsPositionsInThirtyTwoBits) {
  const nn::models::Bert model(
      {.layers = 1, .width = 8, .heads = 2, .vocabulary = 30, .length = 12, .padding = 1}, false);
  const auto forward = compile([&](const Tensor& words) { return model.forward({.words = words}); });
  std::vector<std::string> found;
  find_wide_sums(forward.graph(zeros({2, 6}, DType::i32)), found);
  EXPECT_TRUE(found.empty()) << found[0];
}

TEST_F(TrainerTest, WrongOptionsSayWhatTheyMean) {
  Net net = seeded_net();
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { Trainer(net, "adm"); }).find("adam"), std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { Trainer(net, "adam", {.loss = "cros_entropy"}); })
                .find("cross_entropy"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { Trainer(net, "adam", {.metrics = {"acuracy"}}); })
                .find("accuracy"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { Trainer(net, "adam", {.accumulate = 0}); })
                .find("accumulate"),
            std::string::npos);
  Trainer trainer(net, "adam");
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { trainer.fit(source, {.batch = 0}); }).find("batch"),
            std::string::npos);
  EXPECT_NE(error_of(ErrorKind::kInvalidArgument, [&] { trainer.fit(data::Source()); }).find("no data"),
            std::string::npos);
}

}  // namespace
}  // namespace systole
