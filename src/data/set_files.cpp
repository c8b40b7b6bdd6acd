#include "data/set_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "io/json.h"
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

namespace {

// Whether all that is not ASCII is in pairs of GBK, or in fours of GB18030.
bool may_be_gbk(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto digit = [&](std::size_t i) { return byte(i) >= 0x30 && byte(i) <= 0x39; };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (byte(at) < 0x80) continue;
    if (byte(at) == 0x80 || byte(at) == 0xff || at + 1 >= text.size()) return false;
    if (digit(at + 1)) {
      if (at + 3 >= text.size() || !digit(at + 3)) return false;
      at += 3;
    } else if (byte(at + 1) >= 0x40 && byte(at + 1) != 0x7f && byte(at + 1) != 0xff) {
      at += 1;
    } else {
      return false;
    }
  }
  return true;
}

std::string_view encoding_of(std::string_view text) {
  constexpr std::size_t kEnough = 4096;  // a UTF-16 file has a NUL in every other byte of ASCII
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
      text.substr(0, kEnough).find('\0') != std::string_view::npos)
    return "UTF-16";
  return may_be_gbk(text) ? "GB18030" : "WINDOWS-1252";
}

}  // namespace

void require_utf8(std::string_view text, std::string_view file, std::string_view otherwise) {
  std::size_t good = std::min(io::utf8_prefix(text), text.find('\0'));
  if (good >= text.size()) return;
  const std::string_view encoding = encoding_of(text);
  throw Error(
      ErrorKind::kParse,
      fmt::format("{}: line {}: byte {}", file,
                  std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(good), '\n') + 1, good),
      "the text is not UTF-8",
      fmt::format("UTF-8{}; if it is {}, convert it: iconv -f {} -t UTF-8 FILE > NEW", otherwise,
                  encoding == "GB18030" ? "GBK or GB18030" : encoding, encoding));
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
