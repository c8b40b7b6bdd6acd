#include "cli/train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/file.h"
#include "cli/terminal.h"
#include "cli/train/data.h"
#include "cli/train/evaluation.h"
#include "cli/train/fit_options.h"
#include "cli/train/model.h"
#include "cli/train/pictures.h"
#include "systole/base/error.h"
#include "systole/tensor/random.h"
#include "systole/train.h"

namespace systole::cli {

namespace {

namespace fs = std::filesystem;

constexpr int kInterrupted = 130;  // as a shell tells of a command that Ctrl-C ended

std::string grouped(std::int64_t number) {  // 101,770
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

void say(std::string_view what, std::string_view text) {
  put(fmt::format("{} {}\n", coloured(Colour::bold, padded(what, 7)), text));
}

void write_text(const fs::path& file, std::string_view text) {
  write_file(file, std::as_bytes(std::span(text)));
}

fs::path free_folder(const std::string& name) {
  for (int number = 1;; ++number) {
    fs::path folder = fs::path("runs") / fmt::format("{}-{}", name, number);
    if (!fs::exists(folder)) return folder;
  }
}

constexpr std::string_view kConfigHead = "# Every setting of this run, written by systole train.\n";

// What the run in the folder has trained already; 0 where there is none.
std::size_t epochs_done(const fs::path& folder) {
  const fs::path history = folder / "history.csv";
  return fs::exists(history) ? training::History::read_csv(history).epochs() : 0;
}

// Throws when the folder holds a run that would be lost.
void refuse_other_run(const Settings& settings, const fs::path& folder) {
  std::error_code error;
  const fs::path checkpoints = folder / "checkpoints";
  const bool begun = fs::exists(folder / "model.safetensors") ||
                     (fs::is_directory(checkpoints, error) && !fs::is_empty(checkpoints, error));
  if (!begun) return;
  std::vector<std::string> changes = changed_keys(read_text_file(folder / "config.toml"), settings);
  if (const std::size_t done = epochs_done(folder); static_cast<std::int64_t>(done) > settings.train.epochs)
    changes.push_back(fmt::format("train.epochs is {} and {} are done", settings.train.epochs, done));
  if (!changes.empty())
    throw Error(ErrorKind::kInvalidArgument, folder.string(),
                fmt::format("it holds a run with other settings: {}; --fresh begins anew, another --out "
                            "keeps both",
                            fmt::join(changes, ", ")));
}

// The folder, made; throws when it holds a run of other settings, or a file of the user's, that would be
// lost.
fs::path open_folder(const Settings& settings, const TrainingPlace& place, const std::string& name) {
  const fs::path folder = place.out.empty() ? free_folder(name) : fs::path(place.out);
  const fs::path config = folder / "config.toml";
  std::error_code error;
  if (fs::exists(config)) {
    if (!read_text_file(config).starts_with(kConfigHead))
      throw Error(ErrorKind::kInvalidArgument, config.string(),
                  "it was not written by systole train and would be overwritten", "another --out");
    if (place.fresh) {
      for (const char* old : {"checkpoints", "logs"}) fs::remove_all(folder / old, error);
      for (const char* old : {"model.safetensors", "best.safetensors", "history.csv", "confusion.csv"})
        fs::remove(folder / old, error);
    } else {
      refuse_other_run(settings, folder);
    }
  }
  fs::create_directories(folder, error);
  if (error)
    throw Error(ErrorKind::kIo, folder.string(), fmt::format("cannot make the folder: {}", error.message()));
  write_text(config, fmt::format("{}{}", kConfigHead, to_toml(settings)));
  return folder;
}

void describe(const Settings& settings, const TrainingData& data, const BuiltModel& model,
              const fs::path& folder) {
  say("data", described(data));
  say("model",
      fmt::format("{}, {} parameters{}", model.name, grouped(model.parameters),
                  model.frozen > 0 ? fmt::format(", {} of them frozen", grouped(model.frozen)) : ""));
  if (!model.weights.empty()) say("weights", model.weights);
  say("device",
      fmt::format("{}{}", current_device().to_string(),
                  settings.train.devices == 1 ? "" : fmt::format(", {} devices", settings.train.devices)));
  say("output", folder.string());
  flush_output();
}

// What `systole evaluate` and `systole predict` want to know.
SaveOptions save_options(const Settings& settings, const TrainingData& data, const std::string& name) {
  SaveOptions options{.classes = data.classes, .name = name};
  std::replace_if(options.name.begin(), options.name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  for (std::int64_t i = 0; data.task == Task::classes && data.classes.empty() && i < data.outputs; ++i)
    options.classes.push_back(std::to_string(i));
  options.metadata.emplace(kConfigKey, to_toml(Value{to_table(settings)}));
  if (!data.features.empty()) options.metadata.emplace(kFeaturesKey, to_toml(to_value(data.features)));
  const auto list = [](const std::vector<double>& numbers) {
    Value::List values;
    for (const double number : numbers) values.push_back({number});
    return Value{std::move(values)};
  };
  if (!data.targets.empty())
    options.metadata.emplace(kTargetsKey, to_toml(Value{Table{{"mean", list(data.targets.mean)},
                                                              {"deviation", list(data.targets.deviation)}}}));
  if (data.task == Task::places) options.metadata.emplace(kPlacesKey, "true");
  if (data.rate > 0) options.metadata.emplace(kRateKey, std::to_string(data.rate));
  return options;
}

void write_hparams(const fs::path& logs, const Settings& settings, const Measures& measures) {
  training::SummaryWriter board(logs);
  training::HParams hparams{{"model", settings.model.name.empty() ? "layers" : settings.model.name},
                            {"optimizer", settings.train.optimizer},
                            {"lr", settings.train.lr},
                            {"batch", settings.train.batch},
                            {"epochs", settings.train.epochs},
                            {"seed", settings.train.seed}};
  std::map<std::string, double> results;
  for (const auto& [name, value] : measures.numbers) results["test/" + name] = value;
  board.hparams(hparams, results);
}

}  // namespace

int train(const Settings& settings, const TrainingPlace& place) {
  const DeviceScope device(settings.train.device);
  random::seed(static_cast<std::uint64_t>(settings.train.seed));
  const TrainingData data = open_data(settings);
  BuiltModel model = build_model(settings.model, data);
  model.module = with_targets(std::move(model.module), data.targets);
  const std::int64_t outputs = model.output.empty() ? 1 : model.output[model.output.size() - 1].value();
  const Prepare prepare = make_prepare(settings.data, data, model.input.shape);
  const FitPlan plan = plan_fit(settings, data, model.module, outputs, prepare);
  const fs::path folder = open_folder(settings, place, fmt::format("{}-{}", data.kind, model.name));
  describe(settings, data, model, folder);

  training::Trainer trainer(model.module, plan.optimizer, plan.trainer);
  training::FitOptions fit = plan.fit;
  const SaveOptions saved = save_options(settings, data, model.name);
  add_folder(fit, settings.train, folder, saved);
  if (place.fresh) fit.checkpoints.resume = training::Resume::fresh;
  const std::size_t before = epochs_done(folder);
  const training::FitResult result = trainer.fit(data.train, fit);
  if (result.resumed && !result.stopped.empty() && result.epochs() == before)
    put(fmt::format("it stopped early: {}; more epochs go on, --fresh begins anew\n", result.stopped));
  result.write_csv(folder / "history.csv");
  if (result.interrupted) {
    put(!reads_toml() ? fmt::format("interrupted; the same command with --out {} goes on\n", folder.string())
                      : fmt::format("interrupted; to go on:\n  systole train {} --out {}\n",
                                    (folder / "config.toml").string(), folder.string()));
    flush_output();
    return kInterrupted;
  }

  const fs::path file = folder / "model.safetensors";
  trainer.save(file, saved);
  const data::Source& test = data.test.empty() ? data.train : data.test;
  const Measures measures = measure(load_model(file.string(), settings.train.device), test, settings.train);
  std::vector<std::string> written{"model.safetensors", "config.toml", "history.csv"};
  if (settings.train.plots)
    for (std::string& name : draw_run(folder, result, measures)) written.push_back(std::move(name));
  if (settings.train.tensorboard) write_hparams(folder / "logs", settings, measures);
  say("wrote", fmt::format("{}: {}", folder.string(), fmt::join(written, ", ")));
  if (const std::string bad = described(data.bad); !bad.empty()) say("skipped", bad);
  if (data.test.empty()) put("there is no test data: what follows is of the training data\n");
  put(result_lines(measures));
  return 0;
}

}  // namespace systole::cli
