#include "base/env.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "systole/base/error.h"

namespace systole::env {

std::optional<std::string> text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool flag(const char* name) {
  std::string value = text(name).value_or("0");
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* yes : {"1", "true", "on", "yes"})
    if (value == yes) return true;
  for (const char* no : {"0", "false", "off", "no"})
    if (value == no) return false;
  throw Error(ErrorKind::kInvalidArgument, name, "not a switch", "1 or 0", value);
}

}  // namespace systole::env
