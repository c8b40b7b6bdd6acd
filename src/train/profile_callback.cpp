#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "profile/plain.h"
#include "profile/summary.h"
#include "systole/base/error.h"
#include "systole/tensor.h"
#include "systole/tensor/kernels.h"
#include "systole/train/callback.h"

namespace systole::training {

namespace {

// Which launches of an epoch are alike, learnt as they come: it begins with those of one size; what is left
// over follows step by step, and the last step may have a smaller batch and so a program of its own.
class Launches {
 public:
  void begin_epoch() {
    sees_all_ = true;
    counted_ = 0;
  }

  // A launch of `size` steps, the last of which was the epoch's step `end` of `all`: whether it is one of
  // those that are alike.
  bool add(std::int64_t size, std::int64_t end, std::int64_t all) {
    if (end == size || (!sees_all_ && alike_ == 0)) size_ = size;
    const bool is_alike = size == size_ && !(size == 1 && end == all && all > 1);
    if (is_alike) counted_ += size;
    if (sees_all_ && (!is_alike || end == all)) {
      alike_ = counted_;
      sees_all_ = false;
    }
    return is_alike;
  }

  // How many of an epoch's steps are in such launches: at most, as long as no epoch was seen.
  std::int64_t alike_steps(std::int64_t all) const { return alike_ > 0 ? alike_ : all; }

 private:
  bool sees_all_ = false;  // the epoch so far, and all launches were alike
  std::int64_t size_ = 0, counted_ = 0, alike_ = 0;
};

// Warms up, times steps by the clock alone, makes them ready for the recording, records, and times as many
// again, as what else the machine does may change. Times must be of the same work with and without the
// recording, and of no work that is done once: what is timed or recorded are launches that are alike, within
// an epoch, or whole epochs where one has not enough of them.
class ProfileSteps final : public Callback {
 public:
  explicit ProfileSteps(ProfileStepsOptions options) : options_(std::move(options)) {
    if (options_.steps < 1 || options_.skip < 0)
      throw Error(ErrorKind::kInvalidArgument, "profile_steps", "the number of steps",
                  "steps from 1, skip from 0",
                  std::to_string(options_.steps < 1 ? options_.steps : options_.skip));
    if (options_.profile.most_events < 1)
      throw Error(ErrorKind::kInvalidArgument, "profile_steps: most_events", "no room for any", "1 or more",
                  std::to_string(options_.profile.most_events));
  }
  std::string name() const override { return "profile_steps"; }

  // A folder that cannot be is told before the training has taken its time.
  void begin(Run& run) override {
    if (!options_.folder.empty()) folder_.emplace(options_.folder);
    state_ = State::skipping;
    profiler_.reset();
    made_.reset();
    window_.reset();
    launches_ = {};
    warm_launches_ = warm_epochs_ = 0;
    parts_.clear();
    begun_ = last_ = run.step();
  }

  void epoch_begin(Run& run) override {
    launches_.begin_epoch();
    if (window_ && window_->of_epochs && run.step() - window_->first >= window_->steps) close(run);
    go_on(run);
  }

  void steps_end(Run& run) override {
    if (state_ == State::done) return;
    const std::int64_t size = run.step() - std::exchange(last_, run.step());
    const bool is_alike = launches_.add(size, run.epoch_step(), run.steps_per_epoch());
    if (is_alike) ++warm_launches_;
    if (run.epoch_step() == run.steps_per_epoch()) ++warm_epochs_;
    for (std::int64_t i = 0; window_ && state_ == State::recording && i < size; ++i) profiler_->step();
    if (window_ && !window_->of_epochs) {
      if (!is_alike && !is_last_epoch(run))
        window_.reset();  // the next epoch has room for it
      else if (run.step() - window_->first >= window_->steps)
        close(run);
    }
    go_on(run);
  }

  void end(Run& run) override {
    if (state_ == State::recording && window_ && run.step() > window_->first) finish(run);
    if (made_) report(run);
    if (state_ != State::done)
      run.say(fmt::format("profile_steps: the training ended before {} steps were recorded", options_.steps));
    abandon();
  }

