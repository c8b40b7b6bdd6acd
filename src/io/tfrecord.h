#pragma once

// TFRecord files: records one after the other, each as its length (8 bytes, little-endian), the length's
// checksum, the data and the data's checksum.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace systole::io {

// CRC32C, turned and shifted so that a checksum of data that holds checksums is no special case.
std::uint32_t masked_crc32c(std::string_view bytes);

void append_record(std::string& file, std::string_view data);

// The records of a file, in order. A last one that is cut off is the end, since files are read while they
// grow; a wrong checksum is kParse.
class RecordReader {
 public:
  RecordReader(const ByteSource& source, std::string_view file) : source_(source), file_(file) {}
  std::optional<std::string> next();
  std::uint64_t offset() const { return offset_; }            // of the next record
  std::uint64_t data_offset() const { return data_offset_; }  // of the data given last

 private:
  const ByteSource& source_;
  std::string file_;
  std::uint64_t offset_ = 0, data_offset_ = 0;
};

}  // namespace systole::io
