#pragma once

// GPT-2's pattern, by which text is cut into words before their bytes are joined to pieces:
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// A word takes the space before it along; of more spaces the last goes to the word. Bytes that are no UTF-8
// count as signs, one by one.

#include <cstddef>
#include <string_view>

namespace systole::io {

// How many bytes the first word of a text that is not empty has.
std::size_t first_word(std::string_view text);

}  // namespace systole::io
