#include "io/words.h"

#include <array>

#include "io/unicode.h"

namespace systole::io {

namespace {

struct Character {
  CharacterClass kind;
  std::size_t bytes;
};

constexpr std::array<CharacterClass, 128> kAscii = [] {
  std::array<CharacterClass, 128> table{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= '\t' && c <= '\r');
    table[static_cast<std::size_t>(c)] = letter                 ? CharacterClass::letter
                                         : c >= '0' && c <= '9' ? CharacterClass::number
                                         : space                ? CharacterClass::space
                                                                : CharacterClass::other;
  }
  return table;
}();

Character character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {kAscii[lead], 1};
  const std::size_t bytes = lead >= 0xF0 && lead < 0xF5   ? 4
                            : lead >= 0xE0 && lead < 0xF0 ? 3
                            : lead >= 0xC2 && lead < 0xE0 ? 2
                                                          : 0;
  constexpr Character kBroken{CharacterClass::other, 1};
  if (bytes == 0 || text.size() < bytes) return kBroken;
  char32_t c = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return kBroken;
    c = c << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < kLeast[bytes] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return kBroken;
  return {class_of(c), bytes};
}

// The bytes of all characters of this kind from `at` on.
std::size_t run(std::string_view text, std::size_t at, CharacterClass kind) {
  std::size_t end = at;
  while (end < text.size()) {
    const Character next = character(text.substr(end));
    if (next.kind != kind) break;
    end += next.bytes;
  }
  return end - at;
}

}  // namespace

std::size_t first_word(std::string_view text) {
  if (text[0] == '\'')
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (text.starts_with(ending)) return ending.size();
  const Character first = character(text);
  if (first.kind != CharacterClass::space) return run(text, 0, first.kind);
  if (text[0] == ' ' && text.size() > 1) {
    const CharacterClass next = character(text.substr(1)).kind;
    if (next != CharacterClass::space) return 1 + run(text, 1, next);
  }
  // Spaces: all at the end of the text, else all but the last one, unless there is only that.
  std::size_t end = 0, last = 0;
  while (end < text.size()) {
    const Character next = character(text.substr(end));
    if (next.kind != CharacterClass::space) break;
    last = end;
    end += next.bytes;
  }
  return end == text.size() || last == 0 ? end : last;
}

}  // namespace systole::io
