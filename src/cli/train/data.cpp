#include "cli/train/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/train/evaluation.h"
#include "data/open.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "systole/tensor/variable.h"

namespace systole::cli {

namespace {

Task task_of(const data::Field& target) {
  if (is_float(target.type.dtype)) return Task::numbers;
  return target.type.shape.rank() == 0 ? Task::classes : Task::places;
}

// Whether the samples are windows of words that have names.
bool is_text(const data::Info& info) {
  return task_of(info.fields.back()) == Task::places && !info.fields.front().classes.empty();
}

bool has_classes(const data::Source& source) {
  const std::vector<data::Field> fields = source.info().fields;
  return fields.size() > 1 && task_of(fields.back()) == Task::classes;
}

// A share of the data, with every class in it, and the rest.
std::pair<data::Source, data::Source> cut(const data::Source& all, double share, std::string_view key,
                                          std::int64_t seed) {
  if (!(share > 0 && share < 1))
    throw Error(ErrorKind::kInvalidArgument, std::string(key), "no share of the data",
                "a number between 0 and 1", fmt::format("{}", share));
  const auto random = static_cast<std::uint64_t>(seed);
  auto [rest, part] =
      has_classes(all) ? all.stratified_split(1 - share, random) : all.split(1 - share, random);
  // Windows of a text overlap: what is tested must not have been learned, so its end is kept.
  if (is_text(all.info())) std::tie(rest, part) = all.split(1 - share);
  if (part.empty() || rest.empty())
    throw Error(ErrorKind::kInvalidArgument, std::string(key), "a share of so little data is nothing",
                "more samples", std::to_string(all.size()));
  return {rest, part};
}

data::Source limited(const data::Source& source, std::int64_t limit, std::int64_t seed) {
  if (limit <= 0 || source.size() <= limit) return source;
  if (is_text(source.info())) return source.take(limit);  // see cut()
  std::vector<std::int64_t> some = data::permutation(source.size(), static_cast<std::uint64_t>(seed));
  some.resize(static_cast<std::size_t>(limit));
  return source.select(std::move(some));
}

// One number to learn is a row of one, as the model gives it.
data::Source with_rows(const data::Source& source) {
  const data::Info info = source.info();
  const data::Field& target = info.fields.back();
  if (info.fields.size() < 2 || !is_float(target.type.dtype) || target.type.shape.rank() != 0) return source;
  if (!source.in_memory())
    return source.map([](data::Sample sample) {
      sample.back() = sample.back().reshaped({1});
      return sample;
    });
  std::vector<Literal> columns = source.columns();
  columns.back() = columns.back().reshaped({columns.back().dims()[0], 1});
  std::vector<std::string> names;
  for (const data::Field& field : info.fields) names.push_back(field.name);
  return data::arrays(std::move(columns)).named(info.name, names);
}

void require_fixed_size(const data::Field& input, const std::string& spec) {
  if (input.type.shape.is_static()) return;
  throw Error(ErrorKind::kShape, spec, "samples of different sizes make no batch",
              "one size, such as images:DIR?height=64&width=64 or audio:PLACE?samples=8000",
              input.type.to_string());
}

// Sound as log mel spectra, all of one length: that of the source, else a second.
void make_spectra(data::TrainTest& both, std::int32_t rate, std::int64_t mels) {
  for (data::Source* part : {&both.train, &both.test}) {
    if (part->empty()) continue;
    const data::Info info = part->info();
    const Shape& sound = info.fields[0].type.shape;
    const std::int64_t samples = sound.is_static() ? sound.count() : rate;
    const data::Source changed = part->map([=](data::Sample sample) {
      sample[0] = spectrum(sample[0], rate, samples, mels);
      return sample;
    });
    *part = data::arrays(changed.columns()).named(info.name, {}, info.fields.back().classes);
  }
}

// What to do about a sample that cannot be read.
Error with_advice(const Error& error) {
  constexpr const char* kAdvice = "data.on_bad = \"skip\", which leaves out what cannot be read";
  return {error.kind(), error.where(), error.message(),
          error.expected().empty() ? kAdvice : fmt::format("{}; or {}", error.expected(), kAdvice),
          error.got()};
}

// Sounds that cannot be read are left out and counted in `bad`, with data.on_bad = "skip"; pictures are read
// later, see skipping().
data::Opened opened(const std::string& spec, const Settings::Data& settings, BadCounts& bad,
                    const Features* like = nullptr) {
  if (settings.mels > 0 && source_kind(spec) != "audio")
    throw Error(ErrorKind::kInvalidArgument, "data.mels", "the data is no sound", "audio:PLACE", spec);
  std::shared_ptr<data::BadSamples> skipped;
  if (settings.on_bad == "skip") bad.push_back(skipped = std::make_shared<data::BadSamples>());
  data::Opened all = [&] {
    try {
      return data::open_all(spec, like, skipped);
    } catch (const Error& error) {
      const bool is_a_sound = source_kind(spec) == "audio" && error.kind() == ErrorKind::kParse;
      if (!is_a_sound || skipped) throw;
      throw with_advice(error);
    }
  }();
  if (settings.mels > 0) make_spectra(all.both, all.rate, settings.mels);
  for (data::Source* part : {&all.both.train, &all.both.test})
    if (!part->empty()) *part = with_rows(*part);
  return all;
}

// The same samples; an error of one that cannot be read says how to go on without it.
class Advising final : public data::Rows {
 public:
  explicit Advising(std::shared_ptr<const data::Rows> base) : base_(std::move(base)) {}

