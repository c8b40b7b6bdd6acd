#include "cli/train/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>

#include "systole/base/error.h"
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
  const auto number = [](const Entry& entry) -> std::optional<double> {
    if (const double* value = entry.value.get<double>()) return *value;
    if (const auto* value = entry.value.get<std::int64_t>()) return static_cast<double>(*value);
    return std::nullopt;
  };
  const auto flag = [](const Entry& entry) -> std::optional<bool> {
    const bool* value = entry.value.get<bool>();
    return value == nullptr ? std::nullopt : std::optional(*value);
  };
  for (const Entry& entry : settings.loss_options) {
    bool fits = true;
    if (entry.key == "delta")
      fits = (result.delta = number(entry)).has_value();
    else if (entry.key == "beta")
      fits = (result.beta = number(entry)).has_value();
    else if (entry.key == "margin")
      fits = (result.margin = number(entry)).has_value();
    else if (entry.key == "half")
      fits = (result.half = flag(entry)).has_value();
    else if (entry.key == "from_logits")
      fits = (result.from_logits = flag(entry)).has_value();
    else if (entry.key == "ignore_index") {
      const auto* index = entry.value.get<std::int64_t>();
      if (index != nullptr) result.ignore_index = *index;
      fits = index != nullptr;
    } else {
      constexpr std::string_view kKnown[] = {"delta", "beta",        "margin",
                                             "half",  "from_logits", "ignore_index"};
      throw unknown_name(entry.value.where,
                         fmt::format("there is no key {} in train.loss_options", entry.key), entry.key,
                         kKnown);
    }
    if (!fits)
      throw Error(ErrorKind::kInvalidArgument, entry.value.where,
                  fmt::format("train.loss_options.{} is of another kind", entry.key), "",
                  described(entry.value));
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

void note_classes(Measures& into, const Literal& output, const Literal& target, bool probabilities) {
  for (const double label : target.to_doubles()) into.truth.push_back(static_cast<std::int64_t>(label));
  const std::vector<double> scores = output.to_doubles();
  const auto classes = static_cast<std::size_t>(output.dims()[static_cast<std::size_t>(output.rank()) - 1]);
  if (classes == 1) {
    for (const double score : scores) into.predicted.push_back(score > (probabilities ? 0.5 : 0) ? 1 : 0);
    return;
  }
  for (auto row = scores.begin(); row != scores.end(); row += static_cast<std::ptrdiff_t>(classes))
    into.predicted.push_back(std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row);
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

Measures measure(const SavedModel& model, const data::Source& data, const Settings::Train& settings,
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
  double sum = 0;
  for (std::int64_t from = 0; from < data.size(); from += batch) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(std::min(batch, data.size() - from)));
    std::iota(rows.begin(), rows.end(), from);
    const std::vector<Literal> fields = data.read(rows);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i + 1 < fields.size(); ++i) inputs.emplace_back(fields[i]);
    const Tensor scores = model.run(inputs).at(0), target(fields.back());
    const Tensor there = target.to(scores.device().to_string());
    sum += loss(scores, there).item<double>() * static_cast<double>(rows.size());
    for (metrics::Accumulator& metric : metrics) metric.update(scores, there);
    if (task == Task::classes)
      note_classes(result, scores.literal(), fields.back(), takes_probabilities(settings));
  }
  result.numbers.set("loss", sum / static_cast<double>(data.size()));
  for (const metrics::Accumulator& metric : metrics)
    result.numbers.set(metric.metric().name, metric.result());
  return result;
}

std::string result_lines(const Measures& measures) {
  std::vector<std::string> others;
  std::string metric;
  for (const auto& [name, value] : measures.numbers) {
    const std::string text = fmt::format("{} {:.4f}", name, value);
    if (name == "loss") continue;
    if (metric.empty())
      metric = text;
    else
      others.push_back(text);
  }
  return fmt::format("{}test {} loss {:.4f}\n",
                     others.empty() ? "" : fmt::format("test {}\n", fmt::join(others, "  ")), metric,
                     measures.numbers.at("loss"));
}

metrics::ConfusionMatrix confusion(const Measures& measures) {
  metrics::ScoreOptions options;
  std::set<std::int64_t> labels(measures.truth.begin(), measures.truth.end());
  labels.insert(measures.predicted.begin(), measures.predicted.end());
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
  return text == model.metadata().end() ? 0 : std::atoi(text->second.c_str());
}

SavedModel load_model(const std::string& place, const std::string& device) {
  std::filesystem::path file = place;
  if (std::filesystem::is_directory(file)) {
    file /= "model.safetensors";
    if (!std::filesystem::exists(file))
      throw Error(ErrorKind::kNotFound, place,
                  std::filesystem::exists(std::filesystem::path(place) / "config.toml")
                      ? "the run has no model yet: it did not end"
                      : "the folder holds no model.safetensors");
  }
  return load(file, {.device = device == "auto" ? "" : device});
}

}  // namespace systole::cli
