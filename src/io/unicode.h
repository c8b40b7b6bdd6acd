#pragma once

// What a character is, for cutting text into words.

#include <cstdint>

namespace systole::io {

enum class CharacterClass : std::uint8_t { letter, number, space, other };

CharacterClass class_of(char32_t c);

}  // namespace systole::io
