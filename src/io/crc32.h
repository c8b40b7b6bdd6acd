#pragma once

// The checksum of zip archives (polynomial 0xEDB88320, reflected). Start with 0 and pass the result on.

#include <cstddef>
#include <cstdint>
#include <span>

namespace systole::io {

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace systole::io
