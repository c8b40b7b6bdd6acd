#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

namespace systole {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

bool has(const std::string& list, std::string_view word) {  // "rw,cpu,cpuacct"
  const std::vector<std::string> words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Where the files of the controller lie, and which group they are of.
struct Hierarchy {
  bool is_v2 = false;
  fs::path mount, top;  // top: the group that the mount shows
};

// Lines of mountinfo: "36 35 98:0 /top /mount options… - type source options".
std::vector<Hierarchy> hierarchies(const fs::path& root) {
  std::vector<Hierarchy> found;
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> fields = split(line.substr(0, dash), ' '),
                                   kind = split(line.substr(dash + 3), ' ');
    if (fields.size() < 5 || kind.empty()) continue;
    const bool is_v2 = kind[0] == "cgroup2";
    if (is_v2 || (kind[0] == "cgroup" && kind.size() > 2 && has(kind[2], "cpu")))
      found.push_back({is_v2, fields[4], fields[3]});
  }
  return found;
}

// The process's group: lines "4:cpu,cpuacct:/group", of version 2 "0::/group".
std::optional<fs::path> group_of(const fs::path& root, bool is_v2) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (is_v2 ? line.substr(0, first) == "0" && controllers.empty() : has(controllers, "cpu"))
      return fs::path(line.substr(second + 1));
  }
  return std::nullopt;
}

std::optional<double> ratio(double quota, double period) {
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

std::optional<double> quota_in(const fs::path& folder, bool is_v2) {
  if (is_v2) {  // "max 100000" or "50000 100000"
    double quota = 0, period = 0;
    if (std::ifstream in(folder / "cpu.max"); in >> quota >> period) return ratio(quota, period);
    return std::nullopt;
  }
  double quota = 0, period = 0;  // -1: none
  std::ifstream first(folder / "cpu.cfs_quota_us"), second(folder / "cpu.cfs_period_us");
  if (first >> quota && second >> period) return ratio(quota, period);
  return std::nullopt;
}

}  // namespace

std::optional<double> processor_quota(const fs::path& root) {
  std::optional<double> least;
  for (const Hierarchy& hierarchy : hierarchies(root)) {
    const std::optional<fs::path> group = group_of(root, hierarchy.is_v2);
    if (!group) continue;
    // A container's mount often shows its own group as the top, while the group's name is the host's.
    fs::path inside = group->lexically_relative(hierarchy.top);
    if (inside.empty() || *inside.begin() == "..") inside = ".";
    const fs::path mount = root / hierarchy.mount.relative_path();
    for (fs::path folder = (mount / inside).lexically_normal();; folder = folder.parent_path()) {
      if (folder.has_relative_path() && folder.filename().empty()) folder = folder.parent_path();  // "a/."
      if (const std::optional<double> quota = quota_in(folder, hierarchy.is_v2))
        least = std::min(*quota, least.value_or(*quota));
      if (folder == mount || !folder.has_relative_path()) break;
    }
  }
  return least;
}

int available_processors() {
  cpu_set_t set;
  const int processors = ::sched_getaffinity(0, sizeof set, &set) == 0
                             ? CPU_COUNT(&set)
                             : static_cast<int>(std::thread::hardware_concurrency());
  constexpr double kMost = 1 << 20;
  const double quota = std::min(std::ceil(processor_quota().value_or(kMost)), kMost);
  return std::max(1, std::min(processors, static_cast<int>(quota)));
}

}  // namespace systole
