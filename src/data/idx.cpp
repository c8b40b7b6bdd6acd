// MNIST and its kin: IDX files. Two zero bytes, a byte for the dtype, one for the rank, the dimensions as
// big-endian 32-bit numbers, then the elements, big-endian too.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "data/gather.h"
#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data.h"
#include "systole/data/sets.h"
#include "systole/io/archive.h"

namespace systole::data {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view file, std::size_t at, std::string message, std::string expected = {},
                       std::string got = {}) {
  throw Error(ErrorKind::kParse, fmt::format("{}: byte {}", file, at), std::move(message),
              std::move(expected), std::move(got));
}

DType dtype_at(std::byte code, std::string_view file) {
  switch (std::to_integer<int>(code)) {
    case 0x08: return DType::u8;
    case 0x09: return DType::i8;
    case 0x0b: return DType::i16;
    case 0x0c: return DType::i32;
    case 0x0d: return DType::f32;
    case 0x0e: return DType::f64;
    default:
      fail(file, 2, "unknown type of elements", "8, 9, 11, 12, 13 or 14", fmt::format("{}", int(code)));
  }
}

Source part(const fs::path& folder, const std::string& prefix, const MnistOptions& options,
            const std::string& name, const std::vector<std::string>& classes) {
  const fs::path image_file = found_in(folder, prefix + "-images-idx3-ubyte");
  const fs::path label_file = found_in(folder, prefix + "-labels-idx1-ubyte");
  Literal images = parse_idx(io::read_unpacked(image_file), image_file.string());
  const Literal labels = parse_idx(io::read_unpacked(label_file), label_file.string());
  if (images.dtype() != DType::u8 || images.rank() != 3 || images.shape()[1] != Dim(28) ||
      images.shape()[2] != Dim(28))
    throw Error(ErrorKind::kParse, image_file.string(), "not MNIST's pictures", "u8[count,28,28]",
                images.type().to_string());
  if (labels.type() != Type{DType::u8, {images.shape()[0]}})
    throw Error(ErrorKind::kParse, label_file.string(), "not one label per picture",
                Type{DType::u8, {images.shape()[0]}}.to_string(), labels.type().to_string());
  const Literal numbers =
      class_numbers(labels.values<std::uint8_t>(), std::ssize(classes), label_file.string(), 8, 1);
  if (options.channel) images = images.reshaped({images.shape()[0], 28, 28, 1});
  return arrays({images, numbers}).named(name, {}, classes);
}

TrainTest both(const fs::path& folder, const MnistOptions& options, const std::string& name,
               const std::vector<std::string>& classes) {
  return {part(folder, "train", options, name, classes),
          part(folder, "t10k", options, name + " test", classes)};
}

}  // namespace

std::vector<std::string> digit_names() { return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; }

fs::path found_in(const fs::path& folder, const std::string& name) {
  std::error_code code;
  for (const char* suffix : {"", ".gz", ".xz"})
    if (fs::path file = folder / (name + suffix); fs::is_regular_file(file, code)) return file;
  // Some keep the dot that the files had in an old archive.
  if (const std::size_t dash = name.rfind("-idx"); dash != std::string::npos) {
    std::string dotted = name;
    dotted[dash] = '.';
    if (fs::path file = folder / dotted; fs::is_regular_file(file, code)) return file;
  }
  throw Error(ErrorKind::kNotFound, folder.string(), "a file is missing",
              fmt::format("{0}, {0}.gz or {0}.xz", name), fs::is_directory(folder, code) ? "" : "no folder");
}

Literal class_numbers(std::span<const std::uint8_t> labels, std::int64_t classes, const std::string& file,
                      std::uint64_t offset, std::uint64_t step) {
  Literal numbers = Literal::uninitialized({DType::i32, {std::ssize(labels)}});
  const std::span<std::int32_t> out = numbers.mutable_values<std::int32_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes)
      throw Error(ErrorKind::kParse, fmt::format("{}: byte {}: sample {}", file, offset + i * step, i),
                  "there is no such class", fmt::format("0 to {}", classes - 1),
                  fmt::format("{}", labels[i]));
    out[i] = labels[i];
  }
  return numbers;
}

Literal parse_idx(std::span<const std::byte> bytes, std::string_view file) {
  if (bytes.size() < 4 || bytes[0] != std::byte{0} || bytes[1] != std::byte{0})
    fail(file, 0, "not an IDX file", "two zero bytes, a type and a rank");
  const DType dtype = dtype_at(bytes[2], file);
  const std::size_t rank = std::to_integer<std::size_t>(bytes[3]);
  if (rank > static_cast<std::size_t>(kMaxRank))
    fail(file, 3, "too many axes", "at most 32", fmt::format("{}", rank));
  const std::size_t header = 4 + 4 * rank;
  if (bytes.size() < header)
    fail(file, 4, "the file ends in its header", fmt::format("{} bytes", header),
         fmt::format("{}", bytes.size()));
  Shape shape;
  const std::uint64_t there = bytes.size() - header, item = size_of(dtype);
  std::uint64_t wanted = item;
  for (std::size_t i = 0; i < rank; ++i) {
    std::uint64_t dim = 0;
    for (std::size_t b = 0; b < 4; ++b) dim = dim << 8 | std::to_integer<std::uint64_t>(bytes[4 + 4 * i + b]);
    shape.push_back(static_cast<std::int64_t>(dim));
    if (__builtin_mul_overflow(wanted, dim, &wanted))
      fail(file, 4 + 4 * i, "dimensions that overflow", "what the file holds", shape.to_string());
  }
  if (wanted != there)
    fail(file, 4, "the dimensions do not agree with the file's length", fmt::format("{} bytes", there),
         fmt::format("{} bytes for {}", wanted, Type{dtype, shape}.to_string()));
  Literal value = Literal::copy_of({dtype, shape}, bytes.subspan(header));
  if (item > 1) {
    std::byte* const data = value.mutable_bytes();
    for (std::size_t at = 0; at < there; at += item) std::reverse(data + at, data + at + item);
  }
  return value;
}

TrainTest mnist(const fs::path& folder, const MnistOptions& options) {
  return both(folder, options, "mnist", digit_names());
}

TrainTest fashion_mnist(const fs::path& folder, const MnistOptions& options) {
  return both(folder, options, "fashion-mnist",
              {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
               "Ankle boot"});
}

TrainTest embedded_digits(std::int64_t train, std::int64_t test) {
  const auto made = [](std::int64_t count, std::uint64_t seed, const char* name) {
    const Digits set = digits(count, seed);
    return arrays(set.images, set.labels).named(name, {}, digit_names());
  };
  return {made(train, 1, "digits"), made(test, 2, "digits test")};
}

}  // namespace systole::data
