#pragma once

// Packed files: gzip and xz streams, and tar archives, packed or not. What a file is, its first bytes say.
// Unpacking stops at a limit (kLimit), so that a small file cannot fill the memory; damage is kParse with the
// file. A build without zlib or liblzma refuses what it cannot unpack with kUnsupported.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"

namespace systole::io {

inline constexpr std::uint64_t kLargestUnpacked = std::uint64_t{1} << 32;

SYSTOLE_API std::vector<std::byte> read_unpacked(const std::filesystem::path& file,
                                                 std::uint64_t largest = kLargestUnpacked);
SYSTOLE_API std::vector<std::byte> unpack(std::span<const std::byte> bytes, std::string_view file,
                                          std::uint64_t largest = kLargestUnpacked);

struct Member {
  std::string name;  // the path in the archive
  std::vector<std::byte> bytes;
};

// The regular files of a tar archive in their order, those whose name `wanted` accepts.
using NameFilter = std::function<bool(std::string_view name)>;
SYSTOLE_API std::vector<Member> read_tar(const std::filesystem::path& file, const NameFilter& wanted = {},
                                         std::uint64_t largest = kLargestUnpacked);
SYSTOLE_API std::vector<Member> parse_tar(std::span<const std::byte> bytes, std::string_view file,
                                          const NameFilter& wanted = {});

}  // namespace systole::io
