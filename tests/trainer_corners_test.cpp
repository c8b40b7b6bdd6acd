// The Trainer where settings change between runs, callbacks end it, samples differ in size or numbers are
// meant to be infinite.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "error_check.h"
#include "systole/systole.h"
#include "trainer_fixture.h"

namespace systole {
namespace {

using training::FitOptions;
using training::Trainer;
using training::TrainerOptions;

class TrainerCorners : public TrainerTest {};

struct Outcome {
  std::vector<float> weights;
  training::FitResult result;
};

Outcome trained(const data::Source& source, FitOptions options, const TrainerOptions& trainer_options = {}) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.1}), trainer_options);
  options.verbose = 0;
  options.batch = 8;
  training::FitResult result = trainer.fit(source, options);
  return {flat(parameters(net)), std::move(result)};
}

// Seven steps an epoch; the first run ends within its second epoch.
FitOptions stopped_at(const std::filesystem::path& folder, std::int64_t step, std::int64_t steps_per_call) {
  FitOptions options{.epochs = 3, .checkpoints = {.folder = folder}};
  options.steps_per_call = steps_per_call;
  if (step > 0)
    options.callbacks.push_back(training::on_steps_end([step](training::Run& run) {
      if (run.step() >= step) run.stop("time is up");
    }));
  return options;
}

TEST_F(TrainerCorners, ARunThatACallbackStoppedGoesOnWhereItWas) {
  const Outcome whole = trained(source, stopped_at({}, 0, 2));
  const Scratch folder;
  const Outcome part = trained(source, stopped_at(folder.path(), 10, 2));
  EXPECT_EQ(part.result.stopped, "time is up");
  EXPECT_EQ(part.result.epochs(), 2u);
  const Outcome rest = trained(source, stopped_at(folder.path(), 0, 2));
  EXPECT_TRUE(rest.result.resumed);
  EXPECT_EQ(rest.weights, whole.weights);
  EXPECT_EQ(rest.result["loss"], whole.result["loss"]);
  // All is done: nothing changes, and the numbers are there.
  const Outcome again = trained(source, stopped_at(folder.path(), 0, 2));
  EXPECT_EQ(again.weights, whole.weights);
  EXPECT_EQ(again.result.logs["loss"], whole.result.logs["loss"]);
}

TEST_F(TrainerCorners, LaunchesMayHaveAnotherSizeWhenItGoesOn) {
  const Outcome whole = trained(source, stopped_at({}, 0, 1));
  for (const auto& [first, second] : {std::pair{1, 3}, {2, 5}, {5, 2}}) {
    const Scratch folder;
    trained(source, stopped_at(folder.path(), 9, first));
    EXPECT_EQ(trained(source, stopped_at(folder.path(), 0, second)).weights, whole.weights) << first;
  }
}

// A checkpoint with the right checksum and wrong text: the file's folder, step and key are named.
TEST_F(TrainerCorners, NumbersOfACheckpointThatAreNoneAreRefusedByTheirKey) {
  const std::pair<const char*, const char*> wrong[] = {
      {"epoch", "abc"},
      {"epoch", "-1"},
      {"done", "99999999999999999999"},
      {"done", ""},
      {"sums", ""},
      {"sums", "0x1p+0 0x1p+0 0x1p+0 0x1p+0 0x1p+0 0x1p+0 0x1p+0 0x1p+0"},
      {"epoch", "0"},
      {"done", "99"},
      {"sums", "abc 0x1p+0"},
      {"sums", "0x1p+0 0x1p+3x"},
      {"sums", "0x1p+0 -0x1p+0"}};
  for (const auto& [key, text] : wrong) {
    const Scratch folder;
    trained(source, stopped_at(folder.path(), 9, 2));
    {
      training::CheckpointFolder files(folder.path());
      training::Checkpoint checkpoint = *files.load();
      checkpoint.metadata[key] = text;
      files.write(checkpoint);
    }
    const std::string message =
        error_of(ErrorKind::kParse, [&] { trained(source, stopped_at(folder.path(), 0, 2)); });
    EXPECT_NE(message.find(folder.path().string()), std::string::npos) << message;
    EXPECT_NE(message.find(std::string("\"") + key + "\""), std::string::npos) << message;
  }
}

