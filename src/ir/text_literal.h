#pragma once

// Numbers as text, both ways and without loss: shortest decimals that read back to the same bits.

#include <string>
#include <string_view>

#include "systole/base/literal.h"

namespace systole::ir {

std::string escaped(std::string_view text);      // quotes, backslashes and control characters
std::string quoted_text(std::string_view text);  // with escapes
std::string number_text(double value);           // never looks like an integer
bool parse_number(std::string_view text, double& value);
bool parse_number(std::string_view text, std::int64_t& value);

// Writes element `index` of `into` from the text of a number; false when it is malformed or out of range.
bool parse_element(std::string_view text, DType dtype, std::byte* element);

inline constexpr std::int64_t kMaxSplatBytes = 64 << 20;

}  // namespace systole::ir
