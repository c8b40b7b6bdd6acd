#pragma once

// Pictures from .png and .jpg files, told by their first bytes: u8[height,width] in grey or
// u8[height,width,3]. Palettes, 16 bits and printing colours (CMYK) are brought to that, transparency is left
// out; PictureMode keeps the numbers of a mask or a depth map. The size is read first and compared with the
// limit, so that a picture of a few bytes cannot take gigabytes: kLimit. Damage is kParse; a format this
// build has no library for is kUnsupported.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "systole/base/export.h"
#include "systole/base/literal.h"

namespace systole::io {

enum class PictureMode {
  colours,  // u8, as it is seen
  index,    // u8[height,width]: the numbers of a palette, or of grey of up to 8 bits, as they are stored
  gray16,   // u16[height,width]: grey of up to 16 bits as it is stored
};

struct PictureOptions {
  int channels = 0;                         // 1: grey; 3: colours; 0: as the file has it
  std::int64_t largest_pixels = 1 << 26;    // 64 Mi, of height × width
  PictureMode mode = PictureMode::colours;  // the others are of .png files; kUnsupported for one without
  bool upright = true;                      // turned as EXIF says that the camera was held
};

SYSTOLE_API Literal load_picture(const std::filesystem::path& file, const PictureOptions& options = {});
SYSTOLE_API Literal parse_picture(std::span<const std::byte> bytes, std::string_view file,
                                  const PictureOptions& options = {});

}  // namespace systole::io
