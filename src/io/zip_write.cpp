#include <algorithm>
#include <string>

#include "io/crc32.h"
#include "io/zip.h"
#include "io/zip_format.h"
#include "systole/base/error.h"

namespace systole::io {

namespace {

constexpr std::uint16_t kVersion = 20, kZip64Version = 45;
constexpr std::uint16_t kMadeByUnix = 3 << 8;
constexpr std::uint32_t kRegularFile = 0100644u << 16;  // mode bits in the external attributes
constexpr std::uint32_t kEarliestTime = 0x00210000;     // 1980-01-01 00:00, date in the upper half

void put(std::string& out, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

std::uint64_t capped(std::uint64_t value, std::uint64_t all_ones) { return std::min(value, all_ones); }

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 128; });
}

}  // namespace

void ZipWriter::write(const std::string& bytes) {
  out_.write(std::as_bytes(std::span(bytes)));
  offset_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::span<const std::byte>> pieces) {
  if (name.size() > kAllOnes16)
    throw Error(ErrorKind::kInvalidArgument, "npz", "the name of an array is too long", "at most 65535 bytes",
                std::to_string(name.size()));
  std::uint32_t crc = 0;
  std::uint64_t size = 0;
  for (const std::span<const std::byte> piece : pieces) {
    crc = crc32(crc, piece);
    size += piece.size();
  }
  const std::uint64_t start = offset_;
  const bool wide = size >= kAllOnes32, far = start >= kAllOnes32;
  const std::uint16_t flags = is_ascii(name) ? 0 : kUtf8Flag;

  // What the local header and the directory say alike, from "version needed" up to the sizes.
  std::string common;
  put(common, wide || far ? kZip64Version : kVersion, 2);
  put(common, flags, 2);
  put(common, kStored, 2);
  put(common, kEarliestTime, 4);
  put(common, crc, 4);
  put(common, wide ? kAllOnes32 : size, 4);
  put(common, wide ? kAllOnes32 : size, 4);
  put(common, name.size(), 2);

  const auto zip64_field = [&](bool with_offset) {
    std::string field;
    if (!wide && !with_offset) return field;
    put(field, kZip64Tag, 2);
    put(field, (wide ? 16 : 0) + (with_offset ? 8 : 0), 2);
    if (wide) put(field, size, 8);
    if (wide) put(field, size, 8);
    if (with_offset) put(field, start, 8);
    return field;
  };

  std::string local;
  put(local, kLocalSignature, 4);
  local += common;
  put(local, zip64_field(false).size(), 2);
  local += name + zip64_field(false);
  write(local);
  for (const std::span<const std::byte> piece : pieces) out_.write(piece);
  offset_ += size;

  put(directory_, kCentralSignature, 4);
  put(directory_, kMadeByUnix | kZip64Version, 2);
  directory_ += common;
  put(directory_, zip64_field(far).size(), 2);
  put(directory_, 0, 2);  // comment
  put(directory_, 0, 2);  // disk
  put(directory_, 0, 2);  // internal attributes
  put(directory_, kRegularFile, 4);
  put(directory_, capped(start, kAllOnes32), 4);
  directory_ += name + zip64_field(far);
  ++count_;
}

void ZipWriter::finish() {
  const std::uint64_t start = offset_, size = directory_.size();
  std::string end;
  if (count_ >= kAllOnes16 || size >= kAllOnes32 || start >= kAllOnes32) {
    put(end, kZip64EndSignature, 4);
    put(end, kZip64EndSize - 12, 8);
    put(end, kMadeByUnix | kZip64Version, 2);
    put(end, kZip64Version, 2);
    put(end, 0, 8);  // disks
    put(end, count_, 8);
    put(end, count_, 8);
    put(end, size, 8);
    put(end, start, 8);
    put(end, kLocatorSignature, 4);
    put(end, 0, 4);
    put(end, start + size, 8);
    put(end, 1, 4);  // disks in all
  }
  put(end, kEndSignature, 4);
  put(end, 0, 4);  // disks
  put(end, capped(count_, kAllOnes16), 2);
  put(end, capped(count_, kAllOnes16), 2);
  put(end, capped(size, kAllOnes32), 4);
  put(end, capped(start, kAllOnes32), 4);
  put(end, 0, 2);  // comment
  write(directory_);
  write(end);
}

}  // namespace systole::io
