#pragma once

// What happens beside the training itself: callbacks hear of the beginning, of steps, epochs and the end, and
// may stop it, change the learning rate or keep files.
//
//   trainer.fit(train, {.epochs = 20, .validation = test,
//                       .callbacks = {training::early_stopping({.patience = 3}),
//                       training::csv_log("log.csv"),
//                                     training::on_epoch_end([](training::Run& run) { … })}});
//
// They run on the caller's thread between launches, in the order of the list.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/profile.h"
#include "systole/train/history.h"
#include "systole/train/saved_model.h"

namespace systole::training {

class Trainer;

// Numbers by name, in order: "loss", "accuracy", "val_loss", …
class SYSTOLE_API Logs {
 public:
  void set(std::string_view name, double value);
  bool contains(std::string_view name) const;
  double at(std::string_view name) const;  // throws kNotFound with the names there are
  double operator[](std::string_view name) const { return at(name); }
  bool empty() const { return values_.empty(); }
  std::size_t size() const { return values_.size(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  std::string to_string() const;  // "loss 0.0721  accuracy 0.9781"

 private:
  std::vector<std::pair<std::string, double>> values_;
};

// A training under way, as callbacks see it.
class SYSTOLE_API Run {
 public:
  virtual ~Run() = default;
  virtual Trainer& trainer() = 0;
  virtual std::int64_t epoch() const = 0;            // from 1
  virtual std::int64_t epochs() const = 0;           // as asked for
  virtual std::int64_t step() const = 0;             // done in all, over epochs
  virtual std::int64_t epoch_step() const = 0;       // done of this epoch
  virtual std::int64_t steps_per_epoch() const = 0;  // of every epoch
  virtual const Logs& logs() const = 0;  // of the epoch so far; in epoch_end with the validation's
  virtual const History& history() const = 0;
  virtual double lr() const = 0;
  virtual void set_lr(double lr) = 0;
  virtual void stop(std::string reason) = 0;    // after this epoch, or this launch
  virtual void say(std::string_view line) = 0;  // a line on the output of fit, unless it is quiet
};

class SYSTOLE_API Callback {
 public:
  virtual ~Callback() = default;
  virtual std::string name() const { return "callback"; }  // under which a checkpoint keeps its state
  virtual void begin(Run&) {}  // forgets what an earlier training left; then comes restore(), if any
  virtual void epoch_begin(Run&) {}
  virtual void steps_end(Run&) {}  // after every launch, of one step or several
  // Whether steps_end looks at the model or changes anything. If no callback does, an accelerator has its
  // next launch before the host has the numbers of the last, and the model is ahead of Run::step() then.
  virtual bool acts_between_launches() const { return true; }
  virtual void epoch_end(Run&) {}
  virtual void end(Run&) {}
  virtual void abandon() noexcept {}  // in the place of end() when fit throws: lets go of what it holds
  // What a checkpoint keeps of it, and takes back.
  struct State {
    std::string text;
    std::map<std::string, Literal> arrays = {};
  };
  virtual State state() const { return {}; }
  virtual void restore(const State&) {}
};
using CallbackRef = std::shared_ptr<Callback>;

enum class Mode { automatic, min, max };  // automatic: max for accuracies and scores, min for all others

// Ends the training when `monitor` (the validation loss, or without one the loss) has not improved for
// `patience` epochs.
struct EarlyStoppingOptions {
  std::string monitor = {};
  std::int64_t patience = 0;
  double min_delta = 0;
  Mode mode = Mode::automatic;
  bool restore_best = false;          // ends with the weights of the best epoch
  std::int64_t start_from_epoch = 0;  // earlier epochs do not count
};
SYSTOLE_API CallbackRef early_stopping(EarlyStoppingOptions options = {});

// The model as file, for systole::load: after every epoch, or only when `monitor` got better. "{epoch}" in
// the name stands for the epoch. What a training is resumed from is FitOptions::checkpoints instead.
struct ModelFileOptions {
  std::filesystem::path file = "best.safetensors";
  bool best_only = true;
  std::string monitor = {};
  Mode mode = Mode::automatic;
  SaveOptions save = {};  // what else stands in the file
};
SYSTOLE_API CallbackRef model_file(ModelFileOptions options = {});

// A line per epoch, as history.csv() writes it, flushed at once.
SYSTOLE_API CallbackRef csv_log(std::filesystem::path file);

// Scalars of every epoch ("train/loss", "validation/loss", "lr"); with an interval also of steps.
struct TensorBoardOptions {
  std::filesystem::path folder = "logs";
  std::int64_t every_steps = 0;
  bool histograms = false;  // of every parameter, after each epoch
  bool graph = false;
};
SYSTOLE_API CallbackRef tensorboard(TensorBoardOptions options = {});

// The learning rate of an epoch (from 1), given that of the one before.
SYSTOLE_API CallbackRef schedule(std::function<double(std::int64_t epoch, double lr)> rate);

// Multiplies the learning rate by `factor` when `monitor` has not improved for `patience` epochs.
struct ReduceOnPlateauOptions {
  std::string monitor = {};
  double factor = 0.1;
  std::int64_t patience = 10;
  double min_delta = 1e-4;
  std::int64_t cooldown = 0;
  double min_lr = 0;
  Mode mode = Mode::automatic;
};
SYSTOLE_API CallbackRef reduce_on_plateau(ReduceOnPlateauOptions options = {});

// A part of the training under the profiler (profile.h): after `skip` steps, and as many more as it takes
// until nothing is compiled or captured any more, `steps` by the clock alone, as many recorded and as many by
// the clock again. They are rounded up to launches of one size within an epoch; to whole epochs where one has
// fewer. The folder gets index.html, trace.json and profile.json, fit's output the table.
struct ProfileStepsOptions {
  std::filesystem::path folder = "profile";
  std::int64_t skip = 10, steps = 50;
  bool stop = false;                              // the training ends when it is done
  std::function<void(const Profile&)> done = {};  // is given it too
  ProfileOptions profile = {};
};
SYSTOLE_API CallbackRef profile_steps(ProfileStepsOptions options = {});

SYSTOLE_API CallbackRef on_epoch_end(std::function<void(Run&)> f);
SYSTOLE_API CallbackRef on_steps_end(std::function<void(Run&)> f);

}  // namespace systole::training
