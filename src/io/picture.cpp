// Pictures read from .png (libpng) and .jpg (libturbojpeg). libpng jumps out of its functions on errors: the
// functions between setjmp and the jump own nothing.

#include "systole/io/picture.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/file.h"
#include "systole/base/error.h"

#ifdef SYSTOLE_HAVE_PNG
#include <png.h>

#include <csetjmp>
#endif
#ifdef SYSTOLE_HAVE_JPEG
#include <turbojpeg.h>
#endif

namespace systole::io {

namespace {

constexpr std::int64_t kLargestSide = 1'000'000;

[[maybe_unused]] void check_size(std::int64_t height, std::int64_t width, const PictureOptions& options,
                                 std::string_view file) {
  if (height < 1 || width < 1) throw Error(ErrorKind::kParse, std::string(file), "an empty picture");
  if (height > kLargestSide || width > kLargestSide || height * width > options.largest_pixels)
    throw Error(ErrorKind::kLimit, std::string(file), "the picture is too large",
                fmt::format("at most {} pixels", options.largest_pixels),
                fmt::format("{}×{}", height, width));
}

[[maybe_unused]] Literal uninitialized(std::int64_t height, std::int64_t width, bool grey) {
  return Literal::uninitialized({DType::u8, grey ? Shape{height, width} : Shape{height, width, 3}});
}

#ifdef SYSTOLE_HAVE_PNG

// PIL's weights, in 1/65536.
Literal grey_of(const Literal& colours) {
  Literal made = uninitialized(colours.shape()[0].value(), colours.shape()[1].value(), true);
  const std::span<const std::uint8_t> in = colours.values<std::uint8_t>();
  const std::span<std::uint8_t> out = made.mutable_values<std::uint8_t>();
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint8_t>(
        (in[3 * i] * 19595u + in[3 * i + 1] * 38470u + in[3 * i + 2] * 7471u + 0x8000u) >> 16);
  return made;
}

struct PngInput {
  const std::byte* bytes;
  std::size_t size, at = 0;
  char message[128] = {};
};

void png_read_bytes(png_structp png, png_bytep out, std::size_t count) {
  PngInput& input = *static_cast<PngInput*>(png_get_io_ptr(png));
  if (count > input.size - input.at) png_error(png, "the file ends early");
  std::memcpy(out, input.bytes + input.at, count);
  input.at += count;
}

void png_fail(png_structp png, png_const_charp message) {
  PngInput& input = *static_cast<PngInput*>(png_get_error_ptr(png));
  std::strncpy(input.message, message, sizeof(input.message) - 1);
  png_longjmp(png, 1);
}

void png_ignore(png_structp, png_const_charp) {}

// The header, with what is to be done to the pixels; false when libpng failed.
bool png_start(png_structp png, png_infop info, std::uint64_t* stored_row) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_user_limits(png, kLargestSide, kLargestSide);
  png_read_info(png, info);
  *stored_row = png_get_rowbytes(png, info);
  png_set_expand(png);  // palettes, few bits, transparent colours
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  (void)png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool png_pixels(png_structp png, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

Literal parse_png(std::span<const std::byte> bytes, std::string_view file, const PictureOptions& options) {
  PngInput input{bytes.data(), bytes.size()};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, png_fail, png_ignore);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  struct End {
    png_structp& png;
    png_infop& info;
    ~End() { png_destroy_read_struct(&png, &info, nullptr); }
  } const end{png, info};
  if (info == nullptr) throw Error(ErrorKind::kOutOfMemory, std::string(file), "no memory for libpng");
  const auto damaged = [&]() -> Error {
    return Error(ErrorKind::kParse, fmt::format("{}: byte {}", file, input.at),
                 fmt::format("libpng: {}", input.message));
  };
  png_set_read_fn(png, &input, png_read_bytes);
  std::uint64_t stored_row = 0;
  if (!png_start(png, info, &stored_row)) throw damaged();
  const std::int64_t height = png_get_image_height(png, info), width = png_get_image_width(png, info);
  check_size(height, width, options, file);
  const std::int64_t channels = png_get_channels(png, info);
  const std::size_t row = png_get_rowbytes(png, info);
  if ((channels != 1 && channels != 3) || row != static_cast<std::size_t>(width * channels))
    throw Error(ErrorKind::kUnsupported, std::string(file), "pixels of a strange form", "1 or 3 channels",
                fmt::format("{}", channels));
  // Deflate makes at most 1032 bytes of one: what the file cannot hold is refused before memory is asked for.
  if (static_cast<std::uint64_t>(height) * stored_row / 1032 > bytes.size())
    throw Error(ErrorKind::kParse, std::string(file), "the file is too short for its size",
                fmt::format("the pixels of {}×{}", height, width), fmt::format("{} bytes", bytes.size()));
  Literal picture = uninitialized(height, width, channels == 1);
  std::byte* const data = picture.mutable_bytes();
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < height; ++y)
    rows.push_back(reinterpret_cast<png_bytep>(data) + static_cast<std::size_t>(y) * row);
  if (!png_pixels(png, rows.data())) throw damaged();
  if (channels == 3 && options.channels == 1) return grey_of(picture);
  if (channels == 1 && options.channels == 3) {
    Literal colours = uninitialized(height, width, false);
    const std::span<const std::uint8_t> in = picture.values<std::uint8_t>();
    const std::span<std::uint8_t> out = colours.mutable_values<std::uint8_t>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = in[i / 3];
    return colours;
  }
  return picture;
}

#endif

#ifdef SYSTOLE_HAVE_JPEG

Literal parse_jpeg(std::span<const std::byte> bytes, std::string_view file, const PictureOptions& options) {
  const tjhandle decoder = tjInitDecompress();
  if (decoder == nullptr)
    throw Error(ErrorKind::kOutOfMemory, std::string(file), "no memory for libturbojpeg");
  struct End {
    tjhandle decoder;
    ~End() { tjDestroy(decoder); }
  } const end{decoder};
  const auto damaged = [&]() -> Error {
    return Error(ErrorKind::kParse, std::string(file),
                 fmt::format("libturbojpeg: {}", tjGetErrorStr2(decoder)));
  };
  const unsigned char* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, sampling = 0, space = 0;
  if (tjDecompressHeader3(decoder, data, bytes.size(), &width, &height, &sampling, &space) != 0)
    throw damaged();
  check_size(height, width, options, file);
  if (space == TJCS_CMYK || space == TJCS_YCCK)
    throw Error(ErrorKind::kUnsupported, std::string(file), "a picture in printing colours (CMYK)");
  const bool grey = options.channels == 1 || (options.channels == 0 && space == TJCS_GRAY);
  Literal picture = uninitialized(height, width, grey);
  // What is damaged in the middle is an error here, not a grey area; a picture of endless scans is cut short.
  if (tjDecompress2(decoder, data, bytes.size(), reinterpret_cast<unsigned char*>(picture.mutable_bytes()),
                    width, 0, height, grey ? TJPF_GRAY : TJPF_RGB,
                    TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
    throw damaged();
  return picture;
}

#endif

}  // namespace

Literal parse_picture(std::span<const std::byte> bytes, std::string_view file,
                      const PictureOptions& options) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3)
    throw Error(ErrorKind::kInvalidArgument, std::string(file), "wrong number of channels", "0, 1 or 3",
                fmt::format("{}", options.channels));
  const auto starts_with = [&](std::string_view magic) {
    return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (starts_with("\x89PNG\r\n\x1a\n")) {
#ifdef SYSTOLE_HAVE_PNG
    return parse_png(bytes, file, options);
#else
    throw Error(ErrorKind::kUnsupported, std::string(file), "this build reads no .png: libpng was not found");
#endif
  }
  if (starts_with("\xff\xd8\xff")) {
#ifdef SYSTOLE_HAVE_JPEG
    return parse_jpeg(bytes, file, options);
#else
    throw Error(ErrorKind::kUnsupported, std::string(file),
                "this build reads no .jpg: libturbojpeg was not found");
#endif
  }
  throw Error(ErrorKind::kParse, fmt::format("{}: byte 0", file), "not a picture", "a .png or .jpg file");
}

Literal load_picture(const std::filesystem::path& file, const PictureOptions& options) {
  const std::unique_ptr<ByteSource> source = open_file(file);
  constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30;
  if (source->size() > kLargestFile)
    throw Error(ErrorKind::kLimit, file.string(), "the file is too large",
                fmt::format("at most {} bytes", kLargestFile), fmt::format("{}", source->size()));
  std::vector<std::byte> bytes(static_cast<std::size_t>(source->size()));
  source->read(0, bytes);
  return parse_picture(bytes, file.string(), options);
}

}  // namespace systole::io
