#include "io/exif.h"

#include <cstdint>
#include <cstring>
#include <string_view>

namespace systole::io {

namespace {

// Numbers at places of the file; 0 beyond its end.
struct Bytes {
  std::span<const std::byte> data;
  bool big_endian = true;

  std::uint32_t at(std::size_t i) const {
    return i < data.size() ? std::to_integer<std::uint32_t>(data[i]) : 0;
  }
  std::uint32_t number(std::size_t i, int bytes) const {
    std::uint32_t value = 0;
    for (int k = 0; k < bytes; ++k) {
      const std::uint32_t byte = at(i + static_cast<std::size_t>(k));
      value |= byte << (8 * (big_endian ? bytes - 1 - k : k));
    }
    return value;
  }
  bool holds(std::size_t i, std::string_view text) const {
    return i <= data.size() && data.size() - i >= text.size() &&
           std::memcmp(data.data() + i, text.data(), text.size()) == 0;
  }
};

// Of the TIFF header and first directory that EXIF is.
int orientation_of(std::span<const std::byte> exif) {
  Bytes in{exif};
  if (in.holds(0, "II"))
    in.big_endian = false;
  else if (!in.holds(0, "MM"))
    return 1;
  if (in.number(2, 2) != 42) return 1;
  const std::size_t directory = in.number(4, 4);
  const std::uint32_t entries = in.number(directory, 2);
  constexpr std::uint32_t kOrientation = 0x0112, kShort = 3;
  for (std::size_t e = 0; e < entries; ++e) {
    const std::size_t entry = directory + 2 + 12 * e;
    if (entry + 12 > exif.size()) break;
    if (in.number(entry, 2) != kOrientation) continue;
    const std::uint32_t value = in.number(entry + 8, 2);
    return in.number(entry + 2, 2) == kShort && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace

int exif_orientation(std::span<const std::byte> file) {
  const Bytes in{file};
  if (in.holds(0, "\xff\xd8")) {
    constexpr std::string_view kExif{"Exif\0\0", 6};
    // Segments up to the pixels: FF, a marker, a length that counts itself.
    for (std::size_t at = 2; at + 4 <= file.size() && in.at(at) == 0xff;) {
      const std::uint32_t marker = in.at(at + 1);
      if (marker == 0xff) {  // a fill byte
        ++at;
        continue;
      }
      const std::uint32_t length = in.number(at + 2, 2);
      if (marker == 0xda || marker == 0xd9 || length < 2) break;
      if (marker == 0xe1 && in.holds(at + 4, kExif) && length >= 8 && at + 2 + length <= file.size())
        return orientation_of(file.subspan(at + 10, length - 8));
      at += 2 + length;
    }
  } else if (in.holds(0, "\x89PNG\r\n\x1a\n")) {
    for (std::size_t at = 8; at + 12 <= file.size();) {
      const std::size_t length = in.number(at, 4);
      if (length > file.size() - at - 12) break;
      if (in.holds(at + 4, "eXIf")) return orientation_of(file.subspan(at + 8, length));
      at += 12 + length;
    }
  }
  return 1;
}

Literal upright(const Literal& picture, int orientation) {
  if (orientation <= 1 || orientation > 8) return picture;
  // 2: mirrored, 3: upside down, 4: both; 5 to 8: with rows and columns exchanged.
  const bool exchanged = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Shape shape = picture.shape();
  const std::int64_t height = shape[0].value(), width = shape[1].value();
  if (exchanged) {
    shape[0] = width;
    shape[1] = height;
  }
  Literal result = Literal::uninitialized({picture.dtype(), shape});
  const std::size_t pixel = picture.byte_size() / static_cast<std::size_t>(height * width);
  const std::byte* const in = picture.as_bytes().data();
  std::byte* out = result.mutable_bytes();
  for (std::int64_t y = 0; y < shape[0].value(); ++y)
    for (std::int64_t x = 0; x < shape[1].value(); ++x, out += pixel) {
      std::int64_t row = exchanged ? x : y, column = exchanged ? y : x;
      if (from_below) row = height - 1 - row;
      if (from_right) column = width - 1 - column;
      std::memcpy(out, in + static_cast<std::size_t>(row * width + column) * pixel, pixel);
    }
  return result;
}

}  // namespace systole::io