TEST_F(TrainerCorners, StatesOfCallbacksThatAreNoneAreRefusedByTheirName) {
  const std::tuple<const char*, training::CallbackRef, const char*> wrong[] = {
      {"early_stopping", training::early_stopping({.monitor = "loss"}), "1 2 0 abc loss"},
      {"early_stopping", training::early_stopping({.monitor = "loss"}), "x 2"},
      {"reduce_on_plateau", training::reduce_on_plateau({.monitor = "loss"}), "0 1 0x1p loss"},
      {"reduce_on_plateau", training::reduce_on_plateau({.monitor = "loss"}), "-1 "}};
  for (const auto& [name, callback, text] : wrong) {
    const Scratch folder;
    FitOptions options{.epochs = 2, .checkpoints = {.folder = folder.path()}};
    options.callbacks = {callback};
    trained(source, options);
    const std::string key = std::string("callback.") + name + ".0.state";
    {
      training::CheckpointFolder files(folder.path());
      training::Checkpoint checkpoint = *files.load();
      ASSERT_TRUE(checkpoint.metadata.contains(key));
      checkpoint.metadata[key] = text;
      files.write(checkpoint);
    }
    options.epochs = 4;
    const std::string message = error_of(ErrorKind::kParse, [&] { trained(source, options); });
    EXPECT_NE(message.find(folder.path().string()), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST_F(TrainerCorners, OtherStepsAreAnotherTraining) {
  const Scratch folder;
  trained(source, stopped_at(folder.path(), 9, 2));
  const std::array<TrainerOptions, 4> others = {
      {{.metrics = {"accuracy"}}, {.clip_norm = 1}, {.accumulate = 2}, {.ema = 0.5}}};
  for (const TrainerOptions& other : others)
    EXPECT_NE(error_of(ErrorKind::kInvalidArgument,
                       [&] { trained(source, stopped_at(folder.path(), 0, 2), other); })
                  .find("other settings"),
              std::string::npos);
}

TEST_F(TrainerCorners, ACheckpointOfAnotherRunIsRefusedWithWhatDiffers) {
  const Scratch folder;
  const auto fit = [&](auto model, const data::Source& set, std::int64_t batch, auto optimizer) {
    Trainer trainer(model, optimizer(model));
    trainer.fit(set, {.epochs = 1, .batch = batch, .verbose = 0, .checkpoints = {.folder = folder.path()}});
  };
  const auto adam = [](auto& model) { return optim::Adam(model); };
  const auto sgd = [](auto& model) { return optim::SGD(model, {.momentum = 0.5}); };
  fit(nn::Linear(4, 2), source, 8, adam);
  const auto refused = [&](auto model, const data::Source& set, std::int64_t batch, auto optimizer) {
    return error_of(ErrorKind::kInvalidArgument, [&] { fit(model, set, batch, optimizer); });
  };
  const std::string advice =
      "; expected another folder, or Resume::fresh, which removes them and begins again";
  const std::string name = folder.path().string() + ": its checkpoints are of ";
  EXPECT_EQ(
      refused(nn::Linear(4, 3), source, 8, adam),
      name + "another model: model.weight was f32[2,4] and is f32[3,4]; model.bias was f32[2] and is f32[3]" +
          advice);
  EXPECT_EQ(refused(nn::Linear(4, 2, {.bias = false}), source, 8, adam),
            name + "another model: model.bias was f32[2] and is missing" + advice);
  EXPECT_EQ(refused(nn::Linear(4, 2), source, 10, adam),
            name + "a run with other settings: batch was 8 and is 10" + advice);
  const std::string optimiser = refused(nn::Linear(4, 2), source, 8, sgd);
  EXPECT_TRUE(optimiser.starts_with(name + "another optimiser: optimizer.")) << optimiser;
  const data::Source other = source.map([](data::Sample s) {
    for (float& x : s[0].mutable_values<float>()) x += 1;
    return s;
  });
  EXPECT_EQ(refused(nn::Linear(4, 2), other, 8, adam),
            name + "other data: the samples are not the same" + advice);
}

TEST_F(TrainerCorners, EarlyStoppingHoldsUntilMoreIsAskedForOrItIsTakenAway) {
  const Scratch folder;
  FitOptions options{.epochs = 6, .checkpoints = {.folder = folder.path()}};
  options.callbacks = {training::early_stopping({.monitor = "loss", .min_delta = 1e9, .restore_best = true})};
  EXPECT_EQ(trained(source, options).result.epochs(), 2u);
  const Outcome again = trained(source, options);
  EXPECT_EQ(again.result.epochs(), 2u);
  EXPECT_NE(again.result.stopped.find("no better loss"), std::string::npos) << again.result.stopped;
  options.epochs = 8;
  EXPECT_EQ(trained(source, options).result.epochs(), 3u);
  options.callbacks.clear();
  EXPECT_EQ(trained(source, options).result.epochs(), 8u);
}

TEST_F(TrainerCorners, SamplesThatAreAnotherEachTimeDoNotBlockAResume) {
  int calls = 0;
  const data::Source restless = source.map([&calls](data::Sample sample) {
    sample[0].mutable_values<float>()[0] += static_cast<float>(++calls) * 1e-3f;
    return sample;
  });
  const Scratch folder;
  FitOptions options{.epochs = 1, .workers = 0, .checkpoints = {.folder = folder.path()}};
  trained(restless, options);
  options.epochs = 2;
  EXPECT_TRUE(trained(restless, options).result.resumed);
}

// In validation as in training, unless chance has a hand in it.
TEST_F(TrainerCorners, ChangesWithoutChanceServeInValidation) {
  const data::Custom twice{.name = "twice", .on_sample = [](data::Sample sample, std::uint64_t) {
                             for (float& x : sample[0].mutable_values<float>()) x *= 2;
                             return sample;
                           }};
  const data::Custom noise{.name = "noise", .on_sample = [](data::Sample sample, std::uint64_t chance) {
                             sample[0].mutable_values<float>()[0] += static_cast<float>(chance % 1000);
                             return sample;
                           }};
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.0}));
  const double plain = trainer.evaluate(source)["loss"];
  const double doubled = trainer.evaluate(source, {.map = {twice}})["loss"];
  const auto validated = [&](const data::Transforms& map) {
    FitOptions options{.epochs = 1, .batch = 10, .validation = source, .map = map, .verbose = 0};
    return trainer.fit(source, options).logs["val_loss"];
  };
  EXPECT_NE(plain, doubled);
  EXPECT_NEAR(validated({twice}), doubled, 1e-6);
  EXPECT_NEAR(validated({noise}), plain, 1e-6);
  EXPECT_NEAR(validated({noise, twice}), doubled, 1e-6);
}

