#include "data/passed_over.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "base/log.h"

namespace systole::data {

std::string ending_of(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending;
}

std::string kind_of(const std::filesystem::path& file) {
  const std::string ending = ending_of(file);
  return ending.empty() ? "without an ending" : ending;
}

void PassedOver::add(const std::string& kind, std::int64_t count) {
  if (count > 0) counts[kind] += count;
}

void PassedOver::warn(const std::filesystem::path& place) const {
  if (counts.empty()) return;
  std::vector<std::pair<std::string, std::int64_t>> kinds(counts.begin(), counts.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::int64_t all = 0;
  std::vector<std::string> parts;
  for (const auto& [kind, count] : kinds) {
    all += count;
    parts.push_back(fmt::format("{} {}", count, kind));
  }
  log(LogLevel::warn, fmt::format("{}: passed over {}: {}", place.string(), all, fmt::join(parts, ", ")));
}

}  // namespace systole::data
