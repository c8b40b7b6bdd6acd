// The loop of fit: epochs of launches, what is measured on the way, callbacks, checkpoints.

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <utility>

#include "base/log.h"
#include "systole/base/error.h"
#include "systole/train/checkpoint.h"
#include "train/interrupt.h"
#include "train/progress.h"
#include "train/trainer_impl.h"

namespace systole::training {

namespace {

constexpr std::int64_t kStackedBytes = std::int64_t{64} << 20;  // of batches that one launch brings along

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Numbers as text, without loss.
std::string exact(const std::vector<double>& numbers) {
  std::string text;
  for (const double x : numbers) text += fmt::format("{}{:a}", text.empty() ? "" : " ", x);
  return text;
}
std::vector<double> from_exact(const std::string& text) {
  std::vector<double> numbers;
  std::istringstream in(text);
  for (std::string word; in >> word;) numbers.push_back(std::strtod(word.c_str(), nullptr));
  return numbers;
}

void check(bool holds, const char* option, const char* expected, double got) {
  if (!holds)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("fit: {}", option), "out of range", expected,
                fmt::format("{}", got));
}

std::int64_t bytes_of(const Fields& fields) {
  std::int64_t bytes = 0;
  for (const Tensor& x : fields) bytes += x.size() * static_cast<std::int64_t>(size_of(x.dtype()));
  return bytes;
}

}  // namespace

struct Fit final : Run {
  Fit(Trainer& owner, Trainer::Impl& inside, const data::Source& data, const FitOptions& chosen)
      : trainer_(owner),
        impl_(inside),
        options_(chosen),
        progress_(chosen.verbose, chosen.out, chosen.epochs) {
    check(chosen.epochs >= 0, "epochs", "at least 0", static_cast<double>(chosen.epochs));
    check(chosen.batch >= 1, "batch", "at least 1", static_cast<double>(chosen.batch));
    check(chosen.steps_per_epoch >= 0, "steps_per_epoch", "at least 0",
          static_cast<double>(chosen.steps_per_epoch));
    check(chosen.validation_split >= 0 && chosen.validation_split < 1, "validation_split",
          "0 or more, below 1", chosen.validation_split);
    check(chosen.validation_every >= 1, "validation_every", "at least 1",
          static_cast<double>(chosen.validation_every));
    data::Source train = data, validation = chosen.validation;
    if (validation.empty() && chosen.validation_split > 0) {
      if (data.endless())
        throw Error(ErrorKind::kInvalidArgument, "fit: validation_split", "the data has no end");
      const auto kept =
          static_cast<std::int64_t>(static_cast<double>(data.size()) * (1 - chosen.validation_split));
      train = data.take(kept);
      validation = data.skip(kept);
    }
    if (train.empty()) throw Error(ErrorKind::kInvalidArgument, "fit", "there is no data to learn from");
    if (train.endless() && chosen.steps_per_epoch == 0)
      throw Error(ErrorKind::kInvalidArgument, "fit", "the data has no end", "FitOptions::steps_per_epoch");
    note_data(train);
    if (!impl_.augment.empty() || !chosen.augment.empty()) impl_.step.forget();
    impl_.augment = chosen.augment;
    shape_ = {.samples = train.endless() ? chosen.steps_per_epoch * chosen.batch : train.size(),
              .batch = chosen.batch,
              .steps = chosen.steps_per_epoch,
              .drop_last = chosen.drop_last || impl_.options.mesh.has_value()};
    if (step_count(shape_) == 0)
      throw Error(ErrorKind::kInvalidArgument, "fit: batch", "an epoch has no full batch",
                  fmt::format("at most {}", train.size()), std::to_string(chosen.batch));
    feed_.emplace(train, FeedOptions{.batch = chosen.batch,
                                     .shuffle = chosen.shuffle,
                                     .drop_last = shape_.drop_last,
                                     .seed = chosen.seed,
                                     .map = chosen.map,
                                     .workers = chosen.workers,
                                     .steps = chosen.steps_per_epoch,
                                     .resident_bytes = chosen.device_bytes,
                                     .device = impl_.device()});
    if (!validation.empty())
      validation_.emplace(impl_.evaluation(
          validation, {.steps = chosen.validation_steps, .map = without_chance(chosen.map)}));
    sums_.assign(impl_.streaming.size() + 1, 0);
  }