// The middle of the picture stands for a random part of it.
struct Flattened {
  nn::Linear fc{4, 2};
  Tensor forward(const Tensor& x) const { return fc(x.reshape({-1, 4})); }
};
TEST_F(TrainerCorners, PicturesOfAnySizeAreCutToOne) {
  std::vector<data::Sample> samples;
  for (std::int64_t i = 0; i < 6; ++i)
    samples.push_back({Literal::full({DType::u8, {2 + i % 3, 3}}, static_cast<double>(i)),
                       Literal::scalar(static_cast<std::int32_t>(i % 2))});
  const data::Source pictures = samples;
  random::seed(1);
  Flattened model;
  Trainer trainer(model, optim::SGD(model));
  for (const data::Transform& change :
       {data::Transform(data::Resize{2, 2}), data::Transform(data::Crop{.height = 2, .width = 2})}) {
    const training::FitResult result = trainer.fit(
        pictures, {.epochs = 1, .batch = 3, .validation = pictures, .map = {change}, .verbose = 0});
    EXPECT_GT(result.logs["val_loss"], 0);
  }
}

TEST_F(TrainerCorners, TheBestAverageComesBackToo) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.1}), {.ema = 0.5});
  std::vector<double> losses;
  const auto spoil = [&](training::Run& run) {
    if (run.epoch() > 2) net.fc2.weight.assign(Tensor(net.fc2.weight) * -9);
  };
  trainer.fit(source,
              {.epochs = 20,
               .batch = 50,
               .validation = source,
               .verbose = 0,
               .callbacks = {training::on_steps_end(spoil), training::on_epoch_end([&](training::Run& run) {
                               losses.push_back(run.logs()["val_loss"]);
                             }),
                             training::early_stopping({.patience = 2, .restore_best = true})}});
  ASSERT_GE(losses.size(), 3u);
  EXPECT_NEAR(trainer.evaluate(source)["loss"], *std::min_element(losses.begin(), losses.end()), 1e-6);
}

