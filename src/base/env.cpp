#include "base/env.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <system_error>
#include <vector>

#include "systole/base/error.h"

namespace systole::env {

namespace {

[[noreturn]] void refuse(const Variable& variable, const std::string& value) {
  throw Error(ErrorKind::kInvalidArgument, variable.name, "the environment variable has a wrong value",
              kind_in_words(variable), fmt::format("'{}'", value));
}

const Variable& find(const char* name, std::optional<Kind> kind = std::nullopt) {
  for (const Variable& variable : variables())
    if (variable.name == std::string_view(name) && (!kind || variable.kind == *kind)) return variable;
  throw Error(ErrorKind::kInternal, name, "the table of environment variables lacks it");
}

// An empty variable counts as unset.
std::optional<std::string> value_of(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || code != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> words_of(const Variable& variable) {
  std::vector<std::string_view> words;
  for (std::string_view rest = variable.words; !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

bool flag_in(const Variable& variable, const std::string& value) {
  const std::string text = lower(value);
  for (const char* yes : {"1", "true", "on", "yes"})
    if (text == yes) return true;
  for (const char* no : {"0", "false", "off", "no"})
    if (text == no) return false;
  refuse(variable, value);
}

std::uint64_t whole_in(const Variable& variable, const std::string& value) {
  const auto number = number_in<std::uint64_t>(value);
  if (!number || *number < variable.least || *number > variable.most) refuse(variable, value);
  return *number;
}

double seconds_in(const Variable& variable, const std::string& value) {
  const auto number = number_in<double>(value);
  if (!number || !(*number > 0) || *number > static_cast<double>(variable.most)) refuse(variable, value);
  return *number;
}

std::uint64_t size_in(const Variable& variable, const std::string& value) {
  const std::size_t unit = std::string_view("KMG").find(value.back());
  const int shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  const auto number =
      number_in<std::uint64_t>(std::string_view(value).substr(0, value.size() - (shift > 0 ? 1 : 0)));
  if (!number || *number > std::numeric_limits<std::uint64_t>::max() >> shift) refuse(variable, value);
  return *number << shift;
}

void check_word(const Variable& variable, const std::string& value) {
  const std::vector<std::string_view> words = words_of(variable);
  if (std::find(words.begin(), words.end(), value) == words.end()) refuse(variable, value);
}

}  // namespace

std::string kind_in_words(const Variable& variable) {
  switch (variable.kind) {
    case Kind::flag: return "1 or 0";
    case Kind::whole: return fmt::format("a whole number from {} to {}", variable.least, variable.most);
    case Kind::seconds: return fmt::format("seconds: a number above 0, at most {}", variable.most);
    case Kind::size: return "bytes, or a number with K, M or G";
    case Kind::word: {
      const std::vector<std::string_view> words = words_of(variable);
      const std::size_t last = words.size() - 1;
      return fmt::format("{} or {}",
                         fmt::join(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(last), ", "),
                         words[last]);
    }
    case Kind::text: break;
  }
  return "text";
}

void check(const Variable& variable) {
  const std::optional<std::string> value = value_of(variable.name);
  if (!value) return;
  switch (variable.kind) {
    case Kind::flag: flag_in(variable, *value); break;
    case Kind::whole: whole_in(variable, *value); break;
    case Kind::seconds: seconds_in(variable, *value); break;
    case Kind::size: size_in(variable, *value); break;
    case Kind::word: check_word(variable, *value); break;
    case Kind::text: break;
  }
}

void check() {
  for (const Variable& variable : variables()) check(variable);
}

std::optional<std::string> text(const char* name) {
  if (std::string_view(name).starts_with("SYSTOLE_")) find(name);
  return value_of(name);
}

bool flag(const char* name, bool unset) {
  const Variable& variable = find(name, Kind::flag);
  const std::optional<std::string> value = value_of(name);
  return value ? flag_in(variable, *value) : unset;
}

std::optional<std::uint64_t> whole_number(const char* name) {
  const Variable& variable = find(name, Kind::whole);
  const std::optional<std::string> value = value_of(name);
  return value ? std::optional(whole_in(variable, *value)) : std::nullopt;
}

std::optional<double> seconds(const char* name) {
  const Variable& variable = find(name, Kind::seconds);
  const std::optional<std::string> value = value_of(name);
  return value ? std::optional(seconds_in(variable, *value)) : std::nullopt;
}

std::optional<std::uint64_t> size(const char* name) {
  const Variable& variable = find(name, Kind::size);
  const std::optional<std::string> value = value_of(name);
  return value ? std::optional(size_in(variable, *value)) : std::nullopt;
}

std::optional<std::string> word(const char* name) {
  const Variable& variable = find(name, Kind::word);
  std::optional<std::string> value = value_of(name);
  if (value) check_word(variable, *value);
  return value;
}

}  // namespace systole::env
