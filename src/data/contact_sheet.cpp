// Predictions to look at: every picture enlarged, with what was predicted written below it. Captions use a
// font of 3 by 5 dots, since a library of text drawing would be far larger than the digits it draws.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "systole/base/error.h"
#include "systole/data.h"

namespace systole::data {

namespace {

constexpr std::int64_t kZoom = 2, kMargin = 4, kDotsWide = 3, kDotsHigh = 5;

struct Colour {
  std::uint8_t red, green, blue;
};
constexpr Colour kPaper{32, 34, 40}, kRight{150, 160, 170}, kWrong{255, 70, 60}, kTruth{110, 220, 120};

// Rows from the top, the left dot in the highest of three bits.
constexpr std::array<std::uint8_t, kDotsHigh> kFont[] = {
    {7, 5, 5, 5, 7}, {2, 6, 2, 2, 7}, {7, 1, 7, 4, 7}, {7, 1, 7, 1, 7}, {5, 5, 7, 1, 1},
    {7, 4, 7, 1, 7}, {7, 4, 7, 5, 7}, {7, 1, 2, 2, 2}, {7, 5, 7, 5, 7}, {7, 5, 7, 1, 7},
};

class Canvas {
 public:
  Canvas(std::int64_t height, std::int64_t width)
      : width_(width),
        picture_(Literal::uninitialized({DType::u8, {height, width, 3}})),
        bytes_(picture_.mutable_values<std::uint8_t>()) {
    fill(0, 0, height, width, kPaper);
  }

  void fill(std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width, Colour colour) {
    for (std::int64_t y = top; y < top + height; ++y)
      for (std::int64_t x = left; x < left + width; ++x) {
        const std::size_t at = static_cast<std::size_t>(3 * (y * width_ + x));
        bytes_[at] = colour.red;
        bytes_[at + 1] = colour.green;
        bytes_[at + 2] = colour.blue;
      }
  }

  void digit(std::int64_t top, std::int64_t left, std::int32_t value, Colour colour) {
    for (std::int64_t y = 0; y < kDotsHigh; ++y)
      for (std::int64_t x = 0; x < kDotsWide; ++x)
        if (kFont[value][static_cast<std::size_t>(y)] >> (kDotsWide - 1 - x) & 1)
          fill(top + y * kZoom, left + x * kZoom, kZoom, kZoom, colour);
  }

  Literal finish() { return std::move(picture_); }

 private:
  std::int64_t width_;
  Literal picture_;
  std::span<std::uint8_t> bytes_;
};

void check(const Literal& images, const Literal& predicted, const Literal& labels, std::int64_t columns) {
  const auto refuse = [](ErrorKind kind, const char* what, const char* expected, std::string got) {
    throw Error(kind, "data::contact_sheet", what, expected, std::move(got));
  };
  if (images.dtype() != DType::u8 || images.rank() != 3)
    refuse(ErrorKind::kShape, "wrong images", "u8[count,height,width]", images.type().to_string());
  const Type wanted{DType::i32, {images.shape()[0]}};
  for (const Literal* digits : {&predicted, &labels}) {
    if (digits->type() != wanted)
      refuse(ErrorKind::kShape, "one digit per image is needed", "i32[count]", digits->type().to_string());
    for (const std::int32_t digit : digits->values<std::int32_t>())
      if (digit < 0 || digit > 9)
        refuse(ErrorKind::kInvalidArgument, "not a digit", "0 to 9", std::to_string(digit));
  }
  if (images.count() == 0 || columns < 1)
    refuse(ErrorKind::kInvalidArgument, "nothing to show", "at least one image and one column",
           images.type().to_string());
}

}  // namespace

Literal contact_sheet(const Literal& images, const Literal& predicted, const Literal& labels,
                      std::int64_t columns) {
  check(images, predicted, labels, columns);
  const Ints dims = images.dims();
  const std::int64_t count = dims[0], across = std::min(columns, count), down = (count + across - 1) / across;
  const std::int64_t picture_height = dims[1] * kZoom, picture_width = dims[2] * kZoom;
  const std::int64_t cell_height = picture_height + kDotsHigh * kZoom + 3 * kMargin;
  const std::int64_t cell_width = picture_width + 2 * kMargin;
  Canvas canvas(down * cell_height, across * cell_width);
  const std::span<const std::uint8_t> pixels = images.values<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t top = i / across * cell_height + kMargin, left = i % across * cell_width + kMargin;
    const std::int32_t guess = predicted.values<std::int32_t>()[static_cast<std::size_t>(i)];
    const std::int32_t truth = labels.values<std::int32_t>()[static_cast<std::size_t>(i)];
    if (guess != truth)
      canvas.fill(top - kZoom, left - kZoom, picture_height + 2 * kZoom, picture_width + 2 * kZoom, kWrong);
    for (std::int64_t y = 0; y < dims[1]; ++y)
      for (std::int64_t x = 0; x < dims[2]; ++x) {
        const std::uint8_t grey = pixels[static_cast<std::size_t>((i * dims[1] + y) * dims[2] + x)];
        canvas.fill(top + y * kZoom, left + x * kZoom, kZoom, kZoom, {grey, grey, grey});
      }
    const std::int64_t caption = top + picture_height + kMargin;
    canvas.digit(caption, left, guess, guess == truth ? kRight : kWrong);
    if (guess != truth) canvas.digit(caption, left + (kDotsWide + 2) * kZoom, truth, kTruth);
  }
  return canvas.finish();
}

}  // namespace systole::data
