#include "base/log.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/env.h"
#include "base/lasting.h"
#include "systole/base/error.h"

namespace systole {

namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn"};

struct Target {
  std::shared_ptr<const LogSink> sink;  // null: stderr, as SYSTOLE_LOG asks
  LogLevel least = LogLevel::debug;
};

struct LogState {
  std::mutex mutex;
  Target target;
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

// The level SYSTOLE_LOG asks for; nothing when it is unset.
std::optional<LogLevel> stderr_level() {
  static const std::optional<LogLevel> level = []() -> std::optional<LogLevel> {
    const std::optional<std::string> wanted = env::text("SYSTOLE_LOG");
    if (!wanted) return std::nullopt;
    for (int i = 0; i < 3; ++i)
      if (*wanted == kLevelNames[i]) return static_cast<LogLevel>(i);
    throw Error(ErrorKind::kInvalidArgument, "SYSTOLE_LOG", "unknown level", "debug, info or warn", *wanted);
  }();
  return level;
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
  const std::string line =
      "systole " + std::string(kLevelNames[static_cast<int>(level)]) + ": " + std::string(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace systole
