#include "io/protobuf.h"

#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "systole/base/error.h"

namespace systole::io::protobuf {

namespace {

static_assert(std::endian::native == std::endian::little, "fixed fields are little-endian");

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

}  // namespace

void Writer::tag(int field, int wire) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<unsigned>(wire));
}

void Writer::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
  bytes_.push_back(static_cast<char>(value));
}

void Writer::integer(int field, std::int64_t value) {
  unsigned_integer(field, static_cast<std::uint64_t>(value));
}

void Writer::unsigned_integer(int field, std::uint64_t value) {
  tag(field, 0);
  varint(value);
}

void Writer::float32(int field, float value) {
  tag(field, 5);
  put(bytes_, value);
}

void Writer::float64(int field, double value) {
  tag(field, 1);
  put(bytes_, value);
}

void Writer::text(int field, std::string_view value) {
  tag(field, 2);
  varint(value.size());
  bytes_.append(value);
}

void Writer::bytes(int field, std::span<const std::byte> value) {
  text(field, {reinterpret_cast<const char*>(value.data()), value.size()});
}

void Writer::packed(int field, std::span<const double> values) { bytes(field, std::as_bytes(values)); }
void Writer::packed(int field, std::span<const float> values) { bytes(field, std::as_bytes(values)); }

void Writer::packed(int field, std::span<const std::int64_t> values) {
  std::size_t size = 0;
  for (const std::int64_t v : values) size += varint_size(static_cast<std::uint64_t>(v));
  tag(field, 2);
  varint(size);
  for (const std::int64_t v : values) varint(static_cast<std::uint64_t>(v));
}

float Field::float32() const { return std::bit_cast<float>(static_cast<std::uint32_t>(value)); }
double Field::float64() const { return std::bit_cast<double>(value); }

void Reader::fail(std::uint64_t offset, std::string message) const {
  throw Error(ErrorKind::kParse, fmt::format("{}: byte {}", file_, offset), std::move(message));
}

std::uint64_t Reader::varint() {
  std::uint64_t value = 0;
  const std::size_t start = at_;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == bytes_.size()) fail(offset_ + start, "the message ends within a number");
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail(offset_ + start, "a number of more than 64 bits");
}

std::uint64_t Reader::fixed(std::size_t size) {
  if (bytes_.size() - at_ < size) fail(offset_ + at_, "the message ends within a number");
  std::uint64_t value = 0;
  std::memcpy(&value, bytes_.data() + at_, size);
  at_ += size;
  return value;
}

bool Reader::next(Field& field) {
  if (at_ == bytes_.size()) return false;
  const std::uint64_t start = offset_ + at_, tag = varint(), number = tag >> 3;
  if (number == 0 || number > 0x1fffffff) fail(start, fmt::format("no field has the number {}", number));
  field = {.number = static_cast<int>(number), .wire = static_cast<Wire>(tag & 7), .bytes = {}};
  field.offset = offset_ + at_;
  switch (tag & 7) {
    case 0: field.value = varint(); return true;
    case 1: field.value = fixed(8); return true;
    case 5: field.value = fixed(4); return true;
    case 2: {
      const std::uint64_t size = varint();
      if (size > bytes_.size() - at_)
        fail(start, fmt::format("a field of {} bytes where {} are left", size, bytes_.size() - at_));
      field.offset = offset_ + at_;
      field.bytes = bytes_.substr(at_, size);
      at_ += size;
      return true;
    }
    default: fail(start, fmt::format("a field of wire type {}", tag & 7));
  }
}

std::string_view Reader::checked(const Field& field, const Reader& reader) {
  if (field.wire != Wire::bytes)
    reader.fail(field.offset, fmt::format("field {} is a number, not text or a message", field.number));
  return field.bytes;
}

void Reader::append(const Field& field, std::vector<std::int64_t>& out) const {
  if (field.wire == Wire::varint) {
    out.push_back(field.integer());
    return;
  }
  Reader inner(field, *this);
  while (inner.at_ < inner.bytes_.size()) out.push_back(static_cast<std::int64_t>(inner.varint()));
}

void Reader::append(const Field& field, std::vector<float>& out) const {
  if (field.wire == Wire::fixed32) {
    out.push_back(field.float32());
    return;
  }
  Reader inner(field, *this);
  while (inner.at_ < inner.bytes_.size())
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(inner.fixed(4))));
}

void Reader::append(const Field& field, std::vector<double>& out) const {
  if (field.wire == Wire::fixed64) {
    out.push_back(field.float64());
    return;
  }
  Reader inner(field, *this);
  while (inner.at_ < inner.bytes_.size()) out.push_back(std::bit_cast<double>(inner.fixed(8)));
}

}  // namespace systole::io::protobuf
