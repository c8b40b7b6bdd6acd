#pragma once

// The source texts, by subject. A text is a row of functions: comment lines, then a definition whose first
// line begins with S_FN and whose last line ends with the brace that closes it in column 1 (or on the same
// line).

#include <string>

namespace systole::codegen::math {

std::string algebraic_text();
std::string exponential_text();
std::string logarithm_text();
std::string trigonometric_text();
std::string double_text();
std::string integer_text();
std::string convert_text();

// `text` with every `from` replaced.
std::string replaced(std::string text, std::string_view from, std::string_view to);

}  // namespace systole::codegen::math
