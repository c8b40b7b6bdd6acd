#pragma once

// What the C++ of pages is compiled against, beside the library.

#include <string>

namespace systole::docs {

// The code of the block of a page that begins in a line.
struct Registration {
  Registration(const char* page, int line, void (*run)());
};

void (*code_of(const std::string& page, int line))();  // null when there is none

void holds(bool is_true, const char* expression);

}  // namespace systole::docs
