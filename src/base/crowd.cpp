#include "base/crowd.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>

#include "base/lasting.h"

namespace systole::crowd {

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kLook = 10 * kMillisecond, kLongest = 2000 * kMillisecond;
constexpr std::int64_t kFirstHold = 1000 * kMillisecond, kMostHold = 16'000 * kMillisecond;
constexpr double kCrowded = 0.05, kQuiet = 0.01;  // of the time

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Nanoseconds that this thread waited for a processor, ever. Where the kernel does not count them, a guess
// from how often it was sent away: a few milliseconds each time.
std::int64_t waited() {
  if (const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC); file >= 0) {
    char text[128];
    const ssize_t size = ::read(file, text, sizeof text);
    ::close(file);
    if (size > 0)
      if (const auto known = waited_in({text, static_cast<std::size_t>(size)})) return *known;
  }
  rusage usage{};
  if (::getrusage(RUSAGE_THREAD, &usage) != 0) return 0;
  return static_cast<std::int64_t>(usage.ru_nivcsw) * 3 * kMillisecond;
}

struct Looked {
  std::int64_t at = 0, waited = 0;
};

std::atomic<bool> is_crowded{false};

}  // namespace

bool Judge::judge(std::int64_t now, std::int64_t passed, std::int64_t waited) {
  const double part = static_cast<double>(waited) / static_cast<double>(std::max<std::int64_t>(passed, 1));
  if (part > kCrowded) {
    if (!is_crowded_) {
      const bool is_again = hold_ > 0 && now - since_ < hold_;
      hold_ = is_again ? std::min(2 * hold_, kMostHold) : kFirstHold;
    }
    is_crowded_ = true;
    since_ = now;
  } else if (is_crowded_ && part > kQuiet) {
    since_ = now;
  } else if (is_crowded_ && now - since_ >= hold_) {
    is_crowded_ = false;
    since_ = now;
  }
  return is_crowded_;
}

std::optional<std::int64_t> waited_in(std::string_view schedstat) {
  const std::size_t space = schedstat.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::int64_t number = 0;
  const char* const begin = schedstat.data() + space + 1;
  const auto [end, code] = std::from_chars(begin, schedstat.data() + schedstat.size(), number);
  if (code != std::errc() || end == begin) return std::nullopt;
  return number;
}

bool is_here() {
  static thread_local Looked last;
  const bool is_new = last.at == 0;
  const std::int64_t time = now();
  if (!is_new && time - last.at < kLook) return is_crowded.load(std::memory_order_relaxed);
  const Looked before = last;
  last = {time, waited()};
  // What a thread did long ago says nothing.
  if (!is_new && time - before.at < kLongest) {
    static std::mutex mutex;
    static Judge& judge = lasting<Judge>();
    if (const std::unique_lock lock(mutex, std::try_to_lock);
        lock)  // a fork's child may find it locked for ever
      is_crowded.store(judge.judge(time, time - before.at, last.waited - before.waited),
                       std::memory_order_relaxed);
  }
  return is_crowded.load(std::memory_order_relaxed);
}

}  // namespace systole::crowd
