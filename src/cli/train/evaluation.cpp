#include "cli/train/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/folder_lock.h"
#include "base/log.h"
#include "base/whole_number.h"
#include "cli/train/graph_file.h"
#include "cli/train/run_folder.h"
#include "cli/train/value.h"
#include "systole/base/error.h"
#include "systole/data/bad_samples.h"
#include "systole/data/labels.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "train/steps.h"

namespace systole::cli {

namespace {

// The options of a loss that are plain values.
losses::Settings loss_settings(const Settings::Train& settings) {
  losses::Settings result;
  if (settings.label_smoothing != 0) result.label_smoothing = settings.label_smoothing;
  if (!settings.class_weights.empty()) {
    const std::vector<float> weights(settings.class_weights.begin(), settings.class_weights.end());
    result.class_weights = Tensor(Literal::of<float>({static_cast<std::int64_t>(weights.size())}, weights));
  }
  const auto wrong = [](const Entry& entry, std::string_view kind) {
    return wrong_kind(fmt::format("train.loss_options.{}", entry.key), entry.value, kind);
  };
  const auto number = [&](const Entry& entry) -> double {
    if (const double* value = entry.value.get<double>()) return *value;
    if (const auto* value = entry.value.get<std::int64_t>()) return static_cast<double>(*value);
    throw wrong(entry, "a number");
  };
  const auto flag = [&](const Entry& entry) -> bool {
    if (const bool* value = entry.value.get<bool>()) return *value;
    throw wrong(entry, "true or false");
  };
  for (const Entry& entry : settings.loss_options) {
    if (entry.key == "delta") {
      result.delta = number(entry);
    } else if (entry.key == "beta") {
      result.beta = number(entry);
    } else if (entry.key == "margin") {
      result.margin = number(entry);
    } else if (entry.key == "half") {
      result.half = flag(entry);
    } else if (entry.key == "from_logits") {
      result.from_logits = flag(entry);
    } else if (entry.key == "ignore_index") {
      const auto* index = entry.value.get<std::int64_t>();
      if (index == nullptr) throw wrong(entry, "a whole number");
      result.ignore_index = *index;
    } else {
      constexpr std::string_view kKnown[] = {"delta", "beta",        "margin",
                                             "half",  "from_logits", "ignore_index"};
      throw unknown_key(entry.value.where, fmt::format("there is no key {} in train.loss_options", entry.key),
                        entry.key, kKnown);
    }
  }
  return result;
}

std::string metric_of(Task task) { return task == Task::numbers ? "mae" : "accuracy"; }

Task task_of(const data::Info& info) {
  const Type& target = info.fields.back().type;
  if (is_float(target.dtype)) return Task::numbers;
  return target.shape.rank() == 0 ? Task::classes : Task::places;
}

// Accuracy of numbers that are learned would be 0, and an error of scores against class numbers means
// nothing.
void require_fit(const metrics::Metric& metric, Task task) {
  const auto wanted = task == Task::numbers ? metrics::Measured::numbers : metrics::Measured::classes;
  if (metric.of == wanted || metric.of == metrics::Measured::anything) return;
  std::vector<std::string> fitting;
  for (const std::string& name : metrics::names())
    if (metrics::by_name(name).of == wanted) fitting.push_back(name);
  throw Error(ErrorKind::kInvalidArgument, fmt::format("metric {}", metric.name),
              task == Task::numbers ? "it is of classes, and the data has numbers to learn"
                                    : "it is of numbers, and the data has classes",
              fmt::format("one of {}", fmt::join(fitting, ", ")));
}

// Of one number, a softmax is always 1: such a loss would be 0 whatever the model says.
void require_fit(std::string_view loss, Task task, std::int64_t outputs) {
  const bool of_classes =
      loss.ends_with("cross_entropy") || loss.ends_with("crossentropy") || loss.starts_with("nll");
  if (task != Task::numbers || outputs != 1 || !of_classes || loss.starts_with("binary")) return;
  throw Error(ErrorKind::kInvalidArgument, fmt::format("loss {}", loss),
              "it is of classes, and the data has one number to learn", "mse, mae, huber, …");
}

void note_classes(Measures& into, const Tensor& output, const Literal& target, bool probabilities) {
  for (const double label : target.to_doubles()) into.truth.push_back(static_cast<std::int64_t>(label));
  const Tensor predicted = metrics::predicted(output, {.from_logits = !probabilities});
  for (const double label : predicted.literal().to_doubles())
    into.predicted.push_back(static_cast<std::int64_t>(label));
}

}  // namespace

losses::Loss make_loss(const Settings::Train& settings, Task task, std::int64_t outputs,
                       const TargetScale& targets) {
  const bool single = task == Task::classes && outputs == 1;  // one score for two classes
  std::string name = settings.loss;
  if (name == "auto") name = task == Task::numbers ? "mse" : single ? "bce_with_logits" : "cross_entropy";
  require_fit(name, task, outputs);
  const losses::Loss loss = losses::by_name(name, loss_settings(settings));
  if (!targets.empty())
    return [loss, targets](const Tensor& output, const Tensor& target) {
      return loss(targets.scaled(output), targets.scaled(target));
    };
  if (!single) return loss;
  return [loss](const Tensor& output, const Tensor& target) {
    return loss(output.squeeze(-1), target.to(output.dtype()));
  };
}

std::optional<training::Loss::Labels> label_rule(const Settings::Train& settings, Task task,
                                                 std::int64_t outputs) {
  if (task == Task::numbers) return std::nullopt;
  if (task == Task::classes && outputs == 1) return training::Loss::Labels{.classes = 2};
  if (settings.loss != "auto" && !losses::takes_labels(settings.loss)) return std::nullopt;
  return training::Loss::Labels{.ignore_index = loss_settings(settings).ignore_index};
}

std::optional<std::int64_t> ignored_label(const Settings::Train& settings) {
  return loss_settings(settings).ignore_index;
}

bool takes_probabilities(const Settings::Train& settings) {
  const std::string& name = settings.loss;
  if (name != "bce" && !name.ends_with("_cross_entropy") && !name.ends_with("_crossentropy")) return false;
  return !loss_settings(settings).from_logits.value_or(false);
}

std::vector<metrics::Metric> make_metrics(const Settings::Train& settings, Task task) {
  const metrics::Options options{.from_logits = !takes_probabilities(settings),
                                 .ignore_index = ignored_label(settings)};
  std::vector<metrics::Metric> result{metrics::by_name(metric_of(task), options)};
  for (const std::string& name : settings.metrics) {
    metrics::Metric metric = metrics::by_name(name, options);
    require_fit(metric, task);
    if (std::none_of(result.begin(), result.end(), [&](const auto& m) { return m.name == metric.name; }))
      result.push_back(std::move(metric));
  }
  return result;
}

namespace {

Measures measured(const SavedModel& model, const data::Source& data, const Settings::Train& settings,
                  std::int64_t batch) {
  const data::Info info = data.info();
  const Task task = task_of(info);
  const Shape& output = model.outputs().at(0).type.shape;
  const losses::Loss loss =
      make_loss(settings, task, output.empty() ? 1 : output[output.size() - 1].value(), targets_of(model));
  std::vector<metrics::Accumulator> metrics;
  for (metrics::Metric& metric : make_metrics(settings, task)) metrics.emplace_back(std::move(metric));
  if (batch <= 0) batch = training::evaluation_batch(data.size());
  Measures result;
  result.classes = model.classes();
  result.samples = data.size();
  training::BadSamples bad([&] { return weights_of(model); }, data);
  if (const auto labels = label_rule(settings, task, output.empty() ? 1 : output[output.size() - 1].value()))
    data::check_labels(data,
                       {.classes = labels->classes > 0 ? labels->classes : output[output.size() - 1].value(),
                        .ignore_index = labels->ignore_index});
  double sum = 0;
  for (std::int64_t from = 0; from < data.size(); from += batch) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(batch, data.size() - from)));
    std::iota(rows.begin(), rows.end(), from);
    const std::vector<Literal> fields = data.read(rows);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i + 1 < fields.size(); ++i) inputs.emplace_back(fields[i]);
    const Tensor scores = model.run(inputs).at(0), target(fields.back());
    const Tensor there = target.to(scores.device().to_string());
    const double batch_loss = loss(scores, there).item<double>();
    sum += batch_loss * static_cast<double>(rows.size());
    const auto named = [&] {
      std::vector<training::NamedLiteral> result;
      for (std::size_t i = 0; i < fields.size(); ++i) result.push_back({info.fields.at(i).name, fields[i]});
      return result;
    };
    const Tensor is_finite = training::finite_samples(scores, there);
    if (!all_true(is_finite).item<bool>()) bad.look_at(scores.literal(), &there.type(), named, from);
    if (bad.empty() && !std::isfinite(batch_loss))
      bad.look_at_fields(named(), from, static_cast<std::int64_t>(rows.size()));
    for (metrics::Accumulator& metric : metrics) metric.update(scores, there);
    if (task == Task::classes) note_classes(result, scores, fields.back(), takes_probabilities(settings));
  }
  result.numbers.set("loss", sum / static_cast<double>(data.size()));
  for (const metrics::Accumulator& metric : metrics)
    result.numbers.set(metric.metric().name, metric.result());
  if (!bad.empty()) result.non_finite = bad.text(result.samples);
  return result;
}

}  // namespace

