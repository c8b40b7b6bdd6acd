#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/file.h"
#include "systole/base/error.h"
#include "systole/train/callback.h"
#include "systole/train/checkpoint.h"
#include "systole/train/tensorboard.h"
#include "systole/train/trainer.h"
#include "train/state_text.h"

namespace systole::training {

namespace {

// Metrics say so themselves; a loss is better when it is lower.
bool higher_is_better(const Trainer& trainer, std::string_view name, Mode mode) {
  if (mode != Mode::automatic) return mode == Mode::max;
  if (name.starts_with("val_")) name.remove_prefix(4);
  return trainer.higher_is_better(name).value_or(false);
}

// The best value of a number so far, and for how many epochs there was no better one.
class Watch {
 public:
  Watch(std::string monitor, Mode mode, double min_delta)
      : monitor_(std::move(monitor)), mode_(mode), min_delta_(std::abs(min_delta)) {}

  // Throws when no epoch can have such a number.
  void check(Run& run) const {
    std::string_view name = monitor_;
    if (name.starts_with("val_")) name.remove_prefix(4);
    if (name.empty() || name == "loss" || run.trainer().higher_is_better(name)) return;
    throw Error(ErrorKind::kNotFound, "monitor", "no such number is measured",
                "loss, val_loss, a metric of TrainerOptions::metrics, or val_ and its name", monitor_);
  }

  // Whether this epoch is the best yet.
  bool update(Run& run) {
    const Logs& logs = run.logs();
    std::string name = monitor_;
    if (name.empty()) name = logs.contains("val_loss") || name_ == "val_loss" ? "val_loss" : "loss";
    if (name != name_) reset();  // the first validation: losses of other data do not compare
    if (!logs.contains(name) && name.starts_with("val_")) return false;  // not validated in this epoch
    const double value = logs.at(name);
    const bool higher = higher_is_better(run.trainer(), name, mode_);
    const bool better = std::isfinite(value) &&
                        (!best_ || (higher ? value - min_delta_ > *best_ : value + min_delta_ < *best_));
    if (better) best_ = value;
    waited_ = better ? 0 : waited_ + 1;
    name_ = name;
    return better;
  }
  void reset() {
    best_.reset();
    waited_ = 0;
  }
  std::int64_t waited() const { return waited_; }
  void forget_wait() { waited_ = 0; }
  void forget_wait_of(std::int64_t patience) {
    if (waited_ >= patience) waited_ = 0;
  }
  std::string text() const { return best_ ? fmt::format("{} {:.4f}", name_, *best_) : name_; }

  WatchState state() const { return {waited_, best_, name_}; }
  void restore(WatchState state) {
    if (!state.best) return reset();
    waited_ = state.waited;
    best_ = state.best;
    name_ = std::move(state.name);
  }

 private:
  std::string monitor_, name_;
  Mode mode_;
  double min_delta_;
  std::optional<double> best_;
  std::int64_t waited_ = 0;
};

// The weights, and their average where the trainer has one.
Parameters with_average(const Trainer& trainer) {
  Parameters all = trainer.weights();
  for (const auto& [name, variable] : trainer.state())
    if (name.starts_with("average.")) all.add(name, variable);
  return all;
}

class EarlyStopping final : public Callback {
 public:
  explicit EarlyStopping(EarlyStoppingOptions options)
      : options_(std::move(options)), watch_(options_.monitor, options_.mode, options_.min_delta) {}

