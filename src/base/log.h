#pragma once

// A warning is what a user should read: something of theirs does not work or works otherwise than they asked,
// and they can do something about it. What the library repairs or replaces by itself is info.

#include <string>
#include <string_view>

#include "systole/base/log.h"

namespace systole {

bool log_enabled(LogLevel level);  // lets a caller skip making the message
void log(LogLevel level, std::string_view message);

// A message that may quote a file or a driver, as one line: control characters, which could drive the
// terminal, are written as \x1b.
std::string on_one_line(std::string_view message);

}  // namespace systole
