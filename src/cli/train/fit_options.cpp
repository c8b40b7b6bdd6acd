#include "cli/train/fit_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "cli/train/evaluation.h"
#include "systole/base/error.h"
#include "tensor/mesh.h"

namespace systole::cli {

namespace {

constexpr std::string_view kOptimizerOptions = "train.optimizer_options",
                           kScheduleOptions = "train.schedule_options",
                           kPlateau = "plateau";  // the schedule that is a callback

// `table` is the key that the entry stands in.
optim::OptionValue option_value(std::string_view table, const Entry& entry) {
  if (const auto* flag = entry.value.get<bool>()) return *flag;
  if (const auto* whole = entry.value.get<std::int64_t>()) return *whole;
  if (const auto* number = entry.value.get<double>()) return *number;
  if (const auto* text = entry.value.get<std::string>()) return *text;
  if (const auto* list = entry.value.get<Value::List>()) {
    std::vector<double> numbers;
    std::vector<std::string> texts;
    for (const Value& part : *list) {
      if (const auto* whole = part.get<std::int64_t>()) numbers.push_back(static_cast<double>(*whole));
      if (const auto* number = part.get<double>()) numbers.push_back(*number);
      if (const auto* text = part.get<std::string>()) texts.push_back(*text);
    }
    if (numbers.size() == list->size()) return numbers;
    if (texts.size() == list->size()) return texts;
  }
  throw wrong_kind(fmt::format("{}.{}", table, entry.key), entry.value,
                   "a number, text, true or false, or a list of one kind");
}

optim::Options options_of(std::string_view table, const Table& entries) {
  optim::Options options;
  for (const Entry& entry : entries) options.push_back({entry.key, option_value(table, entry)});
  return options;
}

// An error about the settings of a part says where they stand.
template <class F>
auto within(const char* key, F f) {
  try {
    return f();
  } catch (const Error& error) {
    throw error.within(key);
  }
}

// What the optimiser or schedule refuses of its options, said as of every other key.
template <class F>
auto with_options_named(std::string_view table, const Table& entries, F make) {
  try {
    return make();
  } catch (const Error& error) {
    for (const Entry& entry : entries)
      if (error.kind() == ErrorKind::kInvalidArgument &&
          error.message() == fmt::format("option \"{}\"", entry.key))
        throw wrong_kind(fmt::format("{}.{}", table, entry.key), entry.value, error.expected());
    throw;
  }
}

// What a schedule counts in epochs, in steps of the optimiser.
optim::Options in_steps(optim::Options options, double steps_per_epoch) {
  constexpr std::string_view kCounted[] = {"steps", "size", "warmup", "milestones"};
  const auto scaled = [&](double epochs) { return std::round(epochs * steps_per_epoch); };
  for (optim::Option& option : options) {
    if (std::find(std::begin(kCounted), std::end(kCounted), option.name) == std::end(kCounted)) continue;
    if (const auto* number = std::get_if<double>(&option.value.value()))
      option.value = scaled(*number);
    else if (const auto* list = std::get_if<std::vector<double>>(&option.value.value())) {
      std::vector<double> all;
      for (const double epochs : *list) all.push_back(scaled(epochs));
      option.value = std::move(all);
    }
  }
  return options;
}

const optim::Option* find_option(const optim::Options& options, std::string_view name) {
  const auto at = std::find_if(options.begin(), options.end(), [&](const auto& o) { return o.name == name; });
  return at == options.end() ? nullptr : &*at;
}

optim::Schedule make_schedule(const Settings::Train& settings, double lr, double steps_per_epoch) {
  const bool in_epochs = settings.schedule_in == "epochs";
  optim::Options options = options_of(kScheduleOptions, settings.schedule_options);
  if (in_epochs) options = in_steps(std::move(options), steps_per_epoch);
  const std::string& name = settings.schedule;
  if (name == "constant" && options.empty()) return lr;
  std::vector<std::string_view> known = optim::schedule_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    known.push_back(kPlateau);
    throw unknown_name("train.schedule", "schedule", name, known);
  }
  const double total = std::max(std::round(static_cast<double>(settings.epochs) * steps_per_epoch), 1.0);
  // A curve that ends, ends with the training.
  constexpr std::string_view kEnding[] = {"cosine", "linear", "polynomial", "one_cycle"};
  if (std::find(std::begin(kEnding), std::end(kEnding), name) != std::end(kEnding) &&
      find_option(options, "steps") == nullptr) {
    const optim::Option* warmup = find_option(options, "warmup");
    const double* before = warmup == nullptr ? nullptr : std::get_if<double>(&warmup->value.value());
    options.push_back({"steps", std::max(total - (before == nullptr ? 0 : *before), 1.0)});
  }
  if (name == "exponential" && in_epochs && find_option(options, "every") == nullptr)
    options.push_back({"every", std::max(std::round(steps_per_epoch), 1.0)});
  return with_options_named(kScheduleOptions, settings.schedule_options, [&] {
    return within("train.schedule", [&] { return optim::make_schedule(name, lr, options); });
  });
}

training::CallbackRef make_plateau(const Settings::Train& settings) {
  training::ReduceOnPlateauOptions plateau{.monitor = settings.monitor};
  for (const Entry& entry : settings.schedule_options) {
    const optim::OptionValue given = option_value(kScheduleOptions, entry);
    const double* number = std::get_if<double>(&given.value());
    const auto whole = [&] { return static_cast<std::int64_t>(*number); };
    if (number == nullptr)
      throw wrong_kind(fmt::format("{}.{}", kScheduleOptions, entry.key), entry.value, "a number");
    if (entry.key == "factor")
      plateau.factor = *number;
    else if (entry.key == "patience")
      plateau.patience = whole();
    else if (entry.key == "min_delta")
      plateau.min_delta = *number;
    else if (entry.key == "cooldown")
      plateau.cooldown = whole();
    else if (entry.key == "min_lr")
      plateau.min_lr = *number;
    else {
      constexpr std::string_view kKnown[] = {"factor", "patience", "min_delta", "cooldown", "min_lr"};
      throw unknown_key(entry.value.where, fmt::format("plateau has no option {}", entry.key), entry.key,
                        kKnown);
    }
  }
  return training::reduce_on_plateau(plateau);
}

double steps_per_epoch(const Settings::Train& settings, const TrainingData& data) {
  std::int64_t steps = data.train.size() / settings.batch;
  if (!settings.drop_last && data.train.size() % settings.batch != 0) ++steps;
  if (settings.steps_per_epoch > 0) steps = std::min(steps, settings.steps_per_epoch);
  return static_cast<double>(std::max<std::int64_t>(steps, 1)) /
         static_cast<double>(std::max<std::int64_t>(settings.accumulate, 1));
}

template <class T>
void require(bool holds, const char* key, const char* expected, T got) {
  if (!holds) throw Error(ErrorKind::kInvalidArgument, key, "out of range", expected, fmt::format("{}", got));
}

// What would be found out only later, when the folder of the run is there.
void check_numbers(const Settings::Train& settings, std::int64_t outputs) {
  require(settings.epochs >= 0, "train.epochs", "0 or more", settings.epochs);
  require(settings.batch >= 1, "train.batch", "1 or more", settings.batch);
  require(settings.steps_per_epoch >= 0, "train.steps_per_epoch", "0 or more", settings.steps_per_epoch);
  require(settings.validation_every >= 1, "train.validation_every", "1 or more", settings.validation_every);
  require(settings.accumulate >= 1, "train.accumulate", "1 or more", settings.accumulate);
  require(settings.clip_norm >= 0, "train.clip_norm", "0 or more", settings.clip_norm);
  require(settings.clip_value >= 0, "train.clip_value", "0 or more", settings.clip_value);
  require(settings.ema >= 0 && settings.ema < 1, "train.ema", "0 or more, below 1", settings.ema);
  require(settings.early_stopping >= 0, "train.early_stopping", "0 or more", settings.early_stopping);
  require(settings.verbose >= 0 && settings.verbose <= 2, "train.verbose", "0, 1 or 2", settings.verbose);
  const std::int64_t weights = std::ssize(settings.class_weights);
  if (weights != 0 && weights != outputs)
    throw Error(ErrorKind::kInvalidArgument, "train.class_weights", "a weight for each class",
                fmt::format("{} numbers", outputs), std::to_string(weights));
}

// What is watched must be measured; else it would never get better, or worse.
void check_monitor(const Settings::Train& settings, const TrainingData& data,
                   const std::vector<metrics::Metric>& metrics) {
  if (settings.restore_best && settings.early_stopping == 0)
    throw Error(ErrorKind::kInvalidArgument, "train.restore_best", "it is a part of early stopping",
                "train.early_stopping, the epochs without improvement to wait");
  if (settings.monitor.empty()) return;
  std::vector<std::string> measured{"loss"};
  for (const metrics::Metric& metric : metrics)
    if (metric.streams()) measured.push_back(metric.name);
  if (!data.validation.empty()) {
    measured.push_back("val_loss");
    for (const metrics::Metric& metric : metrics) measured.push_back("val_" + metric.name);
  }
  const std::vector<std::string_view> known(measured.begin(), measured.end());
  if (std::find(known.begin(), known.end(), settings.monitor) == known.end())
    throw unknown_key("train.monitor", fmt::format("nothing measures {}", in_quotes(settings.monitor)),
                      settings.monitor, known);
}

// A loss of logits after a softmax would learn from the softmax of a softmax: slowly and badly.
void check_last_layer(const Settings& all, Task task) {
  const std::string& loss = all.train.loss;
  const bool entropy = loss.ends_with("cross_entropy") || loss.ends_with("crossentropy") || loss == "bce";
  const bool logits = (loss == "auto" && task != Task::numbers) || loss == "bce_with_logits" ||
                      (entropy && !takes_probabilities(all.train));
  if (!logits || all.model.layers.empty()) return;
  const std::string& last = all.model.layers.back();
  const std::string word = last.substr(last.find_last_of(' ') + 1);
  std::string plain;  // of LogSoftmax and log_softmax: logsoftmax
  for (const char c : word)
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::string_view kProbabilities[] = {"softmax", "logsoftmax", "sigmoid", "logsigmoid"};
  if (std::find(std::begin(kProbabilities), std::end(kProbabilities), plain) != std::end(kProbabilities))
    throw Error(ErrorKind::kInvalidArgument, fmt::format("model.layers {}", in_quotes(last)),
                fmt::format("the loss takes scores (logits): leave {} out, or choose a train.loss of "
                            "probabilities; `systole predict` gives probabilities all the same",
                            word));
}

}  // namespace

