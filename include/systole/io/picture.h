#pragma once

// Pictures from .png and .jpg files, told by their first bytes: u8[height,width] in grey or
// u8[height,width,3]. Palettes and 16 bits are brought to that, transparency is left out. The size is read
// first and compared with the limit, so that a picture of a few bytes cannot take gigabytes: kLimit.
// Damage is kParse; a format this build has no library for is kUnsupported.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "systole/base/export.h"
#include "systole/base/literal.h"

namespace systole::io {

struct PictureOptions {
  int channels = 0;                       // 1: grey; 3: colours; 0: as the file has it
  std::int64_t largest_pixels = 1 << 26;  // 64 Mi, of height × width
};

SYSTOLE_API Literal load_picture(const std::filesystem::path& file, const PictureOptions& options = {});
SYSTOLE_API Literal parse_picture(std::span<const std::byte> bytes, std::string_view file,
                                  const PictureOptions& options = {});

}  // namespace systole::io
