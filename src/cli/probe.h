#pragma once

// Questions to the machine that may go wrong in bad ways: a vendor library can crash or hang while it is
// loaded, so it is tried in a child process.

#include <string>

namespace systole::cli {

struct Probe {
  bool ok = false;
  std::string detail;  // why not, in the system's words
};

// Loads a library and looks for a symbol in it (empty: none); a crash or more than `seconds` is a failure
// too.
Probe probe_library(const std::string& library, const std::string& symbol, int seconds = 20);

}  // namespace systole::cli
