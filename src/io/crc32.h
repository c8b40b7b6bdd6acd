#pragma once

// Checksums of files. Start with 0 and pass the result on.

#include <cstddef>
#include <cstdint>
#include <span>

namespace systole::io {

// Of zip archives: polynomial 0xEDB88320, reflected.
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes);
// Of TFRecord files (and iSCSI): polynomial 0x82F63B78, reflected.
std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace systole::io