  FitResult run() {
    const ModeScope mode(impl_.model.inventory, true);
    const InterruptScope interrupt(options_.stop_on_interrupt);
    open_checkpoints();
    const std::vector<Launch> plan = plan_epoch(shape_, launch_steps());
    const std::int64_t steps = step_count(shape_);
    if (options_.steps_per_epoch > steps) {
      result_.ran_out = true;
      const std::string message = fmt::format(
          "the data ran out: it has {} steps of {} samples, steps_per_epoch is {}; Source::repeat() makes it "
          "endless",
          steps, options_.batch, options_.steps_per_epoch);
      progress_.say(message);
      log(LogLevel::warn, message);
    }
    for (const CallbackRef& callback : options_.callbacks) callback->begin(*this);
    for (std::size_t i = 0; i < callback_states_.size(); ++i)
      options_.callbacks[i]->restore(callback_states_[i]);
    last_saved_ = now();
    for (; epoch_ <= options_.epochs && !ended_; ++epoch_) {
      const double start = now();
      std::int64_t done = 0;
      for (std::int64_t i = 0; i < launch_; ++i) done += plan[static_cast<std::size_t>(i)].steps;
      progress_.begin_epoch(epoch_, steps, done);
      const double before = samples_;
      if (launch_ == 0)
        for (const CallbackRef& callback : options_.callbacks) callback->epoch_begin(*this);
      feed_->begin_epoch(epoch_ - 1, done);
      for (; launch_ < static_cast<std::int64_t>(plan.size()) && !ended_;) {
        const Launch& launch = plan[static_cast<std::size_t>(launch_)];
        take(launch, feed_->run(impl_.step, launch).to_vector<float>());
        done += launch.steps;
        step_ += launch.steps;
        ++launch_;
        logs_ = impl_.logs(sums_, samples_);
        progress_.update(done, static_cast<std::int64_t>(samples_ - before), logs_);
        for (const CallbackRef& callback : options_.callbacks) callback->steps_end(*this);
        if (interrupt.requested()) result_.interrupted = ended_ = true;
        if (folder_ && launch_ < static_cast<std::int64_t>(plan.size()) && (result_.interrupted || is_due()))
          save();
      }
      if (result_.interrupted && launch_ < static_cast<std::int64_t>(plan.size())) break;
      finish_epoch(now() - start, static_cast<std::int64_t>(samples_ - before));
    }
    for (const CallbackRef& callback : options_.callbacks) callback->end(*this);
    if (result_.interrupted)
      progress_.say(folder_ ? fmt::format("stopped after {} steps; {} has a checkpoint to go on from", step_,
                                          folder_->folder().string())
                            : fmt::format("stopped after {} steps", step_));
    static_cast<History&>(result_) = history_;
    result_.logs = logs_;
    return std::move(result_);
  }

  Trainer& trainer() override { return trainer_; }
  std::int64_t epoch() const override { return epoch_; }
  std::int64_t epochs() const override { return options_.epochs; }
  std::int64_t step() const override { return step_; }
  const Logs& logs() const override { return logs_; }
  const History& history() const override { return history_; }
  double lr() const override { return impl_.optimizer->lr().item<double>(); }
  void set_lr(double lr) override { impl_.optimizer->set_lr(lr); }
  void stop(std::string reason) override {
    ended_ = true;
    result_.stopped = std::move(reason);
  }
  void say(std::string_view line) override { progress_.say(line); }

 private:
  void note_data(const data::Source& train) {
    std::vector<Literal> batch = train.read({0});
    const std::int64_t index = 0;
    if (!options_.map.empty()) options_.map.apply(batch, std::span(&index, 1), options_.seed, 0);
    impl_.inputs.clear();
    for (std::size_t i = 0; i < impl_.inputs_of(batch.size()); ++i) impl_.inputs.push_back(batch[i].type());
    const data::Info info = train.info();
    if (info.fields.size() > 1) impl_.classes = info.fields.back().classes;
  }

  // What of the samples' changes is the same in validation.
  static data::Transforms without_chance(const data::Transforms& all) {
    data::Transforms kept;
    for (const data::Transform& transform : all.list())
      if (data::Transforms one{transform}; !one.random()) kept.then(transform);
    return kept;
  }

