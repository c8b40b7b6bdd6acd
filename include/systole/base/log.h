#pragma once

// What the library reports while it works: warnings, which device "auto" chose, what was compiled.
//
// Without a sink the lines go to standard error: warnings, each text once in a process, and what SYSTOLE_LOG
// asks for: debug, info, warn (the same as when it is unset), or off for nothing.
//
//   systole::set_log_sink([](systole::LogLevel, std::string_view line) { my_log(line); });

#include <functional>
#include <string_view>

#include "systole/base/export.h"

namespace systole {

enum class LogLevel { debug, info, warn };

using LogSink = std::function<void(LogLevel, std::string_view message)>;

// Lines of `least` and above go to `sink` instead, each as often as it comes; an empty sink puts standard
// error and SYSTOLE_LOG in charge again. Threads call the sink at the same time, without a lock of this
// library, and one may still be in the old sink when this returns.
SYSTOLE_API void set_log_sink(LogSink sink, LogLevel least = LogLevel::debug);

}  // namespace systole
