#pragma once

// Text from outside the program, of variables and replies.

#include <cctype>
#include <string>
#include <string_view>

namespace systole::tpu {

inline std::string trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

// For a message: short, and without what a terminal would obey.
inline std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  std::string out(text.substr(0, kMost));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '.';
  return text.size() > kMost ? out + "…" : out;
}

}  // namespace systole::tpu