  // Steps of one launch: by sizes alone, so that every run of these settings has the same launches.
  std::int64_t launch_steps() const {
    std::int64_t steps = options_.steps_per_call;
    const Fields example = feed_->example(options_.batch);
    if (steps == 0) steps = steps_per_launch(impl_.step.graph(example), impl_.first_device());
    if (!feed_->resident())
      steps = std::min(
          steps, std::max<std::int64_t>(kStackedBytes / std::max<std::int64_t>(bytes_of(example), 1), 1));
    if (options_.checkpoints.every_steps > 0) steps = std::min(steps, options_.checkpoints.every_steps);
    return std::max<std::int64_t>(steps, 1);
  }

  void take(const Launch& launch, const std::vector<float>& rows) {
    const std::size_t width = impl_.columns();
    for (std::int64_t s = 0; s < launch.steps; ++s) {
      const std::span<const float> row = std::span(rows).subspan(static_cast<std::size_t>(s) * width, width);
      if (impl_.is_bad(row))
        impl_.report_bad_numbers(feed_->fields(launch, s),
                                 fmt::format("fit: epoch {}, step {}", epoch_, step_ + s + 1));
      for (std::size_t c = 0; c < sums_.size(); ++c)
        sums_[c] += static_cast<double>(row[c]) * static_cast<double>(launch.batch);
    }
    samples_ += static_cast<double>(launch.samples());
  }

  void finish_epoch(double seconds, std::int64_t samples) {
    logs_ = impl_.logs(sums_, samples_);
    if (validation_ && (epoch_ % options_.validation_every == 0 || epoch_ == options_.epochs))
      for (const auto& [name, value] : impl_.evaluate(*validation_)) logs_.set("val_" + name, value);
    progress_.end_epoch(logs_, samples);
    History::Row row;
    for (const auto& [name, value] : logs_) row.emplace_back(name, value);
    row.emplace_back("lr", lr());
    row.emplace_back("seconds", seconds);
    history_.add(row);
    for (const CallbackRef& callback : options_.callbacks) callback->epoch_end(*this);
    std::fill(sums_.begin(), sums_.end(), 0.0);
    samples_ = 0;
    launch_ = 0;
    const std::int64_t every = options_.checkpoints.every_epochs;
    if (folder_ && (result_.interrupted || ended_ || epoch_ == options_.epochs ||
                    (every > 0 && epoch_ % every == 0) || is_due())) {
      ++epoch_;  // where to go on
      save();
      --epoch_;
    }
  }

  bool is_due() const {
    const FitCheckpoints& c = options_.checkpoints;
    return (c.every_steps > 0 && step_ - saved_step_ >= c.every_steps) ||
           (c.every_seconds > 0 && now() - last_saved_ >= c.every_seconds);
  }

  // What must be the same for a checkpoint to be gone on from: sizes, a few of the samples, the state's
  // types.
  std::string settings() const {
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a
    const auto add = [&](std::span<const std::byte> bytes) {
      for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 1099511628211u;
    };
    const data::Source& source = feed_->source();
    constexpr std::int64_t kLooked = 16;
    for (std::int64_t i = 0; i < kLooked; ++i)
      for (const Literal& array : source[source.period() * i / kLooked]) add(array.as_bytes());
    for (const auto& [name, variable] : impl_.state()) {
      const std::string text = name + variable.type().to_string();
      add(std::as_bytes(std::span(text)));
    }
    return fmt::format(
        "samples {} batch {} steps_per_epoch {} drop_last {} shuffle {} seed {} content {:016x}",
        shape_.samples, shape_.batch, shape_.steps, shape_.drop_last, options_.shuffle, options_.seed, hash);
  }

  // The names under which callbacks' states are kept.
  std::vector<std::string> callback_keys() const {
    std::vector<std::string> keys;
    std::map<std::string, int> seen;
    for (const CallbackRef& callback : options_.callbacks) {
      const std::string name = callback->name();
      keys.push_back(fmt::format("callback.{}.{}.", name, seen[name]++));
    }
    return keys;
  }

  // Those that may stop the training, with their options.
  std::string stops() const {
    std::string text;
    for (const CallbackRef& callback : options_.callbacks)
      if (const std::string one = callback->settings(); !one.empty()) text += one + "\n";
    return text;
  }

