// Pictures read from .png (libpng) and .jpg (libturbojpeg). libpng jumps out of its functions on errors: the
// functions between setjmp and the jump own nothing.

#include "systole/io/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/exif.h"
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

// PIL's weights, in 1/65536.
[[maybe_unused]] Literal grey_of(const Literal& colours) {
  Literal made = uninitialized(colours.shape()[0].value(), colours.shape()[1].value(), true);
  const std::span<const std::uint8_t> in = colours.values<std::uint8_t>();
  const std::span<std::uint8_t> out = made.mutable_values<std::uint8_t>();
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::uint8_t>(
        (in[3 * i] * 19595u + in[3 * i + 1] * 38470u + in[3 * i + 2] * 7471u + 0x8000u) >> 16);
  return made;
}

#ifdef SYSTOLE_HAVE_PNG

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

// The header; false when libpng failed.
bool png_start(png_structp png, png_infop info, std::uint64_t* stored_row) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_user_limits(png, kLargestSide, kLargestSide);
  png_read_info(png, info);
  *stored_row = png_get_rowbytes(png, info);
  return true;
}

// What is to be done to the pixels.
bool png_prepare(png_structp png, png_infop info, PictureMode mode) {
  if (setjmp(png_jmpbuf(png))) return false;
  if (mode == PictureMode::colours) {
    png_set_expand(png);  // palettes, few bits, transparent colours
    png_set_scale_16(png);
  } else {
    png_set_packing(png);  // 1, 2 and 4 bits as bytes of the same numbers
    if constexpr (std::endian::native == std::endian::little) png_set_swap(png);
  }
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

// The numbers of a mask must be in the file: colours have none.
void check_mode(png_structp png, png_infop info, PictureMode mode, std::string_view file) {
  if (mode == PictureMode::colours) return;
  const int type = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
  const bool palette = type == PNG_COLOR_TYPE_PALETTE;
  const bool grey = type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA;
  const char* const kind = palette ? "a palette" : grey ? "grey" : "colours";
  if (mode == PictureMode::index && !(palette || (grey && depth <= 8)))
    throw Error(ErrorKind::kUnsupported, std::string(file), "mode index: the pixels are no small numbers",
                "a palette, or grey of up to 8 bits (mode gray16 reads 16)",
                fmt::format("{} of {} bits", kind, depth));
  if (mode == PictureMode::gray16 && !grey)
    throw Error(ErrorKind::kUnsupported, std::string(file), "mode gray16: the pixels are no grey",
                "grey (mode index reads the numbers of a palette)", kind);
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
  check_mode(png, info, options.mode, file);
  if (!png_prepare(png, info, options.mode)) throw damaged();
  const std::int64_t height = png_get_image_height(png, info), width = png_get_image_width(png, info);
  check_size(height, width, options, file);
  const std::int64_t channels = png_get_channels(png, info);
  const std::size_t row = png_get_rowbytes(png, info);
  const bool wide = png_get_bit_depth(png, info) == 16;  // of gray16 alone
  if ((channels != 1 && channels != 3) || row != static_cast<std::size_t>(width * channels * (wide ? 2 : 1)))
    throw Error(ErrorKind::kUnsupported, std::string(file), "pixels of a strange form", "1 or 3 channels",
                fmt::format("{}", channels));
  // Deflate makes at most 1032 bytes of one: what the file cannot hold is refused before memory is asked for.
  if (static_cast<std::uint64_t>(height) * stored_row / 1032 > bytes.size())
    throw Error(ErrorKind::kParse, std::string(file), "the file is too short for its size",
                fmt::format("the pixels of {}×{}", height, width), fmt::format("{} bytes", bytes.size()));
  Literal picture = wide ? Literal::uninitialized({DType::u16, {height, width}})
                         : uninitialized(height, width, channels == 1);
  std::byte* const data = picture.mutable_bytes();
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < height; ++y)
    rows.push_back(reinterpret_cast<png_bytep>(data) + static_cast<std::size_t>(y) * row);
  if (!png_pixels(png, rows.data())) throw damaged();
  if (options.mode == PictureMode::gray16 && !wide) {
    Literal numbers = Literal::uninitialized({DType::u16, {height, width}});
    std::ranges::copy(picture.values<std::uint8_t>(), numbers.mutable_values<std::uint16_t>().begin());
    return numbers;
  }
  if (options.mode != PictureMode::colours) return picture;
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

// Printing colours as Pillow shows them: files have 255 where there is no ink, as Adobe began it.
Literal colours_of(const Literal& inks) {
  Literal made = uninitialized(inks.shape()[0].value(), inks.shape()[1].value(), false);
  const std::span<const std::uint8_t> in = inks.values<std::uint8_t>();
  const std::span<std::uint8_t> out = made.mutable_values<std::uint8_t>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t pixel = i / 3;
    const unsigned ink = 255u - in[4 * pixel + i % 3], white = in[4 * pixel + 3];
    const unsigned product = ink * white + 128;  // divided by 255, rounded
    out[i] = static_cast<std::uint8_t>(white - ((product + (product >> 8)) >> 8));
  }
  return made;
}

