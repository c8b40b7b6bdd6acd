#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace systole {

namespace {

// The character that `text` begins with and its bytes; 0 bytes when they are no UTF-8: cut off, longer than
// needed, half of a surrogate pair, or beyond the last character.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
};
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[bytes] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

bool is_hidden(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) ||  // control characters
         code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) ||  // direction
         code == 0x2028 || code == 0x2029;      // separators of lines and paragraphs
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_of(text);
    const std::size_t bytes = next.bytes == 0 ? 1 : next.bytes;
    const bool stays = lines == Lines::keep && (next.code == '\n' || next.code == '\t');
    if (next.bytes == 0 || (next.bytes == 1 && is_hidden(next.code) && !stays))
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (next.bytes > 1 && is_hidden(next.code))
      fmt::format_to(std::back_inserter(shown), "\\u{:04x}", next.code);
    else
      shown += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace systole
