// Pictures as .png files, by libpng's simple interface: it reports by return value, so no jump crosses our
// frames. The file is made in memory and then written as a whole.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "systole/base/error.h"
#include "systole/io.h"

#ifdef SYSTOLE_HAVE_PNG
#include <png.h>
#endif

namespace systole::io {

namespace {

#ifdef SYSTOLE_HAVE_PNG
std::vector<std::byte> encoded(const Literal& picture, const std::string& file) {
  const Ints dims = picture.dims();
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(dims[0]);
  image.width = static_cast<png_uint_32>(dims[1]);
  image.format = dims.size() == 2 || dims[2] == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> bytes(size);
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.bytes(), 0, nullptr) == 0)
    throw Error(ErrorKind::kIo, file, std::string("libpng: ") + image.message);
  bytes.resize(size);
  return bytes;
}
#else
std::vector<std::byte> encoded(const Literal&, const std::string& file) {
  throw Error(ErrorKind::kUnsupported, file, "this build writes no pictures: libpng was not found");
}
#endif

std::vector<std::byte> checked(const Literal& picture, const std::string& file) {
  const Shape& shape = picture.shape();
  const bool fits = picture.dtype() == DType::u8 && picture.count() > 0 &&
                    (shape.rank() == 2 || (shape.rank() == 3 && (shape[2] == Dim(1) || shape[2] == Dim(3))));
  constexpr std::int64_t kLargestSide = 1'000'000;  // libpng's own limit
  if (!fits || shape[0].value() > kLargestSide || shape[1].value() > kLargestSide)
    throw Error(ErrorKind::kShape, file, "not a picture",
                "u8[height,width], u8[height,width,1] or u8[height,width,3], sides of 1 to 1000000",
                picture.type().to_string());
  return encoded(picture, file);
}

}  // namespace

void save_png(const std::filesystem::path& file, const Literal& picture) {
  write_file(file, checked(picture, file.string()));
}

std::vector<std::byte> png_bytes(const Literal& picture) { return checked(picture, "png"); }

}  // namespace systole::io
