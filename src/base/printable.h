#pragma once

// Text that came from a file, for a terminal: names could hold escape sequences that move the cursor, change
// the title or hide what follows, and marks of writing direction that show a text in another order than it
// has.

#include <string>
#include <string_view>

namespace systole {

enum class Lines { keep, escape };

// `text` with control characters (ESC among them, and those of C1), marks of direction, line and paragraph
// separators and bytes that are no UTF-8 written as \x1b or \u202e. Newlines and tabs stay when `lines` says
// so.
std::string printable(std::string_view text, Lines lines = Lines::escape);

}  // namespace systole