FitPlan plan_fit(const Settings& all, const TrainingData& data, const nn::AnyModule& model,
                 std::int64_t outputs, const Prepare& prepare) {
  const Settings::Train& settings = all.train;
  check_numbers(settings, outputs);
  check_last_layer(all, data.task);
  FitPlan plan;
  const bool plateau = settings.schedule == kPlateau;
  const auto default_lr = [&] { return optim::default_lr(settings.optimizer); };
  const double lr = settings.lr != 0 ? settings.lr : within("train.optimizer", default_lr);
  const optim::Schedule schedule =
      plateau ? optim::Schedule(lr) : make_schedule(settings, lr, steps_per_epoch(settings, data));
  plan.optimizer = with_options_named(kOptimizerOptions, settings.optimizer_options, [&] {
    const optim::Options options = options_of(kOptimizerOptions, settings.optimizer_options);
    return within("train.optimizer", [&] {
      return std::shared_ptr<optim::Optimizer>(
          optim::make(settings.optimizer, parameters(model), schedule, options));
    });
  });

  training::TrainerOptions& trainer = plan.trainer;
  trainer.loss = within(
      "train.loss", [&] { return training::Loss(make_loss(settings, data.task, outputs, data.targets)); });
  if (const auto labels = label_rule(settings, data.task, outputs)) trainer.loss.set_labels(*labels);
  std::vector<metrics::Metric> metrics =
      within("train.metrics", [&] { return make_metrics(settings, data.task); });
  check_monitor(settings, data, metrics);
  for (metrics::Metric& metric : metrics) trainer.metrics.emplace_back(std::move(metric));
  trainer.prepare = prepare;
  const std::string device = current_device().to_string();
  if (settings.devices == 1)
    trainer.device = device;
  else  // -1 becomes the number that there are
    trainer.mesh = within("train.devices", [&] {
      return recording::checked(DeviceMesh(device, {{"data", settings.devices}}));
    });
  trainer.precision = settings.precision == "bf16"  ? training::Precision::bf16
                      : settings.precision == "f16" ? training::Precision::f16
                                                    : training::Precision::f32;
  if (settings.math != "auto")
    trainer.math = settings.math == "tf32" ? runtime::Math::tf32 : runtime::Math::f32;
  trainer.clip_norm = settings.clip_norm;
  trainer.clip_value = settings.clip_value;
  trainer.accumulate = settings.accumulate;
  trainer.ema = settings.ema;
  trainer.bad_numbers = settings.bad_numbers == "stop"     ? training::BadNumbers::stop
                        : settings.bad_numbers == "ignore" ? training::BadNumbers::ignore
                                                           : training::BadNumbers::find;
  if (settings.deterministic) trainer.deterministic = true;

  training::FitOptions& fit = plan.fit;
  fit.epochs = settings.epochs;
  fit.batch = std::min(settings.batch, std::max<std::int64_t>(data.train.size(), 1));
  fit.steps_per_epoch = settings.steps_per_epoch;
  fit.validation = data.validation;
  fit.validation_steps = settings.validation_steps;
  fit.validation_every = settings.validation_every;
  fit.shuffle = settings.shuffle;
  fit.seed = static_cast<std::uint64_t>(settings.seed);
  fit.drop_last = settings.drop_last;
  fit.augment = parse_augment(all.data.augment, data);
  fit.workers = static_cast<int>(settings.workers);
  fit.verbose = static_cast<int>(settings.verbose);
  fit.steps_per_call = settings.steps_per_call;
  fit.device_bytes = static_cast<std::int64_t>(settings.device_gigabytes * (1 << 30));
  if (plateau) fit.callbacks.push_back(make_plateau(settings));
  if (settings.early_stopping > 0)
    fit.callbacks.push_back(training::early_stopping({.monitor = settings.monitor,
                                                      .patience = settings.early_stopping,
                                                      .min_delta = settings.min_delta,
                                                      .restore_best = settings.restore_best}));
  return plan;
}

void add_folder(training::FitOptions& fit, const Settings::Train& settings,
                const std::filesystem::path& folder, const SaveOptions& save) {
  fit.callbacks.push_back(training::csv_log(folder / "history.csv"));
  if (settings.save_best)
    fit.callbacks.push_back(training::model_file(
        {.file = folder / "best.safetensors", .monitor = settings.monitor, .save = save}));
  if (settings.tensorboard)
    fit.callbacks.push_back(training::tensorboard({.folder = folder / "logs",
                                                   .every_steps = settings.tensorboard_steps,
                                                   .histograms = settings.histograms,
                                                   .graph = true}));
  fit.checkpoints = {.folder = folder / "checkpoints",
                     .every_epochs = settings.checkpoint_epochs,
                     .every_steps = settings.checkpoint_steps,
                     .every_seconds = settings.checkpoint_seconds,
                     .keep = settings.checkpoint_keep};
}

}  // namespace systole::cli
