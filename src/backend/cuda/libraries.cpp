#include "backend/cuda/libraries.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "base/env.h"

namespace systole::cuda {

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

void* open_library(const std::vector<std::string>& names, const std::vector<std::string>& packages,
                   std::string& absence) {
  std::vector<std::string> folders;
  if (const std::optional<std::string> chosen = env::text("SYSTOLE_CUDA_LIBRARIES")) folders = split(*chosen);
  folders.emplace_back();  // the loader's own places
  for (const char* const folder : {"lib64", "extras/CUPTI/lib64"})
    folders.push_back(std::string("/usr/local/cuda/") + folder);
  if (const std::optional<std::string> plugins = env::text("SYSTOLE_PLUGIN_PATH"))
    for (const std::string& folder : split(*plugins))
      for (const std::string& package : packages) folders.push_back(folder + "/" + package);
  std::string why;
  for (const std::string& folder : folders)
    for (const std::string& name : names) {
      const std::filesystem::path path =
          folder.empty() ? std::filesystem::path(name) : folder / std::filesystem::path(name);
      if (!folder.empty() && !std::filesystem::exists(path)) continue;
      if (void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      if (const char* const words = ::dlerror(); words != nullptr && !folder.empty()) why = words;
    }
  absence = fmt::format(
      "{} is not found{}; it is part of the CUDA toolkit, and SYSTOLE_CUDA_LIBRARIES may name its folder",
      names.front(), why.empty() ? "" : " (" + why + ")");
  return nullptr;
}

}  // namespace systole::cuda
