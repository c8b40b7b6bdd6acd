// Which digit was spoken? Recordings become pictures, 40 mel frequencies over time, and a small convolutional
// network reads them. With the Free Spoken Digit Dataset, whose files are DIGIT_SPEAKER_INDEX.wav,
//
//   audio_digits --data free-spoken-digit-dataset.tar.xz [--epochs 12] [--device auto] [--out
//   model.safetensors]
//
// the recordings of index 0 to 4 are the test, as its authors say. Without --data, the digits are those of a
// telephone's keys: two tones each, with noise.

#include <systole/systole.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "options.h"

using namespace systole;

namespace {

constexpr std::int64_t kSamples = 8000;  // one second; most recordings are shorter
constexpr double kRate = 8000;

// Of each digit `count` recordings.
data::AudioSet keys_of_a_telephone(int count) {
  constexpr double kRows[] = {941, 697, 697, 697, 770, 770, 770, 852, 852, 852};
  constexpr double kColumns[] = {1336, 1209, 1336, 1477, 1209, 1336, 1477, 1209, 1336, 1477};
  std::mt19937 chance(1);
  std::normal_distribution<double> noise(0, 0.3);
  data::AudioSet set{.rate = static_cast<std::int32_t>(kRate)};
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (int digit = 0; digit < 10; ++digit)
    for (int i = 0; i < count; ++i) {
      const std::int64_t start = chance() % 3000, end = start + 2000 + chance() % 3000;
      for (std::int64_t t = 0; t < kSamples; ++t) {
        const double phase = 2 * std::numbers::pi * static_cast<double>(t) / kRate;
        const double tone = std::sin(kRows[digit] * phase) + std::sin(kColumns[digit] * phase);
        x.push_back(static_cast<float>(0.3 * ((t >= start && t < end ? tone : 0) + noise(chance))));
      }
      y.push_back(digit);
      set.files.push_back(std::to_string(digit) + "_key_" + std::to_string(i) + ".wav");
    }
  set.source = data::arrays(tensor(x, {10 * count, kSamples}), tensor(y));
  return set;
}

int index_of(const std::string& file) { return std::stoi(file.substr(file.rfind('_') + 1)); }

}  // namespace

int main(int argc, char** argv) try {
  const Options options(argc, argv,
                        {{"data", ""}, {"epochs", "12"}, {"count", "30"}, {"device", "auto"}, {"out", ""}});
  const DeviceScope device(options["device"]);
  random::seed(1);

  const data::AudioSet set = options.has("data")
                                 ? data::audio(options["data"], {.samples = kSamples})
                                 : keys_of_a_telephone(static_cast<int>(options.integer("count")));
  const data::MelOptions mel{
      .rate = static_cast<double>(set.rate), .frame = 256, .hop = 128, .mels = 40, .floor = 1e-6};
  const data::Source features =
      set.source.map([&](data::Sample s) { return data::Sample{data::log_mel(s[0], mel), s[1]}; }).cache();
  std::vector<std::int64_t> learn, held_out;
  for (std::int64_t i = 0; i < features.size(); ++i)
    (index_of(set.files[static_cast<std::size_t>(i)]) < 5 ? held_out : learn).push_back(i);
  const data::Source train = features.select(learn), test = features.select(held_out);
  std::printf("%lld recordings to learn from, %lld to be tested with, each f32%s\n",
              static_cast<long long>(train.size()), static_cast<long long>(test.size()),
              features.info().fields[0].type.shape.to_string().c_str());

  const Tensor x(train.columns()[0]);  // f32[recordings,frames,40]
  const Tensor centre = mean(x), spread = stddev(x);
  nn::AnyModule model =
      nn::layers_model({"conv 16 3x3 pad same", "batchnorm relu", "maxpool 2", "conv 32 3x3 pad same",
                        "batchnorm relu", "maxpool 2", "conv 64 3x3 pad same", "batchnorm relu", "maxpool 2",
                        "flatten", "dropout 0.4", "dense 10"},
                       {x.size(1), x.size(2), 1});
  const std::int64_t epochs = options.integer("epochs"), steps = epochs * ((train.size() + 31) / 32);
  training::Trainer trainer(
      model,
      optim::AdamW(parameters(model), {.lr = optim::schedules::cosine(2e-3, steps), .weight_decay = 0.05}),
      {.metrics = {"accuracy"},
       .prepare = [&](const Tensor& mels) { return ((mels - centre) / spread).unsqueeze(-1); }});
  trainer.fit(train, {.epochs = epochs, .batch = 32, .validation = test});
  std::printf("test accuracy %.4f\n", trainer.evaluate(test)["accuracy"]);
  std::cout << metrics::classification_report(trainer.predict(test), tensor(test.labels()));
  if (options.has("out")) trainer.save(options["out"]);
} catch (const std::exception& error) {
  std::cerr << "audio_digits: " << error.what() << "\n";
  return 1;
}
