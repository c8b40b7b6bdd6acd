#pragma once

// Protocol buffers on the wire, without their compiler: messages are written and read field by field, by the
// numbers that their .proto files give. Enough for event files and ONNX.

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace systole::io::protobuf {

// A message under construction. Fields may come in any order; one that is repeated is written again.
class Writer {
 public:
  void integer(int field, std::int64_t value);  // int32, int64, enums; negative ones take ten bytes
  void unsigned_integer(int field, std::uint64_t value);
  void boolean(int field, bool value) { unsigned_integer(field, value ? 1 : 0); }
  void float32(int field, float value);
  void float64(int field, double value);
  void text(int field, std::string_view value);  // strings, bytes
  void bytes(int field, std::span<const std::byte> value);
  void message(int field, const Writer& value) { text(field, value.bytes_); }
  void packed(int field, std::span<const double> values);
  void packed(int field, std::span<const float> values);
  void packed(int field, std::span<const std::int64_t> values);

  const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, int wire);
  void varint(std::uint64_t value);

  std::string bytes_;
};

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  int number = 0;
  Wire wire = Wire::varint;
  std::uint64_t value = 0;  // unless bytes
  std::string_view bytes;
  std::uint64_t offset = 0;  // of the bytes or the value in the file

  std::int64_t integer() const { return static_cast<std::int64_t>(value); }
  float float32() const;
  double float64() const;
};

// The fields of a message, in file order. Borrows the bytes; `file` and `offset` are for messages. Throws
// kParse for what is malformed; groups, which nothing has written for many years, are.
class Reader {
 public:
  Reader(std::string_view bytes, std::string_view file, std::uint64_t offset = 0)
      : bytes_(bytes), file_(file), offset_(offset) {}
  Reader(const Field& message, const Reader& outer)
      : Reader(checked(message, outer), outer.file_, message.offset) {}

  bool next(Field& field);  // false at the end
  // Values of a repeated field, packed or not, put at the end.
  void append(const Field& field, std::vector<std::int64_t>& out) const;
  void append(const Field& field, std::vector<float>& out) const;
  void append(const Field& field, std::vector<double>& out) const;
  // The field's text; kParse when it is a number.
  std::string_view text(const Field& field) const { return checked(field, *this); }
  [[noreturn]] void fail(std::uint64_t offset, std::string message) const;

 private:
  static std::string_view checked(const Field& field, const Reader& reader);
  std::uint64_t varint();
  std::uint64_t fixed(std::size_t size);

  std::string_view bytes_, file_;
  std::uint64_t offset_ = 0;  // of bytes_ in the file
  std::size_t at_ = 0;
};

}  // namespace systole::io::protobuf