  void abandon() noexcept override {
    folder_.reset();
    profiler_.reset();
    made_.reset();
    window_.reset();
    state_ = State::done;
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Until everything is as it will stay: launches are captured for the few places that arrays alternate
  // between, for the recording anew.
  static constexpr int kReadyLaunches = 6, kReadyEpochs = 4;
  static constexpr std::int64_t kParts =
      3;  // of the steps that are timed, before and after; the median counts
  enum class State { skipping, timing, preparing, recording, settling, timing_again, done };
  struct Window {
    bool of_epochs;
    std::int64_t first, steps;
    Clock::time_point begin;
  };

  static bool is_last_epoch(const Run& run) { return run.epoch() >= run.epochs(); }
  static std::int64_t parts_of(std::int64_t all, std::int64_t size) { return (all + size - 1) / size; }

  bool needs_epochs(const Run& run) const {
    return launches_.alike_steps(run.steps_per_epoch()) < options_.steps;
  }
  bool is_warm(const Run& run) const {
    return needs_epochs(run) ? warm_epochs_ >= kReadyEpochs : warm_launches_ >= kReadyLaunches;
  }

  void go_on(Run& run) {
    if (state_ == State::skipping && run.step() - begun_ >= options_.skip && is_warm(run))
      state_ = State::timing;
    if (state_ == State::preparing && is_warm(run)) state_ = State::recording;
    if (state_ == State::settling && is_warm(run)) state_ = State::timing_again;
    if (!window_ && (is_timing() || state_ == State::recording)) open(run);
  }

  bool is_timing() const { return state_ == State::timing || state_ == State::timing_again; }

  // If it may begin here: at the beginning of an epoch, or where there is room for it.
  void open(Run& run) {
    const std::int64_t all = run.steps_per_epoch();
    std::int64_t steps = is_timing() ? parts_of(options_.steps, kParts) : std::int64_t{options_.steps};
    const bool of_epochs = needs_epochs(run);
    if (of_epochs) {
      if (run.epoch_step() > 0) return;
      steps = parts_of(steps, all) * all;
    } else if (run.epoch_step() + steps > launches_.alike_steps(all) &&
               !(is_last_epoch(run) && state_ == State::recording)) {
      return;
    }
    synchronize(current_device());
    if (state_ == State::recording) profiler_->restart();
    window_ = {of_epochs, run.step(), steps, Clock::now()};
  }

  void close(Run& run) {
    if (state_ == State::recording) return finish(run);
    synchronize(current_device());
    const double seconds = std::chrono::duration<double>(Clock::now() - window_->begin).count();
    parts_.push_back(seconds / static_cast<double>(run.step() - window_->first));
    window_.reset();
    if (std::ssize(parts_) % kParts != 0) return;
    if (state_ == State::timing_again) return report(run);
    ProfileOptions recording = options_.profile;
    recording.roof = false;  // when all is timed
    try {
      profiler_.emplace(std::move(recording));
    } catch (const Error& error) {  // another one records
      return give_up(run, error);
    }
    warm_launches_ = warm_epochs_ = 0;
    state_ = State::preparing;
  }

  // The training is what matters.
  void give_up(Run& run, const Error& error) {
    const std::string words = fmt::format("profile_steps: {}", error.what());
    log(LogLevel::warn, words);
    if (options_.stop) run.stop(words);
    abandon();
  }

  void finish(Run& run) {
    try {
      made_ = profiler_->stop();
    } catch (const Error& error) {
      return give_up(run, error);
    }
    profiler_.reset();
    window_.reset();
    warm_launches_ = warm_epochs_ = 0;
    state_ = State::settling;
  }

  void report(Run& run) {
    Profile made = *std::exchange(made_, std::nullopt);
    window_.reset();
    state_ = State::done;
    made.plain_seconds = profiling::median(parts_) * static_cast<double>(made.steps);
    if (options_.profile.roof) profiling::measure_roofs(made);
    run.say(made.table(10));
    if (!options_.folder.empty()) try {
        made.save(options_.folder);
      } catch (const Error& error) {  // a disk that is full
        give_up(run, error);
      }
    if (options_.done) options_.done(made);
    if (options_.stop) run.stop("the profile is done");
  }

  const ProfileStepsOptions options_;
  State state_ = State::skipping;
  Launches launches_;
  std::optional<profiling::Folder> folder_;
  std::optional<Profiler> profiler_;
  std::optional<Profile> made_;   // until times without it are known, too
  std::optional<Window> window_;  // that is timed or recorded now
  std::int64_t begun_ = 0, last_ = 0;
  int warm_launches_ = 0, warm_epochs_ = 0;  // since the training or the recording began
  std::vector<double> parts_;                // seconds of a step
};

}  // namespace

CallbackRef profile_steps(ProfileStepsOptions options) {
  return std::make_shared<ProfileSteps>(std::move(options));
}

}  // namespace systole::training
