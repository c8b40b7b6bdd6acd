#include "base/nearest.h"

#include <fmt/format.h>

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

std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> names) {
  const std::string_view meant = nearest(wrong, names);
  return meant.empty() ? std::string() : fmt::format("; did you mean '{}'?", meant);
}

Error unknown_name(std::string where, std::string_view kind, std::string_view wrong,
                   std::span<const std::string_view> names) {
  constexpr std::size_t kShown = 40;
  std::string expected;
  if (!names.empty()) {
    const std::size_t shown = std::min(names.size(), kShown);
    expected = fmt::format("{}{}", names.size() > 1 ? "one of " : "", fmt::join(names.first(shown), ", "));
    if (shown < names.size()) expected += fmt::format(" and {} more", names.size() - shown);
  }
  return Error(ErrorKind::kNotFound, std::move(where),
               fmt::format("there is no {} '{}'{}", kind, wrong, did_you_mean(wrong, names)),
               std::move(expected));
}

Error unknown_name(std::string where, std::string_view kind, std::string_view wrong,
                   std::span<const std::string> names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return unknown_name(std::move(where), kind, wrong, std::span<const std::string_view>(views));
}

}  // namespace systole
