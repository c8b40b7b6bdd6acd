#include "io/tfrecord.h"

#include <cstddef>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "io/crc32.h"
#include "systole/base/error.h"

namespace systole::io {

namespace {

constexpr std::size_t kHeader = 12, kFooter = 4;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::uint32_t checksum_at(const char* bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(0, std::as_bytes(std::span(bytes)));
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void append_record(std::string& file, std::string_view data) {
  const std::uint64_t size = data.size();
  put(file, size);
  put(file, masked_crc32c({reinterpret_cast<const char*>(&size), sizeof size}));
  file.append(data);
  put(file, masked_crc32c(data));
}

std::optional<std::string> RecordReader::next() {
  const std::uint64_t left = source_.size() - offset_;
  if (left < kHeader) return std::nullopt;
  const auto fail = [&](const char* message) {
    throw Error(ErrorKind::kParse, fmt::format("{}: byte {}", file_, offset_), message);
  };
  char header[kHeader];
  source_.read(offset_, std::as_writable_bytes(std::span(header)));
  if (checksum_at(header + 8) != masked_crc32c({header, 8}))
    fail("the checksum of a record's length is wrong");
  std::uint64_t size = 0;
  std::memcpy(&size, header, sizeof size);
  if (size > left - kHeader || left - kHeader - size < kFooter) return std::nullopt;
  std::string data(size + kFooter, '\0');
  source_.read(offset_ + kHeader, std::as_writable_bytes(std::span(data)));
  if (checksum_at(data.data() + size) != masked_crc32c({data.data(), size}))
    fail("the checksum of a record is wrong");
  data.resize(size);
  data_offset_ = offset_ + kHeader;
  offset_ += kHeader + size + kFooter;
  return data;
}

}  // namespace systole::io
