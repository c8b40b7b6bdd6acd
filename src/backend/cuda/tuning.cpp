#include "backend/cuda/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "backend/cuda/cupti.h"
#include "backend/cuda/schedule.h"

namespace systole::cuda {

namespace {

constexpr const char* kBackend = "cuda";
constexpr double kHopeless = 4;      // times the best
constexpr double kOverhead = 20e-6;  // seconds that a single run may take without telling much

class TimedEvent {
 public:
  TimedEvent() { check(driver().cuEventCreate(&event_, 0), "cuEventCreate"); }
  ~TimedEvent() { driver().cuEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record(Stream stream) { check(driver().cuEventRecord(event_, stream), "cuEventRecord"); }
  Event get() const { return event_; }

 private:
  Event event_ = nullptr;
};

// Runs of one choice captured as a graph: short kernels are measured without the host's part in them.
class Repeated {
 public:
  // `stream` is nobody else's: what others put on one that captures fails, or is captured.
  Repeated(const Trial& trial, int choice, int runs, Stream stream) {
    const Driver& cu = driver();
    check(cu.cuStreamBeginCapture(stream, kCaptureThreadLocal), "cuStreamBeginCapture");
    try {
      for (int i = 0; i < runs; ++i) trial(choice, stream);
    } catch (...) {
      Graph ended = nullptr;
      if (cu.cuStreamEndCapture(stream, &ended) == kSuccess && ended != nullptr) cu.cuGraphDestroy(ended);
      throw;
    }
    Graph graph = nullptr;
    check(cu.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    const Status status = cu.cuGraphInstantiate(&launched_, graph, 0);
    cu.cuGraphDestroy(graph);
    check(status, "cuGraphInstantiate");
  }
  ~Repeated() { driver().cuGraphExecDestroy(launched_); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  void launch(Stream stream) const { check(driver().cuGraphLaunch(launched_, stream), "cuGraphLaunch"); }

 private:
  GraphExec launched_ = nullptr;
};

class Watch {
 public:
  Watch(const Device& device, Stream stream, Trial trial)
      : stream_(stream), lanes_(device, false), trial_(std::move(trial)) {}

  double measure(int choice, double best) {
    trial_(choice, stream_);  // loads what it needs
    const double once = seconds([&] { trial_(choice, stream_); });
    if (once > kHopeless * best + kOverhead) return once;
    constexpr double kLength = 1e-3;
    constexpr int kMostRuns = 20;
    const int runs = std::clamp(static_cast<int>(kLength / std::max(once, 1e-6)), 1, kMostRuns);
    const Repeated repeated(trial_, choice, runs, lanes_.stream(0));
    repeated.launch(stream_);
    std::array<double, 3> times{};
    for (double& time : times) time = seconds([&] { repeated.launch(stream_); }) / runs;
    std::sort(times.begin(), times.end());
    return times[1];
  }

 private:
  template <class Work>
  double seconds(const Work& work) {
    begin_.record(stream_);
    work();
    end_.record(stream_);
    check(driver().cuEventSynchronize(end_.get()), "cuEventSynchronize");
    float milliseconds = 0;
    check(driver().cuEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cuEventElapsedTime");
    return milliseconds / 1e3;
  }

  const Stream stream_;
  Lanes lanes_;
  const Trial trial_;
  TimedEvent begin_, end_;
};

std::string device_text(const Device& device) {
  int version = 0;
  check(driver().cuDriverGetVersion(&version), "cuDriverGetVersion");
  return fmt::format("{} {} driver {}", device.name(), device.architecture(), version);
}

}  // namespace

Answer tuned(const std::string& device, const Question& question, const Measure& measure) {
  return tuning::tuned({kBackend, device}, question, measure);
}

Answer best_of(const Device& device, const Question& question,
               const std::function<Trial(Stream stream)>& prepare) {
  device.activate();
  const cupti::Step named("timing " + question.name, {});
  std::optional<BorrowedStream> stream;
  std::optional<Watch> watch;
  return tuned(device_text(device), question, [&](int choice, double best) {
    if (!watch) {
      stream.emplace(device);
      watch.emplace(device, stream->get(), prepare(stream->get()));
    }
    return watch->measure(choice, best);
  });
}

std::optional<Answer> known_answer(const Device& device, const Question& question) {
  return tuning::known_answer({kBackend, device_text(device)}, question);
}

Scratch::Scratch(const Device& device, Stream stream, std::span<const std::int64_t> bytes,
                 unsigned char fill) {
  for (const std::int64_t size : bytes) {
    memory_.push_back(std::make_unique<Memory>(device, size, Type{DType::u8, {size}}, stream));
    addresses_.push_back(memory_.back()->address());
    if (size > 0)
      check(driver().cuMemsetD8Async(addresses_.back(), fill, static_cast<std::size_t>(size), stream),
            "cuMemsetD8Async");
  }
}

double copy_seconds(const Device& device, std::int64_t bytes) {
  static constexpr std::int64_t kCopied = std::int64_t{64} << 20;
  const Question question{.name = "copying 64 MiB", .choice = "way", .count = 1, .wants_time = true};
  const Answer answer = best_of(device, question, [&](Stream stream) {
    const std::array<std::int64_t, 2> sizes{kCopied, kCopied};
    auto scratch = std::make_shared<const Scratch>(device, stream, sizes);
    return [scratch](int, Stream on) {
      check(driver().cuMemcpyDtoDAsync(scratch->addresses()[0], scratch->addresses()[1],
                                       static_cast<std::size_t>(kCopied), on),
            "cuMemcpyDtoDAsync");
    };
  });
  constexpr double kUsual = 1e12;  // bytes a second, where nothing is measured
  const double rate = answer.seconds > 0 ? 2 * static_cast<double>(kCopied) / answer.seconds : kUsual;
  return static_cast<double>(bytes) / rate;
}

}  // namespace systole::cuda
