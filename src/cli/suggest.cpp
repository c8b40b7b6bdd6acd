#include "cli/suggest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace systole::cli {

namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * width);
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& here = table[i * width + j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      here = std::min({table[(i - 1) * width + j] + 1, table[i * width + j - 1] + 1,
                       table[(i - 1) * width + j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        here = std::min(here, table[(i - 2) * width + j - 2] + 1);
    }
  return table.back();
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names) {
  constexpr std::size_t kLongest = 64;
  std::string_view best;
  if (wrong.size() > kLongest) return best;
  std::size_t limit = std::max<std::size_t>(2, wrong.size() / 3) + 1;
  for (const std::string_view name : names) {
    const bool begins = name.starts_with(wrong) || wrong.starts_with(name);  // "dev", "format"
    const std::size_t d = begins ? 1 : distance(wrong, name);
    if (d < limit && d < std::max(wrong.size(), name.size())) {
      limit = d;
      best = name;
    }
  }
  return best;
}

}  // namespace systole::cli
