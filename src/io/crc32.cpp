#include "io/crc32.h"

#include <array>

namespace systole::io {

namespace {

// tables[k][b] is the effect of byte b followed by k zero bytes, so that eight bytes are taken at once.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables(std::uint32_t polynomial) {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t c = b;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? polynomial ^ (c >> 1) : c >> 1;
    tables[0][b] = c;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      tables[k][b] = tables[0][tables[k - 1][b] & 0xff] ^ (tables[k - 1][b] >> 8);
  return tables;
}

constexpr Tables kZip = make_tables(0xedb88320u), kCastagnoli = make_tables(0x82f63b78u);

std::uint32_t checksum(const Tables& tables, std::uint32_t crc, std::span<const std::byte> bytes) {
  crc = ~crc;
  while (bytes.size() >= 8) {
    std::uint32_t next = 0;
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t carried = i < 4 ? crc >> (8 * i) & 0xff : 0;
      next ^= tables[7 - i][std::to_integer<std::uint32_t>(bytes[i]) ^ carried];
    }
    crc = next;
    bytes = bytes.subspan(8);
  }
  for (const std::byte b : bytes)
    crc = tables[0][(crc ^ std::to_integer<std::uint32_t>(b)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

}  // namespace

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) {
  return checksum(kZip, crc, bytes);
}

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  return checksum(kCastagnoli, crc, bytes);
}

}  // namespace systole::io
