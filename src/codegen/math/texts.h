#pragma once

// The source texts, by subject. A text is a row of functions: comment lines, then a definition whose first
// line begins with S_FN and whose last line ends with the brace that closes it in column 1 (or on the same
// line).

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace systole::codegen::math {

std::string algebraic_text();
std::string exponential_text();
std::string logarithm_text();
std::string trigonometric_text();
std::string double_text();
std::string integer_text();
std::string convert_text();
std::string random_text();

// `text` with every placeholder replaced by its value.
using Placeholders = std::initializer_list<std::pair<std::string_view, std::string_view>>;
std::string filled(std::string_view text, Placeholders values);

}  // namespace systole::codegen::math
