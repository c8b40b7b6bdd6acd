#pragma once

// What a folder or archive holds beside the samples: one warning counts it, so that nobody takes a part of
// the data for all of it.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace systole::data {

// With the dot, in small letters.
std::string ending_of(const std::filesystem::path& file);
std::string kind_of(const std::filesystem::path& file);  // its ending, or "without an ending"

struct PassedOver {
  std::map<std::string, std::int64_t> counts;  // by kind

  void add(const std::string& kind, std::int64_t count = 1);
  // "photos: passed over 3: 2 .webp, 1 .txt", when there is anything.
  void warn(const std::filesystem::path& place) const;
};

}  // namespace systole::data
