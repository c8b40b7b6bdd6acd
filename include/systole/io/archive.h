#pragma once

// Packed files: gzip and xz streams, and tar archives, packed or not. What a file is, its first bytes say.
// Unpacking stops (kLimit) at the limit given, at 256 MiB or 64 times the packed size, whichever of the two
// is more, and where the content says how long it is, there: a small file cannot fill the memory. A file that
// unpacks to more is unpacked by hand. Damage is kParse with the file. A build without zlib or liblzma
// refuses what it cannot unpack with kUnsupported.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"

namespace systole::io {

inline constexpr std::uint64_t kLargestUnpacked = std::uint64_t{1} << 32;

// The length of a content from its first bytes; nothing while they are too few, or when they do not say. More
// than that is kParse.
using LengthOf = std::function<std::optional<std::uint64_t>(std::span<const std::byte> first)>;

SYSTOLE_API std::vector<std::byte> read_unpacked(const std::filesystem::path& file,
                                                 std::uint64_t largest = kLargestUnpacked,
                                                 const LengthOf& length = {});
SYSTOLE_API std::vector<std::byte> unpack(std::span<const std::byte> bytes, std::string_view file,
                                          std::uint64_t largest = kLargestUnpacked,
                                          const LengthOf& length = {});

struct Member {
  std::string name;  // the path in the archive
  std::vector<std::byte> bytes;
};

// The regular files of a tar archive in their order, those whose name `wanted` accepts. They are copies: in
// read_tar, the limit above holds for the archive's content and them together.
using NameFilter = std::function<bool(std::string_view name)>;
SYSTOLE_API std::vector<Member> read_tar(const std::filesystem::path& file, const NameFilter& wanted = {},
                                         std::uint64_t largest = kLargestUnpacked);
SYSTOLE_API std::vector<Member> parse_tar(std::span<const std::byte> bytes, std::string_view file,
                                          const NameFilter& wanted = {});

}  // namespace systole::io
