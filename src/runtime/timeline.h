#pragma once

// The library's side of the Timeline: spans with a category and details. A caller on the way of every run
// asks is_on() first, which is one relaxed load when nothing is recorded.

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

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

// JSON text of an object, for the details of spans: {"items":3,"kind":"map"}.
using Detail = std::pair<std::string_view, std::variant<std::int64_t, std::string_view>>;
std::string details(std::initializer_list<Detail> pairs);

// Records a span of this thread; `details` is the JSON text of an object, or empty.
void record(std::string_view category, std::string_view name, std::int64_t begin, std::int64_t end,
            std::string_view details = {});

// The same on a row that is no thread of this process, "cuda:0 stream 7" for instance.
void record_on(std::string_view row, std::string_view category, std::string_view name, std::int64_t begin,
               std::int64_t end, std::string_view details = {});

// `give` is called whenever a timeline is about to end, to record what it has held back.
void before_stop(void (*give)());

// Records the time from here to the end of the block. The texts must live as long.
class Span {
 public:
  Span(std::string_view category, std::string_view name, std::string_view details = {})
      : category_(category), name_(name), details_(details), begin_(is_on() ? now() : -1) {}
  ~Span() {
    if (begin_ >= 0) record(category_, name_, begin_, now(), details_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  const std::string_view category_, name_, details_;
  const std::int64_t begin_;
};

}  // namespace systole::timeline