Measures measure(const SavedModel& model, const data::Source& data, const Settings::Train& settings,
                 std::int64_t batch) {
  Measures measures = measured(model, data, settings, batch);
  // What stood in the place of a sample that cannot be read would count twice.
  if (const data::Source good = data::good_samples(data); good.size() < data.size())
    return measured(model, good, settings, batch);
  return measures;
}

std::vector<training::NamedLiteral> weights_of(const SavedModel& model) {
  std::vector<training::NamedLiteral> weights;
  for (const auto& [name, variable] : model.variables()) weights.push_back({name, variable.literal()});
  return weights;
}

std::string result_line(const Measures& measures) {
  std::string task, others;  // the task's own metric, and those that were asked for
  for (const auto& [name, value] : measures.numbers)
    if (name != "loss") (task.empty() ? task : others) += fmt::format(" {} {:.4f}", name, value);
  return fmt::format("test{} loss {:.4f}{}\n", task, measures.numbers.at("loss"), others);
}

metrics::ConfusionMatrix confusion(const Measures& measures) {
  metrics::ScoreOptions options;
  std::set<std::int64_t> labels(measures.truth.begin(), measures.truth.end());
  labels.insert(measures.predicted.begin(), measures.predicted.end());
  labels.erase(metrics::kUndecided);
  for (std::size_t i = 0; i < measures.classes.size(); ++i) labels.insert(static_cast<std::int64_t>(i));
  options.labels.assign(labels.begin(), labels.end());
  return metrics::confusion_matrix(measures.predicted, measures.truth, options);
}

