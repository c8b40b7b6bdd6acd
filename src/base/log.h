#pragma once

// A warning is what a user should read: something of theirs does not work or works otherwise than they asked,
// and they can do something about it. What the library repairs or replaces by itself is info.

#include <string_view>

#include "systole/base/log.h"

namespace systole {

bool log_enabled(LogLevel level);  // lets a caller skip making the message
void log(LogLevel level, std::string_view message);

}  // namespace systole
