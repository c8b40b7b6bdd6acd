#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "profile/plain.h"
#include "profile/summary.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"
#include "systole/profile.h"
#include "systole/runtime.h"
#include "systole/tensor.h"
#include "systole/tensor/kernels.h"

namespace systole {

namespace {

// The clock is the program's only when its devices have done their work.
void wait_for_devices() {
  const DeviceName here = current_device();
  try {
    synchronize(here);
  } catch (const Error& error) {  // a device that cannot be waited for has done its work when a run returns
    if (error.kind() != ErrorKind::kUnsupported) throw;
  }
}

}  // namespace

namespace profiling {

void measure_roofs(Profile& profile) {
  constexpr double kMuch = 0.01;  // of the time; for less, seconds of measuring tell too little
  std::vector<std::string> devices;
  for (const Profile::Device& each : profile.devices)
    if (each.device == profile.device || each.seconds >= kMuch * profile.seconds)
      devices.push_back(each.device);
  for (const std::string& device : devices) try {
      const bool f64 = std::any_of(profile.rows.begin(), profile.rows.end(), [&](const Profile::Row& row) {
        return row.device == device && row.dtype == DType::f64 && row.flops > 0;
      });
      place_under(Roof::measure(device, f64), profile);
    } catch (const Error& error) {  // a device without room for it; what was recorded counts
      log(LogLevel::warn, fmt::format("profiler: the roof of {} is not known: {}", device, error.what()));
    }
}

}  // namespace profiling

struct Profiler::Impl {
  ProfileOptions options;
  std::vector<std::int64_t> steps;  // when each was done
  bool is_recording = false;
};

Profiler::Profiler(ProfileOptions options) : impl_(std::make_unique<Impl>()) {
  if (options.most_events < 1)
    throw Error(ErrorKind::kInvalidArgument, "Profiler: most_events", "no room for any", "1 or more",
                std::to_string(options.most_events));
  impl_->options = std::move(options);
  wait_for_devices();
  timeline::start_collecting(impl_->options.most_events);
  impl_->is_recording = true;
}

Profiler::~Profiler() {
  if (impl_ && impl_->is_recording) try {
      timeline::stop_collecting();
    } catch (...) {  // without memory: what was recorded is not wanted any more
    }
}

Profiler::Profiler(Profiler&&) noexcept = default;

Profiler& Profiler::operator=(Profiler&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

void Profiler::step() {
  if (impl_ && impl_->is_recording) impl_->steps.push_back(timeline::now());
}

void Profiler::restart() {
  if (!impl_ || !impl_->is_recording) return;
  wait_for_devices();
  impl_->steps.clear();
  timeline::restart_collecting();
}

Profile Profiler::stop() {
  if (!impl_ || !impl_->is_recording)
    throw Error(ErrorKind::kInvalidArgument, "Profiler::stop", "nothing is recorded",
                "one stop() for each Profiler");
  wait_for_devices();
  timeline::Collected collected = timeline::stop_collecting();  // waits for CUPTI's records
  impl_->is_recording = false;
  Profile made = profiling::summary(std::move(collected), impl_->steps);
  made.title = impl_->options.title;
  profiling::place_under({}, made);
  if (impl_->options.roof) profiling::measure_roofs(made);
  return made;
}

Profile profile(const std::function<void()>& f, const ProfileRunOptions& options) {
  if (options.steps < 1 || options.warm_up < 0)
    throw Error(ErrorKind::kInvalidArgument, "profile", "the number of steps", "steps from 1, warm_up from 0",
                std::to_string(options.steps < 1 ? options.steps : options.warm_up));
  const auto run = [&](std::int64_t times) {
    for (std::int64_t i = 0; i < times; ++i) f();
  };
  run(options.warm_up);
  ProfileOptions recording = options.profile;
  recording.roof = false;  // of the one that counts
  const auto record = [&] {
    Profiler profiler(recording);
    run(options.warm_up);  // made ready for the recording anew
    profiler.restart();
    for (std::int64_t i = 0; i < options.steps; ++i) {
      f();
      profiler.step();
    }
    return profiler.stop();
  };
  // By the devices that it ran on, which need not be the current one.
  const auto plain = [&](const Profile& recorded) {
    run(options.warm_up);
    profiling::wait_for_devices(recorded);
    const auto begin = std::chrono::steady_clock::now();
    run(options.steps);
    profiling::wait_for_devices(recorded);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Profile made = profiling::compared(options.steps, record, plain);
  if (options.profile.roof) profiling::measure_roofs(made);
  return made;
}

}  // namespace systole
