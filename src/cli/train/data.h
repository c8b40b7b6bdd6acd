#pragma once

// The data of a training: sources opened, cut into training, validation and test, and what is done to a
// sample on its way into the model.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/train/settings.h"
#include "cli/train/table.h"
#include "systole/base/shape.h"
#include "systole/data.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::cli {

// What the target of a sample is.
enum class Task {
  classes,  // a whole number
  places,   // a whole number for each place: the next word, the class of a pixel
  numbers,  // floating-point
};

// Numbers to learn at mean 0 and deviation 1, for each value of a sample: what the loss compares.
struct TargetScale {
  std::vector<double> mean, deviation;  // empty: the numbers as they are

  bool empty() const { return mean.empty(); }
  Tensor scaled(const Tensor& values) const;  // (values - mean) / deviation
};

// The samples that could not be read, of each part.
using BadCounts = std::vector<std::shared_ptr<data::BadSamples>>;
// "3 samples could not be read …", or nothing.
std::string described(const BadCounts& bad);

struct TrainingData {
  std::string kind;                      // "mnist"
  data::Source train, validation, test;  // validation and test may be the same; validation may be none
  bool has_test = false;                 // else what is tested is the validation data, or nothing
  Type input, target;                    // of one sample
  Task task = Task::classes;
  std::vector<std::string> classes;  // their names, or the words
  std::int64_t outputs = 0;          // numbers that a model gives: for each class, word or value
  std::int64_t vocabulary = 0;       // of samples that are words: how many there are
  Features features;                 // the columns of a table
  std::string missing;               // the place of its first missing number
  TargetScale targets;               // with data.targets = "standard"
  BadCounts bad;                     // with data.on_bad = "skip"
  std::int32_t rate = 0;             // of sound, samples in a second
};

// Whether whole numbers are words; those of pictures (bytes, and 16 bits of a plane) are brightness.
bool holds_words(const Type& sample);

std::string source_kind(std::string_view spec);  // "mnist" of "mnist:DIR"

// Throws kInvalidArgument when a setting does not fit the data. A table has the features `like`, those of a
// model that is there, unless there are none.
TrainingData open_data(const Settings& settings, const Features& like = {});
// What `spec` has to measure a model on: its test part, or all of it. Labels of other numbers than the
// model's are brought to them by their names, and so are the columns of a table; sound must have its rate, if
// that is known.
data::Source open_test_data(const std::string& spec, const Settings& settings,
                            const std::vector<std::string>& classes, const Features& features = {},
                            std::int32_t rate = 0, BadCounts* bad = nullptr);

// One line: sizes, types, classes.
std::string described(const TrainingData& data);

using Prepare = std::function<Tensor(const Tensor&)>;
// From a batch of the data to what the model takes: numbers in range, samples in the shape `wanted`.
// Statistics are of the training data.
Prepare make_prepare(const Settings::Data& settings, const TrainingData& data, const Shape& wanted);

// Numbers of the model that are not trained.
Variable fixed_number(std::string name, const std::vector<double>& values);

// Sound of exactly so many samples as a log mel spectrum, f32[frames,mels].
Literal spectrum(const Literal& sound, double rate, std::int64_t samples, std::int64_t mels);

// Throws kInvalidArgument for sound of another rate than the training's, if that is known.
void require_rate(const std::string& where, std::int32_t trained, std::int32_t given);

// "flip", "crop 4", … Throws kNotFound or kInvalidArgument, naming the text.
data::Transforms parse_augment(const std::vector<std::string>& texts, const TrainingData& data);

}  // namespace systole::cli