bool has_end_mark(std::span<const std::byte> file) {
  while (!file.empty() && file.back() == std::byte{0}) file = file.first(file.size() - 1);
  return file.size() >= 2 && file[file.size() - 2] == std::byte{0xff} && file.back() == std::byte{0xd9};
}

// Of what a decoder warned of last: bytes too many, and before which marker. Before a restart marker they are
// refused: the decoder goes on there whatever was lost before it, and bytes that it did not need are most
// often the rest of damaged pixels.
enum class Junk { none, at_end, between_scans };
Junk junk_in(tjhandle decoder) {
  const std::string_view message = tjGetErrorStr2(decoder);
  if (tjGetErrorCode(decoder) != TJERR_WARNING || message.find("extraneous bytes") == message.npos)
    return Junk::none;
  if (message.ends_with("0xd9")) return Junk::at_end;
  return message.ends_with("0xda") || message.ends_with("0xc4") || message.ends_with("0xdb")
             ? Junk::between_scans
             : Junk::none;
}

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
  if (options.mode != PictureMode::colours)
    throw Error(ErrorKind::kUnsupported, std::string(file), "a .jpg keeps no exact numbers",
                "a .png file for mode index or gray16");
  const bool printing = space == TJCS_CMYK || space == TJCS_YCCK;
  const bool grey = options.channels == 1 || (options.channels == 0 && space == TJCS_GRAY);
  Literal picture =
      printing ? Literal::uninitialized({DType::u8, {height, width, 4}}) : uninitialized(height, width, grey);
  const auto decode = [&](int flags) {
    return tjDecompress2(decoder, data, bytes.size(),
                         reinterpret_cast<unsigned char*>(picture.mutable_bytes()), width, 0, height,
                         printing ? TJPF_CMYK
                         : grey   ? TJPF_GRAY
                                  : TJPF_RGB,
                         flags | TJFLAG_LIMITSCANS) == 0;
  };
  // What is damaged in the middle is an error here, not a grey area; a picture of endless scans is cut short.
  // At bytes too many before the end mark all pixels are there; before another scan's marker there are more
  // to come, in a file that is whole.
  if (!decode(TJFLAG_STOPONWARNING)) {
    const Junk junk = junk_in(decoder);
    const bool whole = junk == Junk::at_end || (junk == Junk::between_scans && has_end_mark(bytes) &&
                                                (decode(0) || junk_in(decoder) != Junk::none));
    if (!whole) throw damaged();
  }
  if (!printing) return picture;
  Literal colours = colours_of(picture);
  return options.channels == 1 ? grey_of(colours) : colours;
}

#endif

}  // namespace

namespace {

// A JPEG without bytes that belong to nothing between the segments of its header, which some cameras write;
// empty where there are none.
std::vector<std::byte> without_junk(std::span<const std::byte> file) {
  const auto at = [&](std::size_t i) { return i < file.size() ? std::to_integer<unsigned>(file[i]) : 0u; };
  std::vector<std::byte> clean;
  if (at(0) != 0xff || at(1) != 0xd8) return clean;
  std::size_t kept = 0;  // of the file, up to here
  for (std::size_t i = 2; i + 4 <= file.size();) {
    std::size_t marker = i;  // where the next one begins: FF and neither 0 nor FF
    while (marker + 1 < file.size() && !(at(marker) == 0xff && at(marker + 1) != 0 && at(marker + 1) != 0xff))
      ++marker;
    const bool fill = std::all_of(file.begin() + static_cast<std::ptrdiff_t>(i),
                                  file.begin() + static_cast<std::ptrdiff_t>(marker),
                                  [](std::byte byte) { return byte == std::byte{0xff}; });
    if (!fill) {
      clean.insert(clean.end(), file.begin() + static_cast<std::ptrdiff_t>(kept),
                   file.begin() + static_cast<std::ptrdiff_t>(i));
      kept = marker;
    }
    const unsigned kind = at(marker + 1);
    if (kind == 0xda || kind == 0xd9 || kind == 0x01 || (kind >= 0xd0 && kind <= 0xd7)) break;
    i = marker + 2 + (at(marker + 2) << 8 | at(marker + 3));
  }
  if (kept > 0) clean.insert(clean.end(), file.begin() + static_cast<std::ptrdiff_t>(kept), file.end());
  return clean;
}

Literal as_stored(std::span<const std::byte> bytes, std::string_view file, const PictureOptions& options) {
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

}  // namespace

Literal parse_picture(std::span<const std::byte> bytes, std::string_view file,
                      const PictureOptions& options) {
  const std::vector<std::byte> clean = without_junk(bytes);
  if (!clean.empty()) bytes = clean;
  const Literal picture = as_stored(bytes, file, options);
  return options.upright ? upright(picture, exif_orientation(bytes)) : picture;
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
