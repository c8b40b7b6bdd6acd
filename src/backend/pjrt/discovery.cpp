#include "backend/pjrt/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <optional>
#include <set>

#include "backend/packages.h"
#include "base/env.h"
#include "base/log.h"

namespace systole::pjrt {

namespace {

namespace fs = std::filesystem;

// PCI device numbers: v2 and v3, one without a public name, v4, v5p, v5e, v6e, 7x.
constexpr std::array<std::string_view, 7> kTpuModels = {"0x0027", "0x0056", "0x005e", "0x0062",
                                                        "0x0063", "0x006f", "0x0076"};

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

// lib/python3.11/site-packages and the like below an installation's prefix, newest first.
void add_site_folders(const fs::path& prefix, std::vector<fs::path>& folders) {
  std::vector<fs::path> pythons = entries_of(prefix / "lib");
  std::reverse(pythons.begin(), pythons.end());
  for (const fs::path& python : pythons)
    if (python.filename().string().starts_with("python3"))
      for (const char* packages : {"site-packages", "dist-packages"}) folders.push_back(python / packages);
}

std::vector<fs::path> python_and_package_folders() {
  std::vector<fs::path> folders = runtime::package_folders();
  for (fs::path& folder : runtime::listed_folders("PYTHONPATH")) folders.push_back(std::move(folder));
  std::error_code code;
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

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

using Complaints = std::vector<std::string>;

// "NAME:PATH"; one that is wrong is told and passed over.
std::optional<PluginSpec> named_plugin(std::string_view entry, const std::string& source,
                                       Complaints* complaints) {
  const std::size_t colon = entry.find(':');
  const std::string_view name = trimmed(entry.substr(0, colon));
  const std::string_view path =
      colon == std::string_view::npos ? std::string_view() : trimmed(entry.substr(colon + 1));
  if (!name.empty() && !path.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0)
    return PluginSpec{cleaned(std::string(name)), std::string(path), source};
  const std::string complaint = fmt::format("{}: \"{}\" is not NAME:PATH", source, entry);
  log(LogLevel::warn, complaint);
  if (complaints != nullptr) complaints->push_back(complaint);
  return std::nullopt;
}

std::optional<fs::path> config_file() {
  const auto chosen = env::text("XDG_CONFIG_HOME"), home = env::text("HOME");
  if (chosen && fs::path(*chosen).is_absolute()) return fs::path(*chosen) / "systole/plugins";
  if (home) return fs::path(*home) / ".config/systole/plugins";
  return std::nullopt;
}

std::vector<PluginSpec> plugins_of_file(const fs::path& file, Complaints* complaints) {
  std::vector<PluginSpec> found;
  std::ifstream in(file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::string_view entry = trimmed(std::string_view(line).substr(0, line.find('#')));
    if (entry.empty()) continue;
    if (auto spec = named_plugin(entry, fmt::format("{}:{}", file.string(), number), complaints))
      found.push_back(std::move(*spec));
  }
  return found;
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

std::vector<PluginSpec> discover(std::vector<std::string>* complaints) {
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
    for (const std::string& entry : split(*text, ','))
      if (auto spec = named_plugin(entry, list, complaints)) add(std::move(*spec));
  if (const auto file = config_file())
    for (PluginSpec& spec : plugins_of_file(*file, complaints)) add(std::move(spec));
  std::set<fs::path> seen;
  for (const fs::path& folder : python_and_package_folders())
    if (seen.insert(folder.lexically_normal()).second)
      for (PluginSpec& spec : plugins_in(folder)) add(std::move(spec));
  return found;
}

std::string how_to_get(std::string_view name) {
  // Python packages that hold a plugin; others are their makers'.
  struct Package {
    std::string_view plugin, package;
  };
  constexpr Package kPackages[] = {{"tpu", "libtpu"}, {"cpu", "xla-cpu-pjrt"}, {"cuda", "jax-cuda13-pjrt"}};
  std::string text;
  for (const Package& known : kPackages)
    if (known.plugin == name || (name.empty() && known.plugin != "cuda"))
      text += fmt::format("{}`pip install {}`{}", text.empty() ? "" : " or ", known.package,
                          name.empty() ? fmt::format(" (pjrt:{})", known.plugin) : "");
  if (name != "cuda" && !text.empty()) text += ", or scripts/setup in Systole's source";
  return text + (text.empty() ? "" : ", or ") +
         "set SYSTOLE_PJRT_PLUGIN to the path of the plugin's library; docs/tpu.md has more";
}

std::string why_not_found(std::string_view name) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> places = {"SYSTOLE_PJRT_PLUGIN", "PJRT_NAMES_AND_LIBRARY_PATHS"};
  if (const auto file = config_file()) places.push_back(file->string());
  std::set<fs::path> seen;
  std::error_code code;
  for (const fs::path& folder : python_and_package_folders())
    if (fs::is_directory(folder, code) && seen.insert(folder.lexically_normal()).second)
      places.push_back(folder.lexically_normal().string());
  const std::size_t left = places.size() > kShown ? places.size() - kShown : 0;
  places.resize(places.size() - left);
  return fmt::format("its plugin is not found. Looked for it in {}{}. To get it: {}", fmt::join(places, ", "),
                     left > 0 ? fmt::format(" and {} more folders", left) : "", how_to_get(name));
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
  std::error_code code;
  // accel0, …; the NPUs of others are in a folder accel.
  for (const fs::path& file : entries_of(root / "dev")) {
    const std::string name = file.filename().string();
    const bool numbered = name.size() > 5 && name.find_first_not_of("0123456789", 5) == std::string::npos;
    if (name.starts_with("accel") && numbered && !fs::is_directory(file, code)) return true;
  }
  // Newer TPUs are behind vfio; Google's network cards and disks have its vendor number too.
  for (const fs::path& device : entries_of(root / "sys/bus/pci/devices")) {
    std::string vendor, model;
    std::ifstream(device / "vendor") >> vendor;
    std::ifstream(device / "device") >> model;
    if (vendor == "0x1ae0" && std::find(kTpuModels.begin(), kTpuModels.end(), model) != kTpuModels.end())
      return true;
  }
  return false;
}

}  // namespace systole::pjrt