  std::int64_t size() const override { return base_->size(); }
  std::int64_t period() const override { return base_->period(); }
  std::int64_t origin(std::int64_t i) const override { return base_->origin(i); }
  data::Info info() const override { return base_->info(); }
  std::optional<std::vector<std::int64_t>> known_labels(std::size_t field) const override {
    return base_->known_labels(field);
  }
  data::Sample get(std::int64_t i) const override {
    try {
      return base_->get(i);
    } catch (const Error& error) {
      if (!data::is_the_samples(error.kind())) throw;
      throw with_advice(error);
    }
  }

 private:
  std::shared_ptr<const data::Rows> base_;
};

// The samples without those that cannot be read, with data.on_bad = "skip". What is cut, mapped or selected
// is done before, so that measure() can leave out what was skipped.
data::Source skipping(const data::Source& source, const Settings::Data& settings, BadCounts& bad,
                      bool advises = true) {
  if (source.empty() || source.in_memory()) return source;
  if (settings.on_bad != "skip")
    return advises && source_kind(settings.source) == "images"
               ? data::Source(std::make_shared<const Advising>(source.rows()))
               : source;
  bad.push_back(std::make_shared<data::BadSamples>());
  return data::without_bad(source, bad.back());
}

// Samples of other kinds lie in one file, which is read whole or not at all.
void require_files(const Settings::Data& settings) {
  const std::string kind = source_kind(settings.source);
  if (settings.on_bad != "skip" || kind == "images" || kind == "audio") return;
  throw Error(ErrorKind::kInvalidArgument, "data.on_bad",
              fmt::format("the samples of {} are no files of their own, so that none can be skipped", kind),
              "stop; skip is for images:DIR and audio:PLACE", "skip");
}

// The same samples with the numbers that `classes` gives to the names of theirs.
data::Source with_classes(const data::Source& source, const std::vector<std::string>& classes,
                          const std::string& spec) {
  if (source.empty()) return source;
  const data::Info info = source.info();
  const std::vector<std::string>& given = info.fields.back().classes;
  if (classes.empty() || given.empty() || given == classes || !has_classes(source)) return source;
  std::vector<std::int32_t> numbers;  // among `classes`, by that of the data
  for (const std::string& name : given) {
    const auto at = std::find(classes.begin(), classes.end(), name);
    if (at == classes.end())
      throw Error(ErrorKind::kInvalidArgument, spec,
                  fmt::format("the model has no class {}", in_quotes(name)),
                  fmt::format("{}", fmt::join(classes, ", ")));
    numbers.push_back(static_cast<std::int32_t>(at - classes.begin()));
  }
  if (source.in_memory()) {
    std::vector<Literal> columns = source.columns();
    std::vector<std::int32_t> labels;
    for (const double label : columns.back().to_doubles())
      labels.push_back(numbers.at(static_cast<std::size_t>(label)));
    columns.back() = Literal::of<std::int32_t>({std::ssize(labels)}, labels);
    return data::arrays(std::move(columns)).named(info.name, {}, classes);
  }
  return source
      .map([numbers](data::Sample sample) {
        const auto label = static_cast<std::size_t>(sample.back().to_doubles().at(0));
        sample.back() = Literal::scalar<std::int32_t>(numbers.at(label));
        return sample;
      })
      .named(info.name, {}, classes);
}

std::int64_t channels_of(const Shape& sample) {
  if (sample.rank() == 0) return 1;
  return sample.rank() == 2 ? 1 : sample[static_cast<std::size_t>(sample.rank() - 1)].value();
}

// The largest whole number of a field in all samples. Throws kInvalidArgument for one below 0, which neither
// a class nor a word has.
std::int64_t largest_number(const data::TrainTest& both, std::size_t field,
                            std::optional<std::int64_t> ignored) {
  constexpr std::int64_t kAtOnce = 1024;
  std::int64_t largest = -1;
  for (const data::Source* part : {&both.train, &both.test})
    for (std::int64_t from = 0; from < part->size(); from += kAtOnce) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(kAtOnce, part->size() - from)));
      std::iota(rows.begin(), rows.end(), from);
      const Literal values = part->read(rows).at(field);
      const std::vector<double> numbers = values.to_doubles();
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const auto number = static_cast<std::int64_t>(numbers[i]);
        if (ignored && number == *ignored) continue;
        if (number < 0) {
          const auto sample = from + static_cast<std::int64_t>(i / (numbers.size() / rows.size()));
          throw Error(
              ErrorKind::kInvalidArgument,
              fmt::format("{}: sample {}: {}", part->info().name, sample, part->info().fields[field].name),
              "no class or word has a number below 0",
              "numbers from 0, or train.loss_options = {ignore_index = …} for places that do not count",
              std::to_string(number));
        }
        largest = std::max(largest, number);
      }
    }
  return largest;
}

