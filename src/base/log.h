#pragma once

// What the library tells while it works: which device "auto" chose, why a backend was passed over, what was
// compiled. Nothing is written unless SYSTOLE_LOG=debug|info|warn asks for lines on stderr or a program sets
// a sink.

#include <functional>
#include <string_view>

namespace systole {

enum class LogLevel { debug, info, warn };

using LogSink = std::function<void(LogLevel, std::string_view message)>;

// Lines of `least` and above go to `sink`; an empty sink puts SYSTOLE_LOG in charge again. Threads call the
// sink at the same time, without a lock of this library, and one may still be in the old sink when this
// returns.
void set_log_sink(LogSink sink, LogLevel least = LogLevel::debug);

bool log_enabled(LogLevel level);  // lets a caller skip making the message
void log(LogLevel level, std::string_view message);

}  // namespace systole
