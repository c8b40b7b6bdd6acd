#include "backend/cuda/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "backend/cuda/cupti.h"
#include "base/env.h"
#include "base/log.h"
#include "runtime/disk_cache.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

constexpr double kClearlyBetter = 0.98;  // of the first's time: noise changes nothing
constexpr double kHopeless = 4;          // times the best
constexpr double kPatience = 50;         // runs of the best that may be spent on top of the limit
constexpr double kOverhead = 20e-6;      // seconds that a single run may take without telling much

// The answers of this process. Measuring one thing at a time keeps the others' work out of the numbers.
struct Known {
  std::mutex mutex;
  std::map<std::string, Answer> answers;
  std::mutex measuring;
};
Known& known() {
  static Known* const all = new Known;  // never destroyed: threads may still compile
  return *all;
}

std::string full_text(const std::string& device, const Question& question) {
  return fmt::format("{}\n{}\n{}\n{}", device, question.name, question.details, question.count);
}

runtime::CacheKey cache_key(const std::string& text) {
  runtime::CacheKey key("cuda-tuning");
  key.add("1").add(text);  // the first is this format's version
  return key;
}

// "3 0.000214 0.000239"
std::string written(const Answer& answer) {
  return fmt::format("{} {} {}", answer.choice, answer.seconds, answer.first_seconds);
}
std::optional<Answer> read(const std::string& text, int count) {
  Answer answer;
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&](auto& value) {
    while (at < end && *at == ' ') ++at;
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc();
  };
  const bool complete = number(answer.choice) && number(answer.seconds) && number(answer.first_seconds);
  if (!complete || at != end || answer.choice < 0 || answer.choice >= count) return std::nullopt;
  return answer;
}

std::optional<Answer> remembered(const std::string& text, const Question& question) {
  {
    const std::lock_guard lock(known().mutex);
    if (const auto found = known().answers.find(text); found != known().answers.end()) return found->second;
  }
  const std::optional<runtime::DiskCache> cache = runtime::disk_cache();
  if (!cache) return std::nullopt;
  const std::optional<std::string> stored = cache->find(cache_key(text));
  if (!stored) return std::nullopt;
  const std::optional<Answer> answer = read(*stored, question.count);
  if (!answer) {
    cache->remove(cache_key(text));
    return std::nullopt;
  }
  const std::lock_guard lock(known().mutex);
  known().answers.try_emplace(text, *answer);
  return answer;
}

void remember(const std::string& text, const Answer& answer) {
  {
    const std::lock_guard lock(known().mutex);
    known().answers.try_emplace(text, answer);
  }
  if (const std::optional<runtime::DiskCache> cache = runtime::disk_cache())
    cache->store(cache_key(text), written(answer));
}

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
  Watch(Stream stream, Trial trial) : stream_(stream), trial_(std::move(trial)) {}

  double measure(int choice, double best) {
    trial_(choice, stream_);  // loads what it needs
    const double once = seconds([&] { trial_(choice, stream_); });
    if (once > kHopeless * best + kOverhead) return once;
    constexpr double kLength = 1e-3;
    constexpr int kMostRuns = 20;
    const int runs = std::clamp(static_cast<int>(kLength / std::max(once, 1e-6)), 1, kMostRuns);
    const Repeated repeated(trial_, choice, runs, stream_);
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
  const int least = question.wants_time ? 1 : 2;
  if (question.count < least || !question.is_measured || !env::flag("SYSTOLE_TUNE", true)) return {};
  const std::string text = full_text(device, question);
  if (const std::optional<Answer> answer = remembered(text, question)) return *answer;
  const std::lock_guard lock(known().measuring);
  if (const std::optional<Answer> answer = remembered(text, question)) return *answer;  // meanwhile
  const auto begin = std::chrono::steady_clock::now();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> times;
  double best = kNever;
  for (int choice = 0; choice < question.count; ++choice) {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (choice > 0 && spent.count() > question.most_seconds + kPatience * best) break;
    double time = kNever;
    try {
      time = measure(choice, best);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kContextLost) throw;
      log(LogLevel::info,
          fmt::format("cuda: {}: {} {} fails: {}", question.name, question.choice, choice, error.what()));
      if (error.kind() == ErrorKind::kOutOfMemory) return {};
    }
    times.push_back(time);
    best = std::min(best, time);
  }
  if (best == kNever) return {};
  Answer answer;
  answer.choice = static_cast<int>(std::min_element(times.begin(), times.end()) - times.begin());
  if (times[0] * kClearlyBetter <= best) answer.choice = 0;
  answer.seconds = times[static_cast<std::size_t>(answer.choice)];
  answer.first_seconds = std::isinf(times[0]) ? 0 : times[0];
  log(LogLevel::info,
      fmt::format("cuda: {}: {} {} of {}, {:.4g} ms, first {:.4g} ms", question.name, question.choice,
                  answer.choice, question.count, 1e3 * answer.seconds, 1e3 * answer.first_seconds));
  remember(text, answer);
  return answer;
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
      watch.emplace(stream->get(), prepare(stream->get()));
    }
    return watch->measure(choice, best);
  });
}

std::optional<Answer> known_answer(const Device& device, const Question& question) {
  const int least = question.wants_time ? 1 : 2;
  if (question.count < least || !question.is_measured || !env::flag("SYSTOLE_TUNE", true)) return Answer{};
  return remembered(full_text(device_text(device), question), question);
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
