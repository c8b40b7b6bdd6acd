#include "base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace systole {

namespace {

constexpr std::size_t kLongest = 64;        // of what is compared: the table grows with the product
constexpr std::size_t kShortestPrefix = 3;  // fewer letters begin too many names

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

bool one_begins_the_other(std::string_view a, std::string_view b) {
  const std::size_t size = std::min(a.size(), b.size());
  return size >= kShortestPrefix && a.substr(0, size) == b.substr(0, size);
}

}  // namespace

std::string_view nearest(std::string_view wrong, std::span<const std::string_view> names) {
  std::string_view best;
  if (wrong.size() > kLongest) return best;
  const std::size_t most = std::max<std::size_t>(2, wrong.size() / 3);
  std::pair<std::size_t, std::size_t> least{most + 1, 0};  // its cost, then the edits
  for (const std::string_view name : names) {
    if (name.size() > kLongest) continue;
    const std::size_t edits = distance(wrong, name);
    const std::pair cost{one_begins_the_other(wrong, name) ? std::min<std::size_t>(edits, 1) : edits, edits};
    if (cost < least && cost.first < std::max(wrong.size(), name.size())) {
      least = cost;
      best = name;
    }
  }
  return best;
}

}  // namespace systole
