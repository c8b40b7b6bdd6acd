// tar archives: ustar, with GNU's long names and the path and size of pax headers. Only regular files are
// given out; links and devices are passed over and counted in a warning: nothing is ever written or opened by
// their names.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>

#include "base/budget.h"
#include "base/log.h"
#include "systole/base/error.h"
#include "systole/io/archive.h"

namespace systole::io {

namespace {

constexpr std::size_t kBlock = 512;

[[noreturn]] void fail(std::string_view file, std::uint64_t at, std::string message,
                       std::string expected = {}, std::string got = {}) {
  throw Error(ErrorKind::kParse, fmt::format("{}: byte {}", file, at), std::move(message),
              std::move(expected), std::move(got));
}

std::string_view text(std::span<const std::byte> field) {  // up to its first NUL
  const char* const begin = reinterpret_cast<const char*>(field.data());
  return {begin, static_cast<std::size_t>(std::find(begin, begin + field.size(), '\0') - begin)};
}

// Octal digits between blanks, or, with the highest bit set, a big-endian number.
std::optional<std::uint64_t> number(std::span<const std::byte> field) {
  if (std::to_integer<unsigned>(field[0]) & 0x80) {
    std::uint64_t value = std::to_integer<unsigned>(field[0]) & 0x7f;
    for (const std::byte b : field.subspan(1)) {
      if (value >> 55) return {};
      value = value << 8 | std::to_integer<std::uint64_t>(b);
    }
    return value;
  }
  std::string_view digits = text(field);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  std::uint64_t value = 0;
  if (digits.empty()) return value;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (code != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

bool checksum_agrees(std::span<const std::byte> header) {
  const std::optional<std::uint64_t> wanted = number(header.subspan(148, 8));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    sum += i >= 148 && i < 156 ? ' ' : std::to_integer<std::uint64_t>(header[i]);
  return wanted == sum;
}

struct Extended {
  std::optional<std::string> path;
  std::optional<std::uint64_t> size;
};

// Records "LENGTH KEY=VALUE\n", the length including itself.
void read_pax(std::string_view records, Extended& into, std::string_view file, std::uint64_t at) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, code] = std::from_chars(records.data(), records.data() + records.size(), length);
    const std::size_t used = static_cast<std::size_t>(end - records.data());
    if (code != std::errc() || length > records.size() || length < used + 3 || records[used] != ' ' ||
        records[length - 1] != '\n')
      fail(file, at, "malformed extended header");
    const std::string_view record = records.substr(used + 1, length - used - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) fail(file, at, "malformed extended header");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") into.path = std::string(value);
    if (key == "size") {
      std::uint64_t size = 0;
      const auto [stop, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (wrong != std::errc() || stop != value.data() + value.size())
        fail(file, at, "malformed size in an extended header");
      into.size = size;
    }
    records.remove_prefix(length);
  }
}

// What is neither file nor folder. A data set that is kept as links lacks what they lead to, so one line says
// it.
struct Skipped {
  int links = 0, others = 0;

  void note(char kind) {
    if (kind == '1' || kind == '2') ++links;
    if (kind == '3' || kind == '4' || kind == '6') ++others;
  }
  void report(std::string_view file) const {
    if (links + others == 0) return;
    std::string what = links == 0 ? "" : fmt::format("{} link{}", links, links == 1 ? "" : "s");
    if (others > 0)
      what += fmt::format("{}{} device{} or pipe{}", what.empty() ? "" : " and ", others,
                          others == 1 ? "" : "s", others == 1 ? "" : "s");
    log(LogLevel::warn, fmt::format("{}: {} passed over: only files are read from an archive", file, what));
  }
};

// The members' memory is taken from the budget, where there is one.
std::vector<Member> members_of(std::span<const std::byte> bytes, std::string_view file,
                               const NameFilter& wanted, Budget* budget) {
  std::vector<Member> members;
  Skipped skipped;
  Extended extended;
  std::size_t at = 0;
  for (;;) {
    if (bytes.size() - at < kBlock)
      fail(file, at, at == 0 ? "not a tar archive" : "the archive ends early", "a header of 512 bytes",
           fmt::format("{} bytes", bytes.size() - at));
    const std::span<const std::byte> header = bytes.subspan(at, kBlock);
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) {
      if (at == 0) fail(file, at, "not a tar archive");
      break;
    }
    if (!checksum_agrees(header))
      fail(file, at, at == 0 ? "not a tar archive" : "a header has a wrong checksum");
    const std::optional<std::uint64_t> own_size = number(header.subspan(124, 12));
    const char kind = static_cast<char>(header[156]);
    const bool describes_next = kind == 'x' || kind == 'g' || kind == 'L' || kind == 'K';
    const std::uint64_t size = !describes_next && extended.size ? *extended.size : own_size.value_or(0);
    const std::size_t data = at + kBlock;
    if (!own_size || size > bytes.size() - data)
      fail(file, at + 124, "a member is longer than the archive",
           fmt::format("at most {} bytes", bytes.size() - data),
           own_size ? fmt::format("{}", size) : "no number");
    const std::span<const std::byte> content = bytes.subspan(data, static_cast<std::size_t>(size));
    const std::string_view as_text(reinterpret_cast<const char*>(content.data()), content.size());
    if (kind == 'L') {
      extended.path = std::string(text(content));
    } else if (kind == 'x') {
      read_pax(as_text, extended, file, data);
    } else if (!describes_next) {
      std::string name;
      if (std::memcmp(header.data() + 257, "ustar", 5) == 0 && header[345] != std::byte{0} &&
          header[263] != std::byte{' '})
        name = std::string(text(header.subspan(345, 155))) + "/";
      name += text(header.subspan(0, 100));
      if (extended.path) name = *extended.path;
      extended = {};
      skipped.note(kind);
      if ((kind == '0' || kind == '\0' || kind == '7') && (!wanted || wanted(name))) {
        if (budget != nullptr) budget->take(size, fmt::format("member {}", name));
        members.push_back({std::move(name), {content.begin(), content.end()}});
      }
    }
    const std::uint64_t padded = (size + kBlock - 1) / kBlock * kBlock;
    if (padded > bytes.size() - data) fail(file, data, "the archive ends early");
    at = data + static_cast<std::size_t>(padded);
    if (at == bytes.size()) break;  // without the two empty blocks at the end
  }
  skipped.report(file);
  return members;
}

}  // namespace

std::vector<Member> parse_tar(std::span<const std::byte> bytes, std::string_view file,
                              const NameFilter& wanted) {
  return members_of(bytes, file, wanted, nullptr);
}

std::vector<Member> read_tar(const std::filesystem::path& file, const NameFilter& wanted,
                             std::uint64_t largest) {
  const std::vector<std::byte> bytes = read_unpacked(file, largest);
  // The members are copies, so a member counts twice.
  std::error_code code;
  const std::uintmax_t packed = std::filesystem::file_size(file, code);
  Budget budget(file.string(), expansion_limit(code ? 0 : packed), "unpack the archive into a folder");
  budget.take(bytes.size(), "the archive");
  return members_of(bytes, file.string(), wanted, &budget);
}

}  // namespace systole::io