TEST_F(TrainerCorners, BeforeTheFirstStepTheWeightsAreTheirAverage) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net), {.ema = 0.9});
  net.fc2.weight.assign(Tensor(net.fc2.weight) * 3);
  EXPECT_NEAR(trainer.evaluate(source)["loss"], Trainer(net, optim::SGD(net)).evaluate(source)["loss"], 1e-6);
}

// Validated every second epoch only: the training loss, which is lower, is not its rival.
TEST_F(TrainerCorners, LossesOfTrainingAndValidationAreNotCompared) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.01}));
  FitOptions options{.epochs = 8, .batch = 10, .validation = source, .validation_every = 2, .verbose = 0};
  options.callbacks = {training::early_stopping({.patience = 2})};
  const training::FitResult result = trainer.fit(source, options);
  EXPECT_EQ(result.epochs(), 8u) << result.stopped;
}

TEST_F(TrainerCorners, WhatIsNotMeasuredCannotBeWatched) {
  for (const training::CallbackRef& callback :
       {training::early_stopping({.monitor = "val_acc"}), training::model_file({.monitor = "acc"}),
        training::reduce_on_plateau({.monitor = "val_acc"})}) {
    Net net = seeded_net();
    Trainer trainer(net, optim::SGD(net), {.metrics = {"accuracy"}});
    FitOptions options{.epochs = 1, .validation = source, .verbose = 0, .callbacks = {callback}};
    EXPECT_NE(error_of(ErrorKind::kNotFound, [&] { trainer.fit(source, options); }).find("acc"),
              std::string::npos);
  }
}

TEST_F(TrainerCorners, APlateauLowersTheRatesOfAllGroups) {
  Net net = seeded_net();
  Trainer trainer(net, optim::SGD(net, {.lr = 0.1, .groups = {{.names = {"fc2.*"}, .lr = 0.2}}}));
  FitOptions options{.epochs = 2, .verbose = 0};
  options.callbacks = {
      training::reduce_on_plateau({.monitor = "loss", .factor = 0.5, .patience = 1, .min_delta = 1e9})};
  trainer.fit(source, options);
  const std::vector<Variable> rates = trainer.optimizer().lrs();
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_NEAR(rates[0].value().item<double>(), 0.05, 1e-7);
  EXPECT_NEAR(rates[1].value().item<double>(), 0.1, 1e-7);

  Trainer scheduled(net, optim::SGD(net, {.lr = optim::schedules::cosine(0.1, 10)}));
  std::int64_t epochs = 0;
  options.callbacks.push_back(training::on_epoch_end([&](training::Run&) { ++epochs; }));
  EXPECT_THROW(scheduled.fit(source, options), Error);
  EXPECT_EQ(epochs, 0);
}

