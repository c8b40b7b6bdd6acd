// IDX files, MNIST's. Two zero bytes, a byte for the dtype, one for the rank, the dimensions as
// big-endian 32-bit numbers, then the elements, big-endian too.

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "data/set_files.h"
#include "systole/base/error.h"
#include "systole/data/sets.h"

namespace systole::data {

namespace {

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

}  // namespace

std::optional<std::uint64_t> idx_length(std::span<const std::byte> first) {
  constexpr std::size_t kItems[] = {1, 1, 0, 2, 4, 4, 8};  // of the types 8 to 14
  if (first.size() < 4) return std::nullopt;
  const std::size_t type = std::to_integer<std::size_t>(first[2]),
                    rank = std::to_integer<std::size_t>(first[3]);
  if (type < 8 || type > 14 || kItems[type - 8] == 0 || first.size() < 4 + 4 * rank) return std::nullopt;
  std::uint64_t length = kItems[type - 8];
  for (std::size_t i = 0; i < rank; ++i) {
    std::uint64_t dim = 0;
    for (std::size_t b = 0; b < 4; ++b) dim = dim << 8 | std::to_integer<std::uint64_t>(first[4 + 4 * i + b]);
    if (__builtin_mul_overflow(length, dim, &length)) return std::nullopt;  // which parse_idx refuses
  }
  const std::uint64_t header = 4 + 4 * rank;
  return length > UINT64_MAX - header ? std::nullopt : std::optional(length + header);
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

}  // namespace systole::data
