// The Trainer on every device: the same losses as on the reference, with data on the device and from a
// loader, many steps a launch, augmentation, averages, mixed precision, checkpoints.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model_devices.h"
#include "systole/systole.h"

namespace systole {
namespace {

// A bias before the norm would have rounding errors as its gradient, of which Adam makes whole steps: with
// the same training losses to seven digits, those of the validation differed by two percent.
struct Net {
  nn::Conv2d conv{1, 4, {.kernel = 3, .bias = false}};
  nn::BatchNorm norm{4};
  nn::Linear fc{4 * 13 * 13, 10};
  Tensor forward(const Tensor& x) const {
    const Tensor y = max_pool2d(relu(norm(conv(x.unsqueeze(-1)))), 2);
    return fc(flatten(y, 1));
  }
};

data::Source digits() {
  static const data::Digits drawn = data::digits(200, 1);
  return data::arrays(drawn.images, drawn.labels);
}

struct Case {
  training::TrainerOptions trainer = {.metrics = {"accuracy"}};
  training::FitOptions fit = {.epochs = 2, .batch = 32, .verbose = 0};
};

training::FitResult trained(Case setup) {
  random::seed(7);
  Net net;
  training::Trainer trainer(net, optim::Adam(net, {.lr = 0.01}), setup.trainer);
  setup.fit.validation = digits().take(64);
  return trainer.fit(digits(), setup.fit);
}

// Computed once for all devices.
const training::FitResult& expected(const std::string& name, const Case& setup) {
  static std::map<std::string, training::FitResult> known;
  const auto [at, fresh] = known.try_emplace(name);
  if (fresh) {
    const DeviceScope scope("reference");
    at->second = trained(setup);
  }
  return at->second;
}

class TrainerDevices : public ModelDevice {
 protected:
  void expect_same(const std::string& name, const Case& setup, double tolerance) {
    const training::FitResult& wanted = expected(name, setup);
    const training::FitResult got = trained(setup);
    for (const char* column : {"loss", "val_loss"})
      for (std::size_t epoch = 0; epoch < wanted.epochs(); ++epoch)
        EXPECT_NEAR(got[column][epoch], wanted[column][epoch], tolerance * wanted[column][epoch])
            << column << " of epoch " << epoch + 1;
    EXPECT_LT(got["loss"][1], got["loss"][0]);
  }
};

TEST_P(TrainerDevices, LearnsWithDataOnTheDevice) { expect_same("resident", {}, 2e-3); }

TEST_P(TrainerDevices, LearnsWithDataFromALoader) {
  Case setup;
  setup.fit.map = {data::Normalize{.mean = {0.1}, .stddev = {0.3}}};
  expect_same("loaded", setup, 2e-3);
}

TEST_P(TrainerDevices, AveragesAccumulatesAndClips) {
  Case setup;
  setup.trainer.ema = 0.5;
  setup.trainer.accumulate = 2;
  setup.trainer.clip_norm = 0.5;
  expect_same("averaged", setup, 2e-3);
}

// Without OpenCL, whose compiler takes half a minute for what these add.
class TrainerFastDevices : public TrainerDevices {};

TEST_P(TrainerFastDevices, AugmentsOnTheDevice) {
  Case setup;
  setup.fit.augment = {data::Crop{.padding = 2}, data::Cutout{.size = 4}};
  expect_same("augmented", setup, 2e-3);  // the same chances on every device
}

// The first scale of f16 is too large: steps are left out until it fits.
TEST_P(TrainerFastDevices, TrainsInSmallFloats) {
  for (const training::Precision precision : {training::Precision::bf16, training::Precision::f16}) {
    Case setup;
    setup.trainer.precision = precision;
    const training::FitResult got = trained(setup);
    EXPECT_LT(got["loss"][1], got["loss"][0]);
    if (precision == training::Precision::bf16) {
      EXPECT_NEAR(got["loss"][0], expected("resident", {})["loss"][0], 0.1);
    }
  }
}

TEST_P(TrainerDevices, ResumesWithTheSameBits) {
  std::string name = (std::filesystem::temp_directory_path() / "systole-test-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(name.data());
  Case setup;
  setup.trainer.deterministic = true;
  const training::FitResult whole = trained(setup);
  setup.fit.checkpoints = {.folder = folder};
  setup.fit.epochs = 1;
  (void)trained(setup);
  setup.fit.epochs = 2;
  const training::FitResult resumed = trained(setup);
  EXPECT_TRUE(resumed.resumed);
  EXPECT_EQ(resumed["loss"], whole["loss"]);
  EXPECT_EQ(resumed["val_loss"], whole["val_loss"]);
  std::filesystem::remove_all(folder);
}

// 30 samples on 4 devices: two are left over.
TEST(TrainerMesh, EvaluatesSamplesThatDoNotDivide) {
  const DeviceScope device("reference");
  random::seed(3);
  Net net;
  const data::Source some = digits().take(30);
  training::Trainer one(net, "adam", {.metrics = {"accuracy"}});
  const training::Logs expected = one.evaluate(some);
  const std::vector<float> outputs = one.predict(some).to_vector<float>();
  training::Trainer four(net, "adam",
                         {.metrics = {"accuracy"}, .mesh = DeviceMesh("reference", {{"data", 4}})});
  const training::Logs got = four.evaluate(some);
  EXPECT_NEAR(got["loss"], expected["loss"], 1e-6);
  EXPECT_NEAR(got["accuracy"], expected["accuracy"], 1e-6);
  const std::vector<float> split = four.predict(some).to_vector<float>();
  ASSERT_EQ(split.size(), outputs.size());
  for (std::size_t i = 0; i < split.size(); ++i) EXPECT_NEAR(split[i], outputs[i], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainerDevices, model_devices(), device_suffix);
INSTANTIATE_TEST_SUITE_P(Devices, TrainerFastDevices,
                         testing::Values("reference", "cpu", "cuda:0", "pjrt:cpu"), device_suffix);

}  // namespace
}  // namespace systole