Tensor row_of(const std::vector<double>& values) {
  const std::vector<float> floats(values.begin(), values.end());
  return Tensor(Literal::of<float>({std::ssize(floats)}, floats));
}

// Of the targets of the training data.
TargetScale target_scale(const data::Source& train) {
  const data::Normalize fitted =
      data::fitted_normalize(train.map([](data::Sample sample) { return data::Sample{sample.back()}; }));
  return {fitted.mean, fitted.stddev};
}

}  // namespace

Tensor TargetScale::scaled(const Tensor& values) const {
  return empty() ? values : (values - row_of(mean)) / row_of(deviation);
}

Variable fixed_number(std::string name, const std::vector<double>& values) {
  const std::vector<float> floats(values.begin(), values.end());
  return Variable(Tensor(Literal::of<float>({static_cast<std::int64_t>(floats.size())}, floats)),
                  std::move(name), false);
}

bool holds_words(const Type& sample) {
  const bool picture = sample.dtype == DType::u8 || (sample.dtype == DType::u16 && sample.shape.rank() > 1);
  return is_integer(sample.dtype) && !picture;
}

std::string source_kind(std::string_view spec) {
  return std::string(spec.substr(0, spec.find_first_of(":?")));
}

namespace {

data::Source test_data(const std::string& spec, const Settings& settings,
                       const std::vector<std::string>& classes, const Features& features, std::int32_t rate,
                       BadCounts& bad) {
  const data::Opened all = opened(spec, settings.data, bad, features.empty() ? nullptr : &features);
  const data::TrainTest& both = all.both;
  require_rate(spec, rate, all.rate);
  const data::Source test = both.test.empty() ? both.train : both.test;
  const data::Info info = test.info();
  if (test.empty() || info.fields.size() < 2)
    throw Error(ErrorKind::kInvalidArgument, spec, "samples without a target", "data with labels",
                info.to_string());
  require_fixed_size(info.fields[0], spec);
  return with_classes(test, classes, spec);
}

}  // namespace