Settings settings_of(const SavedModel& model) {
  const auto config = model.metadata().find(kConfigKey);
  if (config == model.metadata().end()) return {};
  const Value value = parse_value(config->second, "the model's config");
  const Table* table = value.get<Table>();
  return table == nullptr ? Settings{} : settings_of(*table);
}

Features features_of(const SavedModel& model) {
  const auto text = model.metadata().find(kFeaturesKey);
  if (text == model.metadata().end()) return {};
  return features_of(parse_value(text->second, "the model's features"));
}

TargetScale targets_of(const SavedModel& model) {
  const auto text = model.metadata().find(kTargetsKey);
  if (text == model.metadata().end()) return {};
  const Value value = parse_value(text->second, "the model's targets");
  const Table* table = value.get<Table>();
  const auto numbers = [&](std::string_view key) {
    std::vector<double> result;
    const Value* list = table == nullptr ? nullptr : find(*table, key);
    if (list != nullptr && list->get<Value::List>() != nullptr)
      for (const Value& one : *list->get<Value::List>())
        if (const double* number = one.get<double>()) result.push_back(*number);
    return result;
  };
  return {numbers("mean"), numbers("deviation")};
}

std::int32_t rate_of(const SavedModel& model) {
  const auto text = model.metadata().find(kRateKey);
  if (text == model.metadata().end()) return 0;
  const std::optional<std::int64_t> rate = whole_number(text->second);
  if (!rate || *rate < 0 || *rate > std::numeric_limits<std::int32_t>::max())
    throw Error(ErrorKind::kParse, fmt::format("the model's metadata \"{}\"", kRateKey), "not a sample rate",
                "a whole number of 0 or more", fmt::format("\"{}\"", text->second));
  return static_cast<std::int32_t>(*rate);
}

namespace {

// A run that ended, was asked for more epochs and did not end again has the model of before.
void warn_of_older_model(const std::filesystem::path& folder, const SavedModel& model) try {
  if (!reads_toml() || !is_run(folder) || !model.metadata().contains(kConfigKey)) return;
  const std::int64_t asked = settings_of(read_toml((folder / "config.toml").string())).train.epochs,
                     has = settings_of(model).train.epochs;
  if (asked == has) return;
  const std::string holder = holder_of(folder);
  log(LogLevel::warn,
      fmt::format("{}: its model is that of {} epochs, and the run was asked for {} since: {}",
                  folder.string(), has, asked,
                  holder.empty() ? fmt::format("it did not end; to go on: {}", command_to_go_on(folder))
                                 : fmt::format("{} writes to it", holder)));
} catch (const Error&) {  // somebody changed config.toml; the model is as good as before
}

}  // namespace

SavedModel load_model(const std::string& place, const std::string& device, const Trust& trust) {
  const bool is_folder = model_file(place) != place;  // throws when a run has no model
  // By the folder's name, so that a link out of it is noticed.
  SavedModel model = load(place, {.other_weights = trust.other_weights,
                                  .device = device == "auto" ? "" : device,
                                  .kernels = trust.kernels,
                                  .follow_links = trust.follow_links});
  if (is_folder) warn_of_older_model(place, model);
  return model;
}

}  // namespace systole::cli
