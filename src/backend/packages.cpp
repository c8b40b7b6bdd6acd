#include "backend/packages.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/lasting.h"

namespace systole::runtime {

namespace {

namespace fs = std::filesystem;

bool is_ours(const fs::path& folder) {
  struct stat info{};
  return ::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && (info.st_mode & S_IWOTH) == 0 &&
         (info.st_uid == ::geteuid() || info.st_uid == 0);
}

fs::path own_program() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  return code ? fs::path() : program;
}

// The file that is mapped at this address. The loader's name of a library or a program may be relative to
// the folder in which the process started; the system's is not.
fs::path mapped_file(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {  // begin-end rights offset device inode   path
    std::uintptr_t begin = 0, end = 0;
    const char* const last = line.data() + line.size();
    const auto dash = std::from_chars(line.data(), last, begin, 16);
    if (dash.ec != std::errc() || dash.ptr == last) continue;
    if (std::from_chars(dash.ptr + 1, last, end, 16).ec != std::errc()) continue;
    if (wanted < begin || wanted >= end) continue;
    const std::size_t path = line.find('/');
    return path == std::string::npos ? fs::path() : fs::path(line.substr(path));
  }
  return {};
}

std::optional<std::vector<fs::path>>& chosen_folders() {
  static std::optional<std::vector<fs::path>>& folders = lasting<std::optional<std::vector<fs::path>>>();
  return folders;
}

// Of a build tree's libraries and programs, which lie at its top or in folders below it.
constexpr const char* kBuilt[] = {"../.deps", "../../.deps", "../../../.deps", "../../../../.deps"};

}  // namespace

fs::path own_file() {
  fs::path (*const self)() = own_file;
  const void* const address = reinterpret_cast<const void*>(self);
  std::error_code code;
  Dl_info info{};
  fs::path file;
  if (::dladdr(address, &info) != 0 && info.dli_fname != nullptr) file = info.dli_fname;
  if (!file.is_absolute()) file = mapped_file(address);
  fs::path resolved = fs::canonical(file, code);
  return code ? fs::path() : resolved;
}

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
  return chosen_folders() ? *chosen_folders() : package_folders(own_file(), own_program());
}

void use_package_folders(std::vector<fs::path> folders) { chosen_folders() = std::move(folders); }

std::vector<fs::path> package_folders(const fs::path& library, const fs::path& program) {
  std::vector<fs::path> folders = listed_folders("SYSTOLE_PLUGIN_PATH");
  const auto add = [&](const fs::path& file, const char* beside) {
    if (file.empty()) return;
    fs::path folder = (file.parent_path() / beside).lexically_normal();
    if (is_ours(folder) && std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  };
  add(library, "systole/plugins");  // lib/libsystole.so, or lib/MACHINE/libsystole.so
  for (const char* const beside : kBuilt) add(library, beside);
  add(program, "../" SYSTOLE_LIBDIR "/systole/plugins");  // bin/systole
  for (const char* const beside : kBuilt) add(program, beside);
  return folders;
}

}  // namespace systole::runtime
