// The loop of fit: epochs of launches, what is measured on the way, callbacks, checkpoints.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <map>
#include <utility>
#include <variant>

#include "base/folder_lock.h"
#include "base/log.h"
#include "systole/base/error.h"
#include "systole/train/checkpoint.h"
#include "train/fit_state.h"
#include "train/interrupt.h"
#include "train/late_notice.h"
#include "train/other_run.h"
#include "train/progress.h"
#include "train/trainer_impl.h"

namespace systole::training {

namespace {

constexpr std::int64_t kStackedBytes = std::int64_t{64} << 20;  // of batches that one launch brings along

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Tells callbacks of a training that ends by an exception: they may live long after it.
class Abandoning {
 public:
  explicit Abandoning(const std::vector<CallbackRef>& callbacks) : callbacks_(callbacks) {}
  ~Abandoning() {
    if (std::uncaught_exceptions() <= before_) return;
    for (const CallbackRef& callback : callbacks_) callback->abandon();
  }
  Abandoning(const Abandoning&) = delete;
  Abandoning& operator=(const Abandoning&) = delete;

 private:
  const std::vector<CallbackRef>& callbacks_;
  const int before_ = std::uncaught_exceptions();
};

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
      validation_.emplace(impl_.evaluation(validation, {.steps = chosen.validation_steps,
                                                        .map = without_chance(chosen.map, validation),
                                                        .device_bytes = chosen.device_bytes}));
    sums_.assign(impl_.streaming.size() + 1, 0);
  }