  std::string name() const override { return "early_stopping"; }
  bool acts_between_launches() const override { return false; }
  void begin(Run& run) override {
    watch_.check(run);
    watch_.reset();
    best_epoch_ = epochs_ = 0;
    best_.clear();
  }
  // A training that had stopped, and is resumed, stays so; asked for more epochs, it has its patience again.
  void epoch_begin(Run& run) override {
    if (run.epochs() > epochs_) watch_.forget_wait_of(patience());
    stop_if_due(run);
  }
  void epoch_end(Run& run) override {
    if (run.epoch() <= options_.start_from_epoch) return;
    if (watch_.update(run)) {
      best_epoch_ = run.epoch();
      if (options_.restore_best) best_ = snapshot(run.step(), with_average(run.trainer())).values;
    } else {
      stop_if_due(run);
    }
  }
  void end(Run& run) override {
    if (!options_.restore_best || best_.empty() || best_epoch_ == run.epoch()) return;
    training::restore(with_average(run.trainer()), Checkpoint{.values = best_});
    run.say(fmt::format("the weights are those of epoch {}", best_epoch_));
  }
  State state() const override {
    return {EarlyStoppingState{best_epoch_, epochs_, watch_.state()}.text(), best_};
  }
  void restore(const State& state) override {
    EarlyStoppingState known = parse_early_stopping_state(state.text);
    best_epoch_ = known.best_epoch;
    epochs_ = known.epochs;
    watch_.restore(std::move(known.watch));
    best_ = state.arrays;
  }

 private:
  std::int64_t patience() const { return std::max<std::int64_t>(options_.patience, 1); }
  void stop_if_due(Run& run) {
    epochs_ = run.epochs();
    if (watch_.waited() < patience()) return;
    const std::string reason = fmt::format("no better {} for {} epochs", watch_.text(), watch_.waited());
    run.stop(reason);
    run.say("early stopping: " + reason);
  }

  EarlyStoppingOptions options_;
  Watch watch_;
  std::int64_t best_epoch_ = 0;
  std::int64_t epochs_ = 0;  // that were asked for
  std::map<std::string, Literal> best_;
};

class ModelFile final : public Callback {
 public:
  explicit ModelFile(ModelFileOptions options)
      : options_(std::move(options)), watch_(options_.monitor, options_.mode, 0) {}

  std::string name() const override { return "model_file"; }
  bool acts_between_launches() const override { return false; }
  void begin(Run& run) override {
    watch_.check(run);
    watch_.reset();
  }
  void epoch_end(Run& run) override {
    if (!watch_.update(run) && options_.best_only) return;
    std::string name = options_.file.string();
    if (const auto at = name.find("{epoch}"); at != std::string::npos)
      name.replace(at, 7, std::to_string(run.epoch()));
    run.trainer().save(name, options_.save);
  }
  State state() const override { return {watch_.state().text()}; }
  void restore(const State& state) override { watch_.restore(parse_watch_state(state.text, name())); }

 private:
  ModelFileOptions options_;
  Watch watch_;
};

class CsvLog final : public Callback {
 public:
  explicit CsvLog(std::filesystem::path file) : file_(std::move(file)) {}
  bool acts_between_launches() const override { return false; }
  void epoch_end(Run& run) override { run.history().write_csv(file_); }

 private:
  std::filesystem::path file_;
};

class TensorBoard final : public Callback {
 public:
  explicit TensorBoard(TensorBoardOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "tensorboard"; }
  bool acts_between_launches() const override { return false; }
  void begin(Run& run) override {
    written_ = 0;
    writer_.emplace(options_.folder);
    if (options_.graph) writer_->graph(run.trainer().forward_graph());
  }
  void steps_end(Run& run) override {
    if (options_.every_steps == 0 || run.step() - written_ < options_.every_steps) return;
    for (const auto& [name, value] : run.logs()) writer_->scalar("steps/" + name, value, run.step());
    written_ = run.step();
  }
  void epoch_end(Run& run) override {
    for (const auto& [name, value] : run.logs())
      writer_->scalar(name.starts_with("val_") ? "validation/" + name.substr(4) : "train/" + name, value,
                      run.epoch());
    writer_->scalar("lr", run.lr(), run.epoch());
    if (options_.histograms)
      for (const auto& [name, variable] : run.trainer().weights())
        if (variable.trainable()) writer_->histogram(name, variable.value(), run.epoch());
    writer_->flush();
  }
  void end(Run&) override { writer_.reset(); }
  State state() const override { return {std::to_string(written_)}; }
  void restore(const State& state) override {
    if (state.text.empty()) return;
    StateText in(state.text, name());
    written_ = in.count();
    in.end();
  }

