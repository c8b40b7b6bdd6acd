#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

#include "systole/base/error.h"
#include "systole/tensor.h"
#include "systole/tensor/kernels.h"
#include "systole/train/callback.h"

namespace systole::training {

namespace {

// Launch by launch: skipped, timed, made ready for the recording, recorded.
class ProfileSteps final : public Callback {
 public:
  explicit ProfileSteps(ProfileStepsOptions options) : options_(std::move(options)) {
    if (options_.steps < 1 || options_.skip < 0)
      throw Error(ErrorKind::kInvalidArgument, "profile_steps", "the number of steps",
                  "steps from 1, skip from 0",
                  std::to_string(options_.steps < 1 ? options_.steps : options_.skip));
  }
  std::string name() const override { return "profile_steps"; }

  void begin(Run& run) override {
    state_ = State::skipping;
    profiler_.reset();
    first_ = run.step();
  }

  void steps_end(Run& run) override {
    switch (state_) {
      case State::skipping:
        if (run.step() - first_ < options_.skip) return;
        return go_on(State::timed, run);
      case State::timed:
        if (run.step() - first_ < options_.steps) return;
        synchronize(current_device());
        plain_ = since(begin_) / static_cast<double>(run.step() - first_);
        profiler_.emplace(options_.profile);
        launches_ = 0;
        return go_on(State::preparing, run);
      case State::preparing:
        if (++launches_ < kReady) return;
        profiler_->restart();
        return go_on(State::recorded, run);
      case State::recorded:
        if (run.step() - first_ < options_.steps) return;
        return finish(run);
      case State::done: return;
    }
  }

  void end(Run& run) override {
    if (state_ == State::recorded && run.step() > first_) finish(run);
    if (state_ != State::done)
      run.say(fmt::format("profile_steps: the training ended before {} steps were recorded", options_.steps));
    profiler_.reset();
    state_ = State::done;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kReady = 6;  // launches until all are captured anew, for the recording
  enum class State { skipping, timed, preparing, recorded, done };
  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void go_on(State next, Run& run) {
    state_ = next;
    synchronize(current_device());
    first_ = run.step();
    begin_ = Clock::now();
  }

  void finish(Run& run) {
    const std::int64_t steps = run.step() - first_;
    for (std::int64_t i = 0; i < steps; ++i) profiler_->step();
    Profile made = profiler_->stop();
    profiler_.reset();
    state_ = State::done;
    made.plain_seconds = plain_ * static_cast<double>(steps);
    if (!options_.folder.empty()) made.save(options_.folder);
    run.say(made.table(10));
    if (options_.done) options_.done(made);
    if (options_.stop) run.stop("the profile is done");
  }

  const ProfileStepsOptions options_;
  State state_ = State::skipping;
  std::optional<Profiler> profiler_;
  std::int64_t first_ = 0;  // step of the present state
  Clock::time_point begin_;
  double plain_ = 0;  // seconds of a step
  int launches_ = 0;  // of preparing
};

}  // namespace

CallbackRef profile_steps(ProfileStepsOptions options) {
  return std::make_shared<ProfileSteps>(std::move(options));
}

}  // namespace systole::training
