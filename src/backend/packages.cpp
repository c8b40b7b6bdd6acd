#include "backend/packages.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/env.h"

namespace systole::runtime {

namespace {

namespace fs = std::filesystem;

bool is_ours(const fs::path& folder) {
  struct stat info{};
  return ::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && (info.st_mode & S_IWOTH) == 0 &&
         (info.st_uid == ::geteuid() || info.st_uid == 0);
}

}  // namespace

std::vector<fs::path> listed_folders(const char* variable) {
  std::vector<fs::path> folders;
  const std::string list = env::text(variable).value_or("");
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) folders.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return folders;
}

std::vector<fs::path> package_folders() {
  std::vector<fs::path> folders = listed_folders("SYSTOLE_PLUGIN_PATH");
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code).parent_path();
  if (code) return folders;
  // build/systole, build/release/systole and the tests below them; bin/systole.
  for (const char* const beside :
       {"../.deps", "../../.deps", "../../../.deps", "../../../../.deps", "../lib/systole/plugins"})
    if (fs::path folder = (program / beside).lexically_normal(); is_ours(folder))
      folders.push_back(std::move(folder));
  return folders;
}

}  // namespace systole::runtime
