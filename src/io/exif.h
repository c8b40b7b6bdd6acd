#pragma once

// How a camera was held: cameras store pictures as the sensor saw them and say in EXIF how to turn them.

#include <cstddef>
#include <span>

#include "systole/base/literal.h"

namespace systole::io {

// 1 to 8 as EXIF numbers them, of a .jpg or .png file; 1, as it is, where nothing or nothing legal is said.
int exif_orientation(std::span<const std::byte> file);

// A picture [height,width] or [height,width,channels] turned and mirrored as the number says.
Literal upright(const Literal& picture, int orientation);

}  // namespace systole::io
