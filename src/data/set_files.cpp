#include "data/set_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "systole/base/error.h"

namespace systole::data {

namespace fs = std::filesystem;

fs::path found_in(const fs::path& folder, const std::string& name, std::string_view set) {
  std::error_code code;
  for (const char* suffix : {"", ".gz", ".xz"})
    if (fs::path file = folder / (name + suffix); fs::is_regular_file(file, code)) return file;
  // Some keep the dot that the files had in an old archive.
  if (const std::size_t dash = name.rfind("-idx"); dash != std::string::npos) {
    std::string dotted = name;
    dotted[dash] = '.';
    if (fs::path file = folder / dotted; fs::is_regular_file(file, code)) return file;
  }
  throw Error(ErrorKind::kNotFound, folder.string(), "a file is missing",
              fmt::format("{0}, {0}.gz or {0}.xz; `systole data get {1} --out {2}` fetches it, with --from "
                          "ADDRESS from a mirror",
                          name, set, folder.string()),
              fs::is_directory(folder, code) ? "" : "no folder");
}

Literal class_numbers(std::span<const std::uint8_t> labels, std::int64_t classes, const std::string& file,
                      std::uint64_t offset, std::uint64_t step) {
  Literal numbers = Literal::uninitialized({DType::i32, {std::ssize(labels)}});
  const std::span<std::int32_t> out = numbers.mutable_values<std::int32_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes)
      throw Error(ErrorKind::kParse, fmt::format("{}: byte {}: sample {}", file, offset + i * step, i),
                  "there is no such class", fmt::format("0 to {}", classes - 1),
                  fmt::format("{}", labels[i]));
    out[i] = labels[i];
  }
  return numbers;
}

std::vector<std::string> in_order(std::vector<std::string> names) {
  const auto is_number = [](const std::string& name) {
    return !name.empty() && name.size() < 18 &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); });
  };
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    if (is_number(a) && is_number(b) && std::stoll(a) != std::stoll(b)) return std::stoll(a) < std::stoll(b);
    return a < b;
  });
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace systole::data
