#include "base/log.h"

#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/env.h"
#include "base/lasting.h"
#include "base/printable.h"

namespace systole {

namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn"};
constexpr std::string_view kPrefixes[] = {"debug", "info", "warning"};
constexpr std::size_t kRemembered = 1000;  // texts of warnings: a process may run for months

struct Target {
  std::shared_ptr<const LogSink> sink;  // null: stderr, as SYSTOLE_LOG asks
  LogLevel least = LogLevel::debug;
};

struct LogState {
  std::mutex mutex;
  Target target;
  std::set<std::string, std::less<>> shown;  // the warnings that stderr has
};

LogState& state() {
  static LogState& log_state = lasting<LogState>();
  return log_state;
}

// A copy, so that no lock is held while a sink runs: it may log or set another sink itself.
Target target() {
  std::lock_guard lock(state().mutex);
  return state().target;
}

// For one line, so that those of several threads do not mix.
void write_to_stderr(LogLevel level, std::string_view message) {
  std::string line = "systole: ";
  line += kPrefixes[static_cast<int>(level)];
  line += ": " + printable(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// The level SYSTOLE_LOG asks for; nothing when it is off. A wrong value is reported and not thrown: whoever
// logs may be in a destructor.
std::optional<LogLevel> stderr_level() {
  static const std::optional<LogLevel> level = []() -> std::optional<LogLevel> {
    const std::string wanted = env::text("SYSTOLE_LOG").value_or("warn");
    if (wanted == "off") return std::nullopt;
    for (int i = 0; i < 3; ++i)
      if (wanted == kLevelNames[i]) return static_cast<LogLevel>(i);
    write_to_stderr(LogLevel::warn,
                    "SYSTOLE_LOG: expected debug, info, warn or off, got '" + wanted + "'; warn is used");
    return LogLevel::warn;
  }();
  return level;
}

bool is_new(std::string_view warning) {
  std::lock_guard lock(state().mutex);
  if (state().shown.size() == kRemembered) state().shown.clear();
  return state().shown.emplace(warning).second;
}

bool enabled(const Target& to, LogLevel level) {
  if (to.sink) return level >= to.least;
  const std::optional<LogLevel> least = stderr_level();
  return least && level >= *least;
}

}  // namespace

void set_log_sink(LogSink sink, LogLevel least) {
  Target next{sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr, least};
  std::lock_guard lock(state().mutex);
  std::swap(state().target, next);  // the old sink goes after the lock
}

bool log_enabled(LogLevel level) { return enabled(target(), level); }

void log(LogLevel level, std::string_view message) {
  const Target to = target();
  if (!enabled(to, level)) return;
  if (to.sink) return (*to.sink)(level, message);
  if (level != LogLevel::warn || is_new(message)) write_to_stderr(level, message);
}

}  // namespace systole
