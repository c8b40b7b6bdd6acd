#include "base/log.h"

#include <cstdio>
#include <mutex>
#include <optional>
#include <string>

#include "base/env.h"
#include "systole/base/error.h"

namespace systole {

namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn"};

struct LogState {
  std::mutex mutex;
  LogSink sink;
  LogLevel sink_level = LogLevel::debug;
};

LogState& state() {
  static LogState log_state;
  return log_state;
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

}  // namespace

void set_log_sink(LogSink sink, LogLevel least) {
  std::lock_guard lock(state().mutex);
  state().sink = std::move(sink);
  state().sink_level = least;
}

bool log_enabled(LogLevel level) {
  {
    std::lock_guard lock(state().mutex);
    if (state().sink) return level >= state().sink_level;
  }
  const std::optional<LogLevel> least = stderr_level();
  return least && level >= *least;
}

void log(LogLevel level, std::string_view message) {
  if (!log_enabled(level)) return;
  std::lock_guard lock(state().mutex);
  if (state().sink) {
    state().sink(level, message);
    return;
  }
  const std::string line =
      "systole " + std::string(kLevelNames[static_cast<int>(level)]) + ": " + std::string(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace systole