TrainingData open_data(const Settings& settings, const Features& like) {
  const Settings::Data& chosen = settings.data;
  if (chosen.source.empty())
    throw Error(ErrorKind::kInvalidArgument, "data.source", "nothing to learn from",
                "--data SOURCE, such as digits or mnist:DIR");
  require_files(chosen);
  TrainingData data;
  const auto [both, rate, features, missing] =
      opened(chosen.source, chosen, data.bad, like.empty() ? nullptr : &like);
  data.kind = source_kind(chosen.source);
  data.train = both.train;
  data.rate = rate;
  data.features = features;
  data.missing = missing;
  const std::int64_t seed = settings.train.seed;

  const data::Info info = data.train.info();
  if (data.train.empty() || info.fields.size() < 2)
    throw Error(ErrorKind::kInvalidArgument, chosen.source, "samples without a target",
                "data with labels or values to learn", info.to_string());
  require_fixed_size(info.fields[0], chosen.source);
  const data::Field& target = info.fields.back();
  data.input = info.fields[0].type;
  data.target = target.type;
  data.task = task_of(target);
  data.classes = target.classes;
  data.test = with_classes(both.test, data.classes, chosen.source);

  if (const double* share = std::get_if<double>(&chosen.test))
    std::tie(data.train, data.test) = cut(data.train, *share, "data.test", seed);
  else if (const std::string& spec = std::get<std::string>(chosen.test); spec != "auto")
    data.test = test_data(spec, settings, data.classes, data.features, data.rate, data.bad);

  data.train = limited(data.train, chosen.limit, seed);
  data.test = limited(data.test, chosen.limit, seed);

  ShareOrText validation = chosen.validation;
  if (validation == ShareOrText("auto"))
    validation = data.test.empty() ? ShareOrText(0.2) : ShareOrText("test");
  if (const double* share = std::get_if<double>(&validation)) {
    std::tie(data.train, data.validation) = cut(data.train, *share, "data.validation", seed);
  } else if (const std::string& word = std::get<std::string>(validation); word == "test") {
    if (data.test.empty())
      throw Error(ErrorKind::kInvalidArgument, "data.validation", "the source has no test data",
                  "a share of the data, such as 0.1");
    data.validation = data.test;
  } else if (word != "none") {
    throw Error(ErrorKind::kInvalidArgument, "data.validation", "neither a share nor a known word",
                "a number between 0 and 1, \"test\", \"none\" or \"auto\"", in_quotes(word));
  }
  data.has_test = !data.test.empty();
  const bool same = !data.has_test || data.validation.rows() == data.test.rows();
  data.train = skipping(data.train, chosen, data.bad);
  data.validation = skipping(data.validation, chosen, data.bad);
  data.test = same ? data.validation : skipping(data.test, chosen, data.bad);

  if (chosen.targets == "standard") {
    if (data.task != Task::numbers)
      throw Error(ErrorKind::kInvalidArgument, "data.targets", "the targets are classes",
                  "none; standard is for numbers to learn, such as csv:FILE?regression");
    data.targets = target_scale(data.train);
  }
  if (data.task == Task::numbers) {
    data.outputs = target.type.shape.count();
  } else if (!data.classes.empty()) {
    data.outputs = static_cast<std::int64_t>(data.classes.size());
  } else {
    data.outputs = 1 + largest_number(both, info.fields.size() - 1, ignored_label(settings.train));
  }
  if (data.task != Task::numbers && !data.classes.empty() && is_text(info))
    data.vocabulary = data.outputs;
  else if (holds_words(data.input))
    data.vocabulary = 1 + largest_number(both, 0, {});
  return data;
}

