#include "base/last_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace systole {

// Not by sysconf, which adds up the caches of a whole package.
std::int64_t last_cache_bytes() {
  std::int64_t largest = 0;
  for (int i = 0;; ++i) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", i));  // "32768K"
    std::int64_t size = 0;
    char unit = 0;
    if (!(file >> size >> unit)) return largest;
    largest = std::max(largest, size << (unit == 'M' ? 20 : 10));
  }
}

}  // namespace systole
