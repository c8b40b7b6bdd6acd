// An accelerator has its next launch before the host has the numbers of the last. That shows in nothing but
// the time: weights, history, checkpoints, the place of bad numbers, an interrupt.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "model_devices.h"
#include "systole/systole.h"

namespace systole {
namespace {

class TrainerAhead : public ModelDevice {};

struct Net {
  nn::Linear fc{3, 2};
  Tensor forward(const Tensor& x) const { return fc(x); }
};

// 24 samples; one of them with a number that is none.
data::Source samples(std::int64_t bad = -1) {
  std::vector<float> x(72);
  std::vector<std::int32_t> y(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 11) / 11;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int32_t>(i * 5 % 3 == 0);
  if (bad >= 0) x[static_cast<std::size_t>(3 * bad)] = std::numeric_limits<float>::quiet_NaN();
  return data::arrays(Literal::of<float>({24, 3}, x), Literal::of<std::int32_t>({24}, y));
}

struct Looks final : training::Callback {  // which nothing may be issued before
  void steps_end(training::Run& run) override { steps.push_back(run.step()); }
  std::vector<std::int64_t> steps;
};
struct Listens final : training::Callback {
  bool acts_between_launches() const override { return false; }
  void steps_end(training::Run& run) override {
    steps.push_back(run.step());
    if (run.step() == raise_at) ::raise(SIGINT);
    if (run.step() == stop_at) run.stop("enough");
  }
  std::vector<std::int64_t> steps;
  std::int64_t raise_at = -1, stop_at = -1;
};

struct Trained {
  training::FitResult result;
  std::vector<float> weight;
  std::int64_t updates = 0;
};

// Six steps an epoch in three launches; from memory or, with something to do on the way, from a loader.
Trained trained(training::CallbackRef callback, bool from_loader = false,
                training::FitCheckpoints checkpoints = {}, std::int64_t bad = -1) {
  random::seed(3);
  Net net;
  training::Trainer trainer(net, optim::Adam(net, {.lr = 0.1}), {.metrics = {"accuracy"}});
  training::FitOptions options{.epochs = 3, .batch = 4, .seed = 5, .verbose = 0};
  options.steps_per_call = 2;
  options.callbacks = {std::move(callback)};
  options.checkpoints = std::move(checkpoints);
  if (from_loader) options.map = {data::Custom{.on_sample = [](data::Sample s, std::uint64_t) { return s; }}};
  Trained made{trainer.fit(samples(bad), options), net.fc.weight.value().to_vector<float>(), 0};
  made.updates = trainer.optimizer().step().value().item<std::int64_t>();
  return made;
}

TEST_P(TrainerAhead, MakesTheSameBitsAndTellsTheSame) {
  for (const bool from_loader : {false, true}) {
    const auto looks = std::make_shared<Looks>();
    const auto listens = std::make_shared<Listens>();
    const Trained apart = trained(looks, from_loader), ahead = trained(listens, from_loader);
    EXPECT_EQ(ahead.weight, apart.weight);
    EXPECT_EQ(ahead.result["loss"], apart.result["loss"]);
    EXPECT_EQ(ahead.result["accuracy"], apart.result["accuracy"]);
    EXPECT_EQ(listens->steps, looks->steps);
    EXPECT_EQ(listens->steps, (std::vector<std::int64_t>{2, 4, 6, 8, 10, 12, 14, 16, 18}));
  }
}

// Neither the launch that is on its way when somebody ends the training is lost, nor is it counted twice.
TEST_P(TrainerAhead, WhatIsOnItsWayBelongsToAnEndedTraining) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "systole_ahead";
  const Trained whole = trained(std::make_shared<Looks>());
  for (const bool interrupts : {true, false}) {
    std::filesystem::remove_all(folder);
    const training::FitCheckpoints checkpoints{.folder = folder};
    const auto listens = std::make_shared<Listens>();
    (interrupts ? listens->raise_at : listens->stop_at) = 8;
    const Trained cut = trained(listens, false, checkpoints);
    EXPECT_EQ(cut.result.interrupted, interrupts);
    EXPECT_EQ(listens->steps.back(), 10);
    EXPECT_EQ(cut.updates, 10);
    const Trained rest = trained(std::make_shared<Listens>(), false, checkpoints);
    EXPECT_TRUE(rest.result.resumed);
    EXPECT_EQ(rest.weight, whole.weight);
    EXPECT_EQ(rest.result["loss"], whole.result["loss"]);
  }
  std::filesystem::remove_all(folder);
}

TEST_P(TrainerAhead, ACheckpointHasTheStateOfItsStep) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "systole_ahead_steps";
  std::filesystem::remove_all(folder);
  trained(std::make_shared<Listens>(), false, {.folder = folder, .every_steps = 4, .keep = 10});
  int looked = 0;
  for (const training::CheckpointFolder::Entry& entry : training::CheckpointFolder(folder).list()) {
    const training::Checkpoint checkpoint = training::load_checkpoint(entry.file);
    EXPECT_EQ(checkpoint.values.at("optimizer.adam.step").to_doubles()[0],
              static_cast<double>(checkpoint.step));
    ++looked;
  }
  EXPECT_GE(looked, 3);
  std::filesystem::remove_all(folder);
}

TEST_P(TrainerAhead, BadNumbersAreFoundInTheBatchThatHasThem) {
  for (const bool from_loader : {false, true})
    for (std::int64_t bad = 0; bad < 24; bad += 5) try {
        trained(std::make_shared<Listens>(), from_loader, {}, bad);
        ADD_FAILURE() << "sample " << bad << " was taken";
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_NE(text.find("field x of sample " + std::to_string(bad) + " of the data holds nan"),
                  std::string::npos)
            << text;
        EXPECT_NE(text.find("epoch 1"), std::string::npos) << text;
      }
}

INSTANTIATE_TEST_SUITE_P(On, TrainerAhead, testing::Values("opencl:0", "cuda:0"), device_suffix);

}  // namespace
}  // namespace systole
