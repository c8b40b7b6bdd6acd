#include "base/env.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include "systole/base/error.h"

namespace systole::env {

std::optional<std::string> text(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

bool flag(const char* name, bool unset) {
  std::string value = text(name).value_or(unset ? "1" : "0");
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* yes : {"1", "true", "on", "yes"})
    if (value == yes) return true;
  for (const char* no : {"0", "false", "off", "no"})
    if (value == no) return false;
  throw Error(ErrorKind::kInvalidArgument, name, "not a switch", "1 or 0", value);
}

std::optional<std::uint64_t> whole_number(const char* name) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = value->data() + value->size();
  const auto [stop, code] = std::from_chars(value->data(), end, number);
  if (code != std::errc() || stop != end)
    throw Error(ErrorKind::kInvalidArgument, name, "not a number", "a whole number", *value);
  return number;
}

}  // namespace systole::env
