#pragma once

// Whether a program printed what a page shows. Spaces at the ends of a line do not count, several within it
// are one, and times and speeds ("2.2 s", "28k/s", "0.14 ms", "4 GB/s") are any.

#include <optional>
#include <string>
#include <vector>

namespace systole::docs {

struct Numbers {
  bool are_any = false;
  double within = 0;  // relative, of numbers with a point
};

// Numbers as a mark `numbers vary …` says.
Numbers numbers_that_vary(const std::string& limited);

bool line_agrees(const std::string& shown, const std::string& printed, Numbers numbers = {});
bool lines_agree(const std::vector<std::string>& shown, const std::vector<std::string>& printed,
                 Numbers numbers = {});

std::vector<std::string> lines_of(const std::string& text);

}  // namespace systole::docs