data::Source open_test_data(const std::string& spec, const Settings& settings,
                            const std::vector<std::string>& classes, const Features& features,
                            std::int32_t rate, BadCounts* bad) {
  BadCounts unread;
  BadCounts& counts = bad != nullptr ? *bad : unread;
  return skipping(test_data(spec, settings, classes, features, rate, counts), settings.data, counts, false);
}

std::string described(const BadCounts& bad) {
  std::int64_t count = 0;
  for (const auto& part : bad) count += part->count();
  if (count == 0) return {};
  return fmt::format("{} sample{} could not be read", count, count == 1 ? "" : "s");
}

std::string described(const TrainingData& data) {
  std::string text = data.train.info().to_string();
  if (!data.validation.empty() && (!data.has_test || data.validation.rows() != data.test.rows()))
    text += fmt::format("; validation {}", data.validation.size());
  if (data.has_test) text += fmt::format("; test {}", data.test.size());
  return text;
}

Prepare make_prepare(const Settings::Data& settings, const TrainingData& data, const Shape& wanted) {
  const DType dtype = data.input.dtype;
  if (holds_words(data.input)) return [](const Tensor& x) { return x; };
  std::string how = settings.normalise;
  if (how == "auto")
    how = data.kind == "csv" || settings.mels > 0 ? "standard" : is_integer(dtype) ? "0-1" : "none";
  if (how != "standard" && !data.missing.empty())
    throw Error(ErrorKind::kInvalidArgument, "data.normalise",
                fmt::format("with {} what is missing in a table stays NaN, of which nothing is learned",
                            in_quotes(how)),
                "auto or standard, which make it the mean; or a number in every cell",
                data.missing + ", which is missing");
  std::vector<double> means, deviations;
  if (how == "standard") {
    const data::Normalize fitted = data::fitted_normalize(data.train);
    means = fitted.mean;
    deviations = fitted.stddev;
  }
  if (!settings.mean.empty() || !settings.stddev.empty()) {
    const auto channels = static_cast<std::size_t>(channels_of(data.input.shape));
    const auto spread = [&](const std::vector<double>& given, double otherwise, const char* key) {
      if (given.size() <= 1) return std::vector<double>(channels, given.empty() ? otherwise : given[0]);
      if (given.size() != channels)
        throw Error(ErrorKind::kInvalidArgument, key, "a number for each feature or channel",
                    fmt::format("1 or {} numbers", channels), std::to_string(given.size()));
      return given;
    };
    means = spread(settings.mean, 0, "data.mean");
    deviations = spread(settings.stddev, 1, "data.stddev");
    if (std::find(deviations.begin(), deviations.end(), 0) != deviations.end())
      throw Error(ErrorKind::kInvalidArgument, "data.stddev", "cannot divide by it", "not 0", "0");
  }
  Variable mean, deviation;
  if (!means.empty()) {
    mean = fixed_number("input.mean", means);
    deviation = fixed_number("input.deviation", deviations);
  }
  Shape shape{-1};
  for (const Dim& d : wanted) shape.push_back(d);
  const bool reshapes = wanted != data.input.shape;
  return [=](const Tensor& given) {
    Tensor x = given.to(DType::f32);
    if (given.dtype() == DType::u8 && how != "none") x = x / 255;
    if (given.dtype() == DType::u16 && how != "none" && how != "standard") x = x / 65535;
    if (how == "picture") x = data::Transforms{data::Standardize{}}({x}, Tensor())[0];
    if (mean.defined()) x = (x - mean) / deviation;
    // What is missing in a table becomes the mean.
    if (how == "standard" && is_float(given.dtype())) x = where(x == x, x, 0.0f);
    if (reshapes) x = x.reshape(shape);
    return x;
  };
}

