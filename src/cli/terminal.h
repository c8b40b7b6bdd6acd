#pragma once

// Text for people: output, width and colour of the terminal.

#include <string>
#include <string_view>
#include <vector>

namespace systole::cli {

// To stdout. What could drive a terminal is written as \x1b: names in files are not ours. Colours of
// coloured() are the exception.
void put(std::string_view text);
// What another program may read, such as a graph: as it is, unless stdout is a terminal.
void put_data(std::string_view text);
void flush_output();  // throws kIo when stdout did not take everything, but for a closed pipe
// Of a file, or of stdin when it is "-"; kParse, with how to convert it, where it is not UTF-8.
std::string read_text(const std::string& file);

int terminal_width();  // COLUMNS, or that of the terminal, or 100 without one

enum class Colour { red, yellow, green, bold };
// `text` in colour when stdout is a terminal and NO_COLOR is not set.
std::string coloured(Colour colour, std::string_view text);

// `text` cut at blanks into lines of at most `width` columns; a longer word stands alone.
std::vector<std::string> wrapped(std::string_view text, int width);

// Columns on the screen: code points, which is right for all text this command prints.
int columns(std::string_view text);
std::string padded(std::string_view text, int width);

std::string size_text(double bytes);  // "1.5 GiB"

}  // namespace systole::cli