TEST_F(TrainerCorners, WhatIsTrainedBesideTheModelIsKept) {
  const Scratch folder;
  const auto run = [&](std::int64_t epochs, bool keeps) {
    Net net = seeded_net();
    Variable weight(Tensor(Literal::scalar<float>(1)), "loss_weight");
    Parameters all = parameters(net);
    all.add("loss_weight", weight);
    Trainer trainer(net, optim::SGD(all, {.lr = 0.1}), {.step = [&](std::span<const Tensor> fields) {
                      const Tensor out = net.forward(fields[0]);
                      return training::Outcome{
                          cross_entropy(out, fields[1]) * exp(-weight.value()) + weight.value(), out,
                          fields[1]};
                    }});
    FitOptions options{.epochs = epochs, .batch = 10, .verbose = 0};
    if (keeps) options.checkpoints.folder = folder.path();
    trainer.fit(source, options);
    return weight.value().item<float>();
  };
  const float whole = run(2, false);
  run(1, true);
  EXPECT_EQ(run(2, true), whole);
}

struct Rows {
  nn::Linear fc{1, 1};
  Tensor forward(const Tensor& x) const { return fc(unsqueeze(x, -1)); }
};
TEST_F(TrainerCorners, OutputsOfDifferentShapesAreNotJoined) {
  Rows model;
  Trainer trainer(model, optim::SGD(model));
  const std::vector<data::Sample> samples = {{Literal(Type{DType::f32, {2}})},
                                             {Literal(Type{DType::f32, {5}})}};
  error_of(ErrorKind::kShape, [&] { trainer.predict(data::Source(samples), {.batch = 1}); });
}

// A mask of -inf is meant; the op behind it that makes a NaN is named.
struct Masked {
  Variable mask{Tensor(Literal::of<float>({4}, {0, 0, 0, -std::numeric_limits<float>::infinity()})), "mask",
                false};
  nn::Linear fc{4, 2};
  Tensor forward(const Tensor& x) const {
    return fc(softmax(x + mask.value(), 1)) + sum(log(x - 9), 1, true);
  }
};
TEST_F(TrainerCorners, AnInfiniteMaskIsNotBlamed) {
  random::seed(1);
  Masked model;
  Trainer trainer(model, optim::SGD(model));
  const std::string message =
      error_of(ErrorKind::kInvalidArgument, [&] { trainer.fit(source, {.batch = 50, .verbose = 0}); });
  EXPECT_NE(message.find("log of f32[50,4] gives nan"), std::string::npos) << message;
}

// Nor where the loss is finite and a gradient is not.
struct MaskedRoot {
  Variable mask{Tensor(Literal::of<float>({4}, {0, 0, 0, -std::numeric_limits<float>::infinity()})), "mask",
                false};
  Variable w{Tensor(Literal::scalar<float>(0)), "w"};
  Tensor forward(const Tensor& x) const {
    return sum(softmax(x + mask.value(), 1), 1, true) + sqrt(square(w.value()));
  }
};
TEST_F(TrainerCorners, AnInfiniteMaskDoesNotHideABadGradient) {
  MaskedRoot model;
  Trainer trainer(model, optim::SGD(model),
                  {.loss = [](const Tensor& out, const Tensor&) { return mean(out); }});
  const std::string message =
      error_of(ErrorKind::kInvalidArgument, [&] { trainer.fit(source, {.batch = 50, .verbose = 0}); });
  EXPECT_NE(message.find("in the gradient"), std::string::npos) << message;
}

// A target of the picture's own type is no picture: 1 stays 1.
struct Doubled {
  nn::Linear fc{4, 4};
  Tensor forward(const Tensor& x) const { return fc(x); }
};
TEST_F(TrainerCorners, OnlyTheInputIsPrepared) {
  Doubled model;
  const Literal bytes = Literal::full({DType::u8, {4, 4}}, 1);
  Trainer trainer(model, optim::SGD(model, {.lr = 0.0}),
                  {.loss = [](const Tensor&, const Tensor& target) { return mean(target.to(DType::f32)); }});
  EXPECT_EQ(trainer.evaluate(data::arrays(bytes, bytes))["loss"], 1);
}

}  // namespace
}  // namespace systole
