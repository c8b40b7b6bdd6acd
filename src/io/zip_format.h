#pragma once

// The fixed numbers of the zip format (APPNOTE 6.3), shared by reader and writer.

#include <cstddef>
#include <cstdint>

namespace systole::io {

inline constexpr std::uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50,
                               kEndSignature = 0x06054b50;
inline constexpr std::uint32_t kZip64EndSignature = 0x06064b50, kLocatorSignature = 0x07064b50;
inline constexpr std::size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kZip64EndSize = 56,
                             kLocatorSize = 20;
inline constexpr std::uint16_t kStored = 0, kDeflated = 8;
inline constexpr std::uint16_t kEncryptedFlag = 1 << 0, kDescriptorFlag = 1 << 3, kUtf8Flag = 1 << 11;
inline constexpr std::uint16_t kZip64Tag = 1;
// A field with all bits set is in the zip64 record instead.
inline constexpr std::uint64_t kAllOnes16 = 0xffff, kAllOnes32 = 0xffffffff;

}  // namespace systole::io
