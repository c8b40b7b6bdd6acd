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

#include "base/log.h"
#include "cli/terminal.h"
#include "cli/train/data.h"
#include "cli/train/evaluation.h"
#include "cli/train/fit_options.h"
#include "cli/train/model.h"
#include "cli/train/pictures.h"
#include "cli/train/run_folder.h"
#include "systole/base/error.h"
#include "systole/tensor/random.h"
#include "systole/train.h"

namespace systole::cli {

namespace {

namespace fs = std::filesystem;

std::string grouped(std::int64_t number) {  // 101,770
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

void say(std::string_view what, std::string_view text) {
  put(fmt::format("{} {}\n", coloured(Colour::bold, padded(what, 7)), text));
}

void describe(const TrainingData& data, const BuiltModel& model, const FitPlan& plan,
              const fs::path& folder) {
  say("data", described(data));
  say("model",
      fmt::format("{}, {} parameters{}", model.name, grouped(model.parameters),
                  model.frozen > 0 ? fmt::format(", {} of them frozen", grouped(model.frozen)) : ""));
  if (!model.weights.empty()) say("weights", model.weights);
  const std::int64_t devices = plan.trainer.mesh ? plan.trainer.mesh->size() : 1;
  say("device", fmt::format("{}{}", current_device().to_string(),
                            devices == 1 ? "" : fmt::format(", {} devices", devices)));
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
  // A run that is there is locked before the data are read, which may take its time.
  std::optional<FolderLock> lock;
  if (is_run(place.out)) lock.emplace(lock_run(place.out));
  const DeviceScope device(settings.train.device);
  random::seed(static_cast<std::uint64_t>(settings.train.seed));
  const TrainingData data = open_data(settings);
  BuiltModel model = build_model(settings.model, data);
  model.module = with_targets(std::move(model.module), data.targets);
  const std::int64_t outputs = model.output.empty() ? 1 : model.output[model.output.size() - 1].value();
  const Prepare prepare = make_prepare(settings.data, data, model.input.shape);
  const FitPlan plan = plan_fit(settings, data, model.module, outputs, prepare);
  const RunFolder run =
      open_run(settings, place, fmt::format("{}-{}", data.kind, model.name), std::move(lock));
  const fs::path& folder = run.path;
  describe(data, model, plan, folder);

  training::Trainer trainer(model.module, plan.optimizer, plan.trainer);
  training::FitOptions fit = plan.fit;
  const SaveOptions saved = save_options(settings, data, model.name);
  add_folder(fit, settings.train, folder, saved);
  if (place.fresh) fit.checkpoints.resume = training::Resume::fresh;
  const std::size_t before = epochs_done(folder);
  const training::FitResult result = trainer.fit(data.train, fit);
  if (result.resumed && !result.stopped.empty() && result.epochs() == before)
    put(fmt::format("it stopped early: {}; more epochs go on, --fresh begins anew\n", result.stopped));
  if (settings.train.epochs == 0)
    put("no epoch was trained, since train.epochs is 0: the model is as it began\n");
  else if (result.resumed && result.stopped.empty() && !result.interrupted && result.epochs() == before)
    put(
        fmt::format("no epoch was trained: the run has all {} already; a larger --epochs continues it, "
                    "--fresh starts over\n",
                    before));
  result.write_csv(folder / "history.csv");
  if (result.interrupted) {
    put(fmt::format("interrupted; to go on:\n  {}\n", command_to_go_on(folder)));
    flush_output();
    return kInterrupted + result.signal;
  }

  const fs::path file = folder / "model.safetensors";
  trainer.save(file, saved);
  const data::Source& test = data.test.empty() ? data.train : data.test;
  const Measures measures = measure(load_model(file.string(), settings.train.device), test, settings.train);
  if (!measures.non_finite.empty())
    log(LogLevel::warn, fmt::format("{}: {}", file.string(), measures.non_finite));
  std::vector<std::string> written{"model.safetensors", "config.toml", "history.csv"};
  if (settings.train.plots)
    for (std::string& name : draw_run(folder, result, measures)) written.push_back(std::move(name));
  if (settings.train.tensorboard) write_hparams(folder / "logs", settings, measures);
  say("wrote", fmt::format("{}: {}", folder.string(), fmt::join(written, ", ")));
  if (const std::string bad = described(data.bad); !bad.empty()) say("skipped", bad);
  if (data.test.empty()) put("there is no test data: what follows is of the training data\n");
  put(result_line(measures));
  return 0;
}

}  // namespace systole::cli
