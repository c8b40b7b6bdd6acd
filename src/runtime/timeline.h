#pragma once

// The library's side of the Timeline: spans with a category and details. A caller on the way of every run
// asks is_on() first, which is one relaxed load when nothing is recorded.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/nvtx.h"
#include "systole/runtime/timeline.h"

namespace systole::timeline {

enum class State : int { unknown, off, on };  // unknown: SYSTOLE_TRACE was not looked at
extern std::atomic<State> state;
bool start_as_asked();  // looks at SYSTOLE_TRACE; whether there is a timeline now

inline bool is_on() {
  const State now = state.load(std::memory_order_relaxed);
  if (now == State::off) [[likely]]
    return false;
  return now == State::on || start_as_asked();
}

std::int64_t now();  // nanoseconds of a clock that does not jump

// JSON text of an object, for the details of spans: {"items":3,"kind":"map"}; without texts that are empty.
using Detail = std::pair<std::string_view, std::variant<std::int64_t, std::string_view>>;
std::string details(std::initializer_list<Detail> pairs);

// Records a span of this thread; `details` is the JSON text of an object, or empty.
void record(std::string_view category, std::string_view name, std::int64_t begin, std::int64_t end,
            std::string_view details = {});

// The same on a row that is no thread of this process, "cuda:0 stream 7" for instance.
void record_on(std::string_view row, std::string_view category, std::string_view name, std::int64_t begin,
               std::int64_t end, std::string_view details = {});

// A copy by a device, under the names that CUPTI's records get too.
inline constexpr std::string_view kToDevice = "copy to the device", kToHost = "copy to the host",
                                  kOnDevice = "copy on the device";
void record_copy(std::string_view what, std::string_view device, std::int64_t bytes,
                 std::int64_t begin) noexcept;  // until now

// How much there is of something from now on, the bytes in use on a device for instance.
void level(std::string_view name, std::int64_t value);

// Bytes in use on a device, "cuda:0 memory", as a level: after every change, and when a recording begins.
class Usage {
 public:
  // `told` is what the device itself says, 0 when it does not; it throws nothing.
  explicit Usage(std::string name, std::function<std::int64_t()> told = {});
  ~Usage();
  Usage(const Usage&) = delete;
  Usage& operator=(const Usage&) = delete;
  void add(std::int64_t bytes) noexcept {  // below zero: given back
    const std::int64_t all = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (is_on()) show(all);
  }
  void show() const noexcept { show(bytes_.load(std::memory_order_relaxed)); }
  std::int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  void show(std::int64_t bytes) const noexcept;
  const std::string name_;
  const std::function<std::int64_t()> told_;
  std::atomic<std::int64_t> bytes_{0};
};

// `give` is called whenever a timeline is about to end, to record what it has held back.
void before_stop(void (*give)());
// `wait` is called when what is collected is about to end or to begin anew, and returns when devices have
// done their work.
void wait_by(void (*wait)());

// What was recorded, kept in memory, beside a file or without one. Texts stand once and have numbers.
struct Collected {
  struct Event {
    std::uint32_t row, category, name, details;  // of texts
    std::int64_t begin, end;                     // nanoseconds of now()
  };
  struct Level {
    std::uint32_t name;
    std::int64_t at, value;
  };
  std::vector<std::string> texts;
  std::vector<Event> events;
  std::vector<Level> levels;
  std::int64_t lost = 0;                                              // events and levels that found no room
  std::int64_t lost_from = std::numeric_limits<std::int64_t>::max();  // the earliest end of those
  std::int64_t begin = 0, end = 0;
};
// Throws kInvalidArgument while it is done already.
void start_collecting(std::int64_t most_events);
void restart_collecting();  // without what there is so far
// Throws kInvalidArgument where nothing is: a child of fork() has not what its parent records.
Collected stop_collecting();

// The events as a file of Perfetto's: the first `most` of them, and of levels, which it says.
void write_trace(const Collected& collected, const std::string& path, std::size_t most);

// Records the time from here to the end of the block, which is a range for NVIDIA's tools too. The texts must
// live as long.
class Span {
 public:
  Span(std::string_view category, std::string_view name, std::string_view details = {})
      : category_(category), name_(name), details_(details), range_(name), begin_(is_on() ? now() : -1) {}
  ~Span() {
    if (begin_ >= 0) record(category_, name_, begin_, now(), details_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  const std::string_view category_, name_, details_;
  const nvtx::Range range_;
  const std::int64_t begin_;
};

// Records the time from here to the end of the block as a copy. The texts must live as long.
class Copy {
 public:
  Copy(std::string_view what, std::string_view device, std::size_t bytes)
      : what_(what),
        device_(device),
        bytes_(static_cast<std::int64_t>(bytes)),
        begin_(bytes > 0 && is_on() ? now() : -1) {}
  ~Copy() {
    if (begin_ >= 0) record_copy(what_, device_, bytes_, begin_);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

 private:
  const std::string_view what_, device_;
  const std::int64_t bytes_, begin_;
};

}  // namespace systole::timeline
