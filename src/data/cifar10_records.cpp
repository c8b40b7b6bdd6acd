// A file of CIFAR-10's binary version: records of a label and 3072 bytes, red, green and blue planes of 32 by
// 32, which become channels-last pictures here.

#include <fmt/format.h>

#include <string>

#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"

namespace systole::data {

namespace {

constexpr std::int64_t kSide = 32, kPixels = kSide * kSide, kClasses = 10;
constexpr std::size_t kRecord = 1 + 3 * kPixels;

}  // namespace

std::vector<Literal> parse_cifar10(std::span<const std::byte> bytes, std::string_view file) {
  if (bytes.empty() || bytes.size() % kRecord != 0)
    throw Error(ErrorKind::kParse, fmt::format("{}: byte {}", file, bytes.size() / kRecord * kRecord),
                "the file ends in the middle of a record", fmt::format("records of {} bytes", kRecord),
                fmt::format("{} bytes", bytes.size()));
  const std::int64_t count = static_cast<std::int64_t>(bytes.size() / kRecord);
  Literal images = Literal::uninitialized({DType::u8, {count, kSide, kSide, 3}});
  std::vector<std::uint8_t> labels;
  std::byte* out = images.mutable_bytes();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* const record = bytes.data() + static_cast<std::size_t>(i) * kRecord;
    labels.push_back(std::to_integer<std::uint8_t>(record[0]));
    for (std::int64_t pixel = 0; pixel < kPixels; ++pixel)
      for (std::int64_t c = 0; c < 3; ++c) *out++ = record[1 + c * kPixels + pixel];
  }
  return {images, class_numbers(labels, kClasses, std::string(file), 0, kRecord)};
}

}  // namespace systole::data
