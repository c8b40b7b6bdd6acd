#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/log.h"

namespace systole {

// What is logged at level warn while `body` runs.
inline std::vector<std::string> warnings_of(const std::function<void()>& body) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::warn);
  body();
  set_log_sink({});
  return lines;
}

}  // namespace systole