  void open_checkpoints() {
    const FitCheckpoints& c = options_.checkpoints;
    if (c.folder.empty()) return;
    folder_.emplace(c.folder, CheckpointOptions{.keep = static_cast<int>(c.keep)});
    if (c.resume == Resume::fresh) {
      for (const CheckpointFolder::Entry& entry : folder_->list()) std::filesystem::remove(entry.file);
      return;
    }
    std::optional<Checkpoint> found = folder_->load();
    if (!found) {
      if (c.resume == Resume::must)
        throw Error(ErrorKind::kNotFound, c.folder.string(), "there is no checkpoint to go on from");
      return;
    }
    const auto text = [&](const char* key) { return found->metadata[key]; };
    if (text("settings") != settings())
      throw Error(
          ErrorKind::kInvalidArgument, c.folder.string(),
          "its checkpoints are of a run with other settings; another folder, or Resume::fresh, begins "
          "anew",
          text("settings"), settings());
    set_tuning_choices(text("tuning"));
    const std::vector<std::string> keys = callback_keys();
    for (const std::string& prefix : keys) {
      Callback::State& state =
          callback_states_.emplace_back(Callback::State{found->metadata[prefix + "state"]});
      for (auto at = found->values.lower_bound(prefix);
           at != found->values.end() && at->first.starts_with(prefix); at = found->values.erase(at))
        state.arrays.emplace(at->first.substr(prefix.size()), at->second);
    }
    restore(impl_.state(), *found);
    epoch_ = std::stoll(text("epoch"));
    launch_ = std::stoll(text("launch"));
    step_ = saved_step_ = found->step;
    std::vector<double> sums = from_exact(text("sums"));
    samples_ = sums.back();
    sums.pop_back();
    sums_ = std::move(sums);
    history_ = History::parse_csv(text("history"), c.folder.string());
    result_.resumed = true;
    // What a callback stopped stays so, unless more is asked for or the callback is another.
    if (options_.epochs <= std::strtoll(text("asked").c_str(), nullptr, 10) && text("stops") == stops())
      result_.stopped = text("stopped");
    ended_ = !result_.stopped.empty();
    progress_.say(fmt::format("going on from step {} of {}", step_, c.folder.string()));
  }

  void save() {
    std::vector<double> sums = sums_;
    sums.push_back(samples_);
    Checkpoint copy = snapshot(step_, impl_.state(),
                               {{"settings", settings()},
                                {"tuning", tuning_choices()},
                                {"epoch", std::to_string(epoch_)},
                                {"launch", std::to_string(launch_)},
                                {"sums", exact(sums)},
                                {"history", history_.to_csv()},
                                {"asked", std::to_string(options_.epochs)},
                                {"stops", stops()},
                                {"stopped", result_.stopped}});
    const std::vector<std::string> keys = callback_keys();
    for (std::size_t i = 0; i < options_.callbacks.size(); ++i) {
      const std::string& prefix = keys[i];
      Callback::State state = options_.callbacks[i]->state();
      copy.metadata[prefix + "state"] = std::move(state.text);
      for (auto& [name, array] : state.arrays) copy.values.emplace(prefix + name, std::move(array));
    }
    folder_->write(copy);
    saved_step_ = step_;
    last_saved_ = now();
  }

  Trainer& trainer_;
  Trainer::Impl& impl_;
  const FitOptions& options_;
  Progress progress_;
  EpochShape shape_;
  std::optional<Feed> feed_;
  std::optional<Trainer::Impl::Evaluation> validation_;
  std::optional<CheckpointFolder> folder_;
  FitResult result_;
  std::vector<Callback::State> callback_states_;  // of the checkpoint
  History history_;
  Logs logs_;
  std::vector<double> sums_;  // of this epoch: the loss, the streaming metrics
  double samples_ = 0;
  std::int64_t epoch_ = 1, launch_ = 0, step_ = 0, saved_step_ = 0;
  double last_saved_ = 0;
  bool ended_ = false;
};

FitResult Trainer::fit(const data::Source& data, const FitOptions& options) {
  return Fit(*this, *impl_, data, options).run();
}

}  // namespace systole::training