  FitResult run() {
    const ModeScope mode(impl_.model.inventory, true);
    const InterruptScope interrupt(options_.stop_on_interrupt);
    interrupt_ = &interrupt;
    impl_.check_labels(*feed_, impl_.step, options_.batch, "fit");
    open_checkpoints();
    std::optional<LateNotice> notice;
    if (folder_ && options_.stop_on_interrupt)
      notice.emplace(interrupt, [this](double seconds) { return late_text(seconds); });
    const std::vector<Launch> plan = plan_epoch(shape_, launch_steps());
    const std::int64_t steps = step_count(shape_);  // of an epoch
    if (options_.steps_per_epoch > steps) {
      result_.ran_out = true;
      log(LogLevel::warn,
          fmt::format("the data ran out: it has {} steps of {} samples, steps_per_epoch is {}; "
                      "Source::repeat() makes it endless",
                      steps, options_.batch, options_.steps_per_epoch));
    }
    const Abandoning abandoning(options_.callbacks);
    for (const CallbackRef& callback : options_.callbacks) callback->begin(*this);
    for (std::size_t i = 0; i < callback_states_.size(); ++i) try {
        options_.callbacks[i]->restore(callback_states_[i]);
      } catch (const Error& error) {
        throw error.within(where_);
      }
    last_saved_ = now();
    const bool goes_ahead =
        is_accelerator(impl_.first_device()) &&
        std::none_of(options_.callbacks.begin(), options_.callbacks.end(),
                     [](const CallbackRef& callback) { return callback->acts_between_launches(); });
    for (; epoch_ <= options_.epochs; ++epoch_) {
      const double start = now();
      if (done_ == 0)
        for (const CallbackRef& callback : options_.callbacks) callback->epoch_begin(*this);
      if (ended_) break;
      progress_.begin_epoch(epoch_, steps, done_);
      const double before = samples_;
      feed_->begin_epoch(epoch_ - 1, done_);
      const std::vector<Launch> launches = rest_of(plan, done_);
      Tensor ahead;  // the numbers of a launch that was issued before those of the one before were there
      for (std::size_t i = 0; i < launches.size(); ++i) {
        const Launch& launch = launches[i];
        const Tensor numbers =
            ahead.defined() ? std::exchange(ahead, Tensor()) : feed_->run(impl_.step, launch);
        const bool saves = folder_ && is_due(step_ + launch.steps);
        if (i + 1 == launches.size() && epoch_ < options_.epochs)
          feed_->prepare_epoch(epoch_);
        else if (i + 1 < launches.size() && goes_ahead && !saves && !ended_ && !is_interrupted())
          ahead = feed_->run(impl_.step, launches[i + 1]);
        take(launch, numbers.to_vector<float>());
        done_ += launch.steps;
        step_ += launch.steps;
        logs_ = impl_.logs(sums_, samples_);
        progress_.update(done_, static_cast<std::int64_t>(samples_ - before), logs_);
        for (const CallbackRef& callback : options_.callbacks) callback->steps_end(*this);
        if (ahead.defined()) continue;  // what was issued is waited for, whatever ends the training
        if (is_interrupted()) break;
        if (folder_ && done_ < steps && (ended_ || saves)) save();
        if (ended_) break;
      }
      is_cut_ = done_ < steps;
      // Who sent a signal may not wait for long: the checkpoint comes first, and a validation is done when
      // the training goes on.
      if (is_interrupted() || !finish_epoch(now() - start, static_cast<std::int64_t>(samples_ - before))) {
        if (folder_) save();
        break;
      }
      if (ended_) break;
    }
    is_over_ = true;
    for (const CallbackRef& callback : options_.callbacks) callback->end(*this);
    is_interrupted();  // a signal may come in the last checkpoint, or while the callbacks end
    notice.reset();
    if (result_.interrupted) result_.signal = interrupt.signal();
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
  std::int64_t epoch_step() const override { return done_; }
  std::int64_t steps_per_epoch() const override { return step_count(shape_); }
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

  // Whether a change of the user's own does the same whatever chance says: tried, since nothing else tells.
  static bool leaves_nothing_to_chance(const data::Custom& custom, const data::Sample& sample) {
    constexpr std::uint64_t kTries = 16;
    const auto same = [](const Literal& a, const Literal& b) {
      return a.type() == b.type() && std::ranges::equal(a.as_bytes(), b.as_bytes());
    };
    if (!custom.on_sample) return false;
    const data::Sample first = custom.on_sample(sample, 0);
    for (std::uint64_t i = 1; i < kTries; ++i)
      if (!std::ranges::equal(first, custom.on_sample(sample, i * 0x9e3779b97f4a7c15u), same)) return false;
    return true;
  }

  // What of the samples' changes is the same in validation. A random part of a picture is its middle there.
  static data::Transforms without_chance(const data::Transforms& all, const data::Source& source) {
    data::Transforms kept;
    for (data::Transform transform : all.list()) {
      if (auto* crop = std::get_if<data::Crop>(&transform); crop != nullptr && crop->height > 0)
        crop->random = false;
      if (const auto* custom = std::get_if<data::Custom>(&transform)) {
        if (leaves_nothing_to_chance(*custom, kept(source[0]))) kept.then(transform);
      } else if (!data::Transforms{transform}.random()) {
        kept.then(transform);
      }
    }
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

  std::vector<std::string> field_names() const {
    std::vector<std::string> names;
    for (const data::Field& field : feed_->source().info().fields) names.push_back(field.name);
    return names;
  }

  void take(const Launch& launch, const std::vector<float>& rows) {
    const std::size_t width = impl_.columns();
    for (std::int64_t s = 0; s < launch.steps; ++s) {
      const std::span<const float> row = std::span(rows).subspan(static_cast<std::size_t>(s) * width, width);
      if (impl_.is_bad(row))
        impl_.report_bad_numbers(feed_->fields(launch, s), {field_names(), feed_->samples(launch, s)},
                                 fmt::format("fit: epoch {}, step {}", epoch_, step_ + s + 1));
      for (std::size_t c = 0; c < sums_.size(); ++c)
        sums_[c] += static_cast<double>(row[c]) * static_cast<double>(launch.batch);
    }
    samples_ += static_cast<double>(launch.samples());
  }

  // Whether a signal asked for the end, from when on everything ends.
  bool is_interrupted() {
    if (interrupt_->requested()) result_.interrupted = ended_ = true;
    return result_.interrupted;
  }

  // In the thread of the notice.
  std::string late_text(double seconds) const {
    const std::int64_t saved = saved_step_;
    const char* const name = interrupt_->signal() == SIGTERM ? "SIGTERM" : "Ctrl-C";
    if (is_over_)
      return fmt::format("fit: {} came {:.0f} s ago and the end of a callback takes long. {} has all steps",
                         name, seconds, folder_->folder().string());
    return fmt::format(
        "fit: {} came {:.0f} s ago and the checkpoint is not written yet: what is under way takes long. {} "
        "{}; "
        "give it more time before it is killed (docker stop --time, Slurm's KillWait)",
        name, seconds, folder_->folder().string(),
        saved > 0 ? fmt::format("has that of step {} so far", saved) : "has none so far");
  }

  // False when a signal came during the validation: nothing of the epoch's end has happened.
  bool finish_epoch(double seconds, std::int64_t samples) {
    logs_ = impl_.logs(sums_, samples_);
    if (validation_ && (epoch_ % options_.validation_every == 0 || epoch_ == options_.epochs)) {
      const std::optional<Logs> measured =
          impl_.evaluate(*validation_, {.what = fmt::format("validation after epoch {}", epoch_),
                                        .stop = [this] { return is_interrupted(); }});
      if (!measured) return false;
      for (const auto& [name, value] : *measured) logs_.set("val_" + name, value);
    }
    progress_.end_epoch(logs_, samples);
    History::Row row;
    for (const auto& [name, value] : logs_) row.emplace_back(name, value);
    row.emplace_back("lr", lr());
    row.emplace_back("seconds", seconds);
    history_.add(row);
    for (const CallbackRef& callback : options_.callbacks) callback->epoch_end(*this);
    std::fill(sums_.begin(), sums_.end(), 0.0);
    samples_ = 0;
    done_ = 0;
    const std::int64_t every = options_.checkpoints.every_epochs;
    is_interrupted();
    // An epoch that a callback cut short goes on from where it was, by the checkpoint of that moment.
    if (folder_ && !is_cut_ &&
        (result_.interrupted || ended_ || epoch_ == options_.epochs || (every > 0 && epoch_ % every == 0) ||
         is_due(step_))) {
      ++epoch_;  // where to go on
      save();
      --epoch_;
    }
    return true;
  }

  bool is_due(std::int64_t step) const {  // a checkpoint after that step
    const FitCheckpoints& c = options_.checkpoints;
    return (c.every_steps > 0 && step - saved_step_ >= c.every_steps) ||
           (c.every_seconds > 0 && now() - last_saved_ >= c.every_seconds);
  }

  // What must be the same for a checkpoint to be gone on from: sizes, a few of the samples, the state's
  // types, what a step does as far as options say it.
  std::string make_settings() const {
    std::uint64_t hash = 14695981039346656037u;  // FNV-1a
    const auto add = [&](std::span<const std::byte> bytes) {
      for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 1099511628211u;
    };
    const data::Source& source = feed_->source();
    constexpr std::int64_t kLooked = 16;
    for (std::int64_t i = 0; i < kLooked; ++i) {
      const std::int64_t at = source.period() * i / kLooked;
      const data::Sample once = source[at], again = source[at];
      for (std::size_t f = 0; f < once.size(); ++f)  // what is another each time says nothing
        if (f < again.size() && std::ranges::equal(once[f].as_bytes(), again[f].as_bytes()))
          add(once[f].as_bytes());
    }
    for (const auto& [name, variable] : impl_.state()) {
      const std::string text = name + variable.type().to_string();
      add(std::as_bytes(std::span(text)));
    }
    std::string metrics;
    for (const std::size_t i : impl_.streaming)
      metrics += (metrics.empty() ? "" : ",") + impl_.metrics[i].name;
    const TrainerOptions& o = impl_.options;
    return fmt::format(
        "samples {} batch {} steps_per_epoch {} drop_last {} shuffle {} seed {} metrics [{}] precision {} "
        "accumulate {} clip_norm {} clip_value {} ema {} content {:016x}",
        shape_.samples, shape_.batch, shape_.steps, shape_.drop_last, options_.shuffle, options_.seed,
        metrics, static_cast<int>(o.precision), o.accumulate, o.clip_norm, o.clip_value, o.ema, hash);
  }
  const std::string& settings() {
    if (settings_.empty()) settings_ = make_settings();
    return settings_;
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

  void open_checkpoints() {
    const FitCheckpoints& c = options_.checkpoints;
    if (c.folder.empty()) return;
    folder_.emplace(c.folder, CheckpointOptions{.keep = static_cast<int>(c.keep)});
    lock_.emplace(c.folder, FolderLock::Kind::run, "another folder");
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
      throw Error(ErrorKind::kInvalidArgument, c.folder.string(),
                  why_another_run(*found, text("settings"), impl_.state(), settings()),
                  "another folder, or Resume::fresh, which removes them and begins again");
    set_tuning_choices(text("tuning"));
    const std::vector<std::string> keys = callback_keys();
    for (const std::string& prefix : keys) {
      Callback::State& state =
          callback_states_.emplace_back(Callback::State{found->metadata[prefix + "state"]});
      for (auto at = found->values.lower_bound(prefix);
           at != found->values.end() && at->first.starts_with(prefix); at = found->values.erase(at))
        state.arrays.emplace(at->first.substr(prefix.size()), at->second);
    }
    // States of callbacks that this run does not have.
    std::erase_if(found->values, [](const auto& value) { return value.first.starts_with("callback."); });
    const std::string where = fmt::format("{}: checkpoint of step {}", c.folder.string(), found->step);
    FitState state = parse_fit_state(found->metadata, sums_.size(), step_count(shape_), where);
    restore(impl_.state(), *found);
    where_ = where;
    epoch_ = state.epoch;
    done_ = state.done;
    step_ = saved_step_ = found->step;
    samples_ = state.samples;
    sums_ = std::move(state.sums);
    history_ = std::move(state.history);
    for (const std::string& name : history_.names())
      if (const std::optional<double> value = history_.last(name); value && name != "lr" && name != "seconds")
        logs_.set(name, *value);
    result_.resumed = true;
    progress_.say(fmt::format("going on from step {} of {}", step_, c.folder.string()));
  }

  void save() {
    Checkpoint copy =
        snapshot(step_, impl_.state(), {{"settings", settings()}, {"tuning", tuning_choices()}});
    add_to(copy.metadata,
           {.epoch = epoch_, .done = done_, .sums = sums_, .samples = samples_, .history = history_});
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
  std::optional<FolderLock> lock_;  // of that folder
  FitResult result_;
  std::vector<Callback::State> callback_states_;  // of the checkpoint
  History history_;
  Logs logs_;
  std::vector<double> sums_;  // of this epoch: the loss, the streaming metrics
  double samples_ = 0;
  std::int64_t epoch_ = 1, done_ = 0, step_ = 0;  // done: steps of this epoch
  std::atomic<std::int64_t> saved_step_ = 0;
  const InterruptScope* interrupt_ = nullptr;
  double last_saved_ = 0;
  std::string settings_;
  std::string where_;                  // the checkpoint that it goes on from
  std::atomic<bool> is_over_ = false;  // all steps and checkpoints are done
  bool ended_ = false;
  bool is_cut_ = false;  // this epoch, before its last step
};

FitResult Trainer::fit(const data::Source& data, const FitOptions& options) {
  return Fit(*this, *impl_, data, options).run();
}

}  // namespace systole::training