void require_rate(const std::string& where, std::int32_t trained, std::int32_t given) {
  if (trained == 0 || given == 0 || trained == given) return;
  throw Error(ErrorKind::kInvalidArgument, where, "another rate than the training's sounds had",
              fmt::format("{} samples in a second", trained), std::to_string(given));
}

Literal spectrum(const Literal& sound, double rate, std::int64_t samples, std::int64_t mels) {
  Literal exact({DType::f32, {samples}});
  const std::span<const float> given = sound.values<float>();
  std::copy_n(given.begin(), std::min(given.size(), static_cast<std::size_t>(samples)),
              exact.mutable_values<float>().begin());
  return data::log_mel(exact, {.rate = rate, .mels = mels});
}

namespace {

// The words of data.augment: how many numbers each takes, with what stands for one that is left out.
struct AugmentWord {
  std::string_view name;
  double standard;
  bool moves;  // pixels to other places
  data::Transform (*make)(double value, const TrainingData& data);
};
constexpr AugmentWord kAugment[] = {
    {"flip", 0.5, true,
     [](double p, const TrainingData&) -> data::Transform { return data::Flip{.probability = p}; }},
    {"upside-down", 0.5, true,
     [](double p, const TrainingData&) -> data::Transform {
       return data::Flip{.probability = p, .vertical = true};
     }},
    {"crop", 4, true,
     [](double border, const TrainingData&) -> data::Transform {
       return data::Crop{.padding = static_cast<std::int64_t>(border)};
     }},
    {"rotate", 15, true,
     [](double angle, const TrainingData&) -> data::Transform { return data::Rotate{.degrees = angle}; }},
    {"cutout", 8, false,
     [](double side, const TrainingData&) -> data::Transform {
       return data::Cutout{.size = static_cast<std::int64_t>(side)};
     }},
    {"jitter", 0.2, false,
     [](double by, const TrainingData& data) -> data::Transform {
       return data::ColorJitter{
           .brightness = by, .contrast = by, .saturation = channels_of(data.input.shape) == 3 ? by : 0};
     }},
    {"mixup", 0.2, false,
     [](double alpha, const TrainingData& data) -> data::Transform {
       return data::Mixup{.alpha = alpha, .classes = data.task == Task::classes ? data.outputs : 0};
     }},
};

}  // namespace

data::Transforms parse_augment(const std::vector<std::string>& texts, const TrainingData& data) {
  data::Transforms transforms;
  for (const std::string& text : texts) {
    const std::string where = fmt::format("data.augment {}", in_quotes(text));
    const std::size_t blank = text.find(' ');
    const std::string_view word = std::string_view(text).substr(0, blank);
    const auto known = std::find_if(std::begin(kAugment), std::end(kAugment),
                                    [&](const AugmentWord& w) { return w.name == word; });
    if (known == std::end(kAugment)) {
      std::vector<std::string_view> names;
      for (const AugmentWord& w : kAugment) names.push_back(w.name);
      throw unknown_key(where, fmt::format("there is no change {}", in_quotes(word)), word, names);
    }
    // A mask stays as it is, and would no longer lie on its picture.
    if (known->moves && (data.task == Task::places || data.target.shape.rank() > 1))
      throw Error(ErrorKind::kUnsupported, where,
                  fmt::format("it moves the picture and not the {} at each of its places",
                              data.task == Task::places ? "labels" : "numbers"),
                  "cutout or jitter, which leave pixels where they are", data.target.to_string());
    double value = known->standard;
    if (blank != std::string::npos) {
      const char *begin = text.data() + blank + 1, *end = text.data() + text.size();
      if (const auto [at, error] = std::from_chars(begin, end, value); error != std::errc() || at != end)
        throw Error(ErrorKind::kInvalidArgument, where, "what follows is no number",
                    fmt::format("{} {}", word, known->standard));
    }
    transforms.then(known->make(value, data));
  }
  return transforms;
}

}  // namespace systole::cli
