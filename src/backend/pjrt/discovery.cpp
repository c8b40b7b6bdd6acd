#include "backend/pjrt/discovery.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

#include "base/env.h"
#include "base/log.h"

namespace systole::pjrt {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code code;
  for (fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, code), end;
       !code && it != end; it.increment(code))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());  // the file system's order is not one
  return entries;
}

// A folder whose content others may change is not one to load code from.
bool is_ours(const fs::path& folder) {
  struct stat info{};
  return ::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && (info.st_mode & S_IWOTH) == 0 &&
         (info.st_uid == ::geteuid() || info.st_uid == 0);
}

// lib/python3.11/site-packages and the like below an installation's prefix, newest first.
void add_site_folders(const fs::path& prefix, std::vector<fs::path>& folders) {
  std::vector<fs::path> pythons = entries_of(prefix / "lib");
  std::reverse(pythons.begin(), pythons.end());
  for (const fs::path& python : pythons)
    if (python.filename().string().starts_with("python3"))
      for (const char* packages : {"site-packages", "dist-packages"}) folders.push_back(python / packages);
}

std::vector<fs::path> package_folders() {
  std::vector<fs::path> folders;
  const auto add_list = [&](const char* variable) {
    if (const auto list = env::text(variable))
      for (const std::string& folder : split(*list, ':')) folders.emplace_back(folder);
  };
  add_list("SYSTOLE_PLUGIN_PATH");
  // Beside the program: where it was built, and where it is installed.
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code).parent_path();
  if (!code)
    for (const char* beside : {"../.deps", "../../.deps", "../lib/systole/plugins"})
      if (const fs::path folder = (program / beside).lexically_normal(); is_ours(folder))
        folders.push_back(folder);
  add_list("PYTHONPATH");
  if (const auto active = env::text("VIRTUAL_ENV")) add_site_folders(*active, folders);
  if (const auto path = env::text("PATH"))
    for (const std::string& folder : split(*path, ':'))
      if (fs::exists(fs::path(folder) / "python3", code))
        add_site_folders(fs::path(folder).parent_path(), folders);
  if (const auto home = env::text("HOME")) add_site_folders(fs::path(*home) / ".local", folders);
  return folders;
}

// Lower case, of letters, digits and '_', as a device name wants it.
std::string cleaned(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '_';
  }
  return text;
}

}  // namespace

std::string plugin_name(const fs::path& library) {
  std::string stem = library.filename().string();
  stem = stem.substr(0, stem.find(".so"));
  if (stem.starts_with("lib")) stem = stem.substr(3);
  std::string name;
  for (const std::string& part : split(cleaned(stem), '_')) {
    if (part == "xla" || part == "pjrt" || part == "plugin" || part == "c" || part == "api") continue;
    name += (name.empty() ? "" : "_") + part;
  }
  return name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0 ? "plugin" + name : name;
}

std::vector<PluginSpec> plugins_in(const fs::path& folder) {
  std::vector<PluginSpec> found;
  const auto add = [&](const fs::path& library) {
    found.push_back({plugin_name(library), library, folder.string()});
  };
  for (const char* group : {"jax_plugins", "xla_plugins"})
    for (const fs::path& package : entries_of(folder / group))
      for (const fs::path& file : entries_of(package)) {
        const std::string name = file.filename().string();
        const bool named = name.find("pjrt") != std::string::npos || name.find("plugin") != std::string::npos;
        if (file.extension() == ".so" && named) add(file);
      }
  std::error_code code;
  if (const fs::path tpu = folder / "libtpu" / "libtpu.so"; fs::exists(tpu, code)) add(tpu);
  return found;
}

std::vector<PluginSpec> discover() {
  std::vector<PluginSpec> found;
  const auto add = [&](PluginSpec spec) {
    const auto same = [&](const PluginSpec& other) { return other.name == spec.name; };
    if (const auto first = std::find_if(found.begin(), found.end(), same); first == found.end())
      found.push_back(std::move(spec));
    else if (first->library != spec.library)
      log(LogLevel::debug, fmt::format("PJRT plugin {} is passed over: pjrt:{} is {}", spec.library.string(),
                                       spec.name, first->library.string()));
  };
  const char* const single = "SYSTOLE_PJRT_PLUGIN";
  const char* const list = "PJRT_NAMES_AND_LIBRARY_PATHS";
  if (const auto path = env::text(single)) add({plugin_name(*path), *path, single});
  if (const auto text = env::text(list))
    for (const std::string& entry : split(*text, ',')) {
      const std::size_t colon = entry.find(':');
      if (colon == std::string::npos || std::isalpha(static_cast<unsigned char>(entry[0])) == 0)
        log(LogLevel::warn, fmt::format("{}: \"{}\" is not NAME:PATH", list, entry));
      else
        add({cleaned(entry.substr(0, colon)), entry.substr(colon + 1), list});
    }
  std::set<fs::path> seen;
  for (const fs::path& folder : package_folders())
    if (seen.insert(folder.lexically_normal()).second)
      for (PluginSpec& spec : plugins_in(folder)) add(std::move(spec));
  return found;
}

fs::path cuda_toolkit(const fs::path& library) {
  if (const auto chosen = env::text("CUDA_ROOT")) return *chosen;
  // site-packages/jax_plugins/PACKAGE/LIBRARY
  const fs::path packages = library.parent_path().parent_path().parent_path();
  std::error_code code;
  for (const char* folder : {"nvidia/cu13", "nvidia/cuda_nvcc"})
    if (fs::exists(packages / folder / "nvvm/libdevice", code)) return packages / folder;
  return {};
}

bool has_tpu(const fs::path& root) {
  for (const fs::path& file : entries_of(root / "dev"))
    if (file.filename().string().starts_with("accel")) return true;
  // Newer TPUs are behind vfio; Google's network cards and disks have its vendor number too.
  for (const fs::path& device : entries_of(root / "sys/bus/pci/devices")) {
    std::string vendor, kind;
    std::ifstream(device / "vendor") >> vendor;
    std::ifstream(device / "class") >> kind;
    if (vendor == "0x1ae0" && !kind.starts_with("0x01") && !kind.starts_with("0x02")) return true;
  }
  return false;
}

}  // namespace systole::pjrt
