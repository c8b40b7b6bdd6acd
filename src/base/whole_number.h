#pragma once

// Numbers in the text of files and settings, where anything may stand.

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace systole {

// The number when the text is one that 64 bits hold, and nothing else.
inline std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace systole