 private:
  TensorBoardOptions options_;
  std::optional<SummaryWriter> writer_;
  std::int64_t written_ = 0;
};

class Rate final : public Callback {
 public:
  explicit Rate(std::function<double(std::int64_t, double)> rate) : rate_(std::move(rate)) {}
  bool acts_between_launches() const override { return false; }
  void epoch_begin(Run& run) override { run.set_lr(rate_(run.epoch(), run.lr())); }

 private:
  std::function<double(std::int64_t, double)> rate_;
};

class ReduceOnPlateau final : public Callback {
 public:
  explicit ReduceOnPlateau(ReduceOnPlateauOptions options)
      : options_(std::move(options)), watch_(options_.monitor, options_.mode, options_.min_delta) {}

  std::string name() const override { return "reduce_on_plateau"; }
  bool acts_between_launches() const override { return false; }
  void begin(Run& run) override {
    watch_.check(run);
    watch_.reset();
    cooldown_ = 0;
    std::vector<double> rates;  // an optimiser with a schedule refuses now, not after many epochs
    for (const Variable& rate : run.trainer().optimizer().lrs()) rates.push_back(rate.value().item<double>());
    run.trainer().optimizer().set_lrs(rates);
  }
  void epoch_end(Run& run) override {
    const bool better = watch_.update(run);
    if (cooldown_ > 0) {
      --cooldown_;
      watch_.forget_wait();
    }
    if (better || watch_.waited() < std::max<std::int64_t>(options_.patience, 1)) return;
    watch_.forget_wait();
    cooldown_ = options_.cooldown;
    std::vector<double> rates;  // of all groups
    bool is_lower = false;
    for (const Variable& rate : run.trainer().optimizer().lrs()) {
      const double old = rate.value().item<double>(),
                   lower = std::max(old * options_.factor, options_.min_lr);
      is_lower = is_lower || lower < old;
      rates.push_back(std::min(old, lower));
    }
    if (!is_lower) return;
    run.trainer().optimizer().set_lrs(rates);
    run.say(fmt::format("no better {}: the learning rate is now {:.4g}", watch_.text(), rates[0]));
  }
  State state() const override { return {PlateauState{cooldown_, watch_.state()}.text()}; }
  void restore(const State& state) override {
    PlateauState known = parse_plateau_state(state.text);
    cooldown_ = known.cooldown;
    watch_.restore(std::move(known.watch));
  }

 private:
  ReduceOnPlateauOptions options_;
  Watch watch_;
  std::int64_t cooldown_ = 0;
};

class Lambda final : public Callback {
 public:
  Lambda(std::function<void(Run&)> steps, std::function<void(Run&)> epoch)
      : steps_(std::move(steps)), epoch_(std::move(epoch)) {}
  bool acts_between_launches() const override { return bool(steps_); }
  void steps_end(Run& run) override {
    if (steps_) steps_(run);
  }
  void epoch_end(Run& run) override {
    if (epoch_) epoch_(run);
  }

 private:
  std::function<void(Run&)> steps_, epoch_;
};

}  // namespace

CallbackRef early_stopping(EarlyStoppingOptions options) {
  return std::make_shared<EarlyStopping>(std::move(options));
}
CallbackRef model_file(ModelFileOptions options) { return std::make_shared<ModelFile>(std::move(options)); }
CallbackRef csv_log(std::filesystem::path file) { return std::make_shared<CsvLog>(std::move(file)); }
CallbackRef tensorboard(TensorBoardOptions options) {
  return std::make_shared<TensorBoard>(std::move(options));
}
CallbackRef schedule(std::function<double(std::int64_t, double)> rate) {
  return std::make_shared<Rate>(std::move(rate));
}
CallbackRef reduce_on_plateau(ReduceOnPlateauOptions options) {
  return std::make_shared<ReduceOnPlateau>(std::move(options));
}
CallbackRef on_epoch_end(std::function<void(Run&)> f) {
  return std::make_shared<Lambda>(nullptr, std::move(f));
}
CallbackRef on_steps_end(std::function<void(Run&)> f) {
  return std::make_shared<Lambda>(std::move(f), nullptr);
}

}  // namespace systole::training
