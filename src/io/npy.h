#pragma once

// Reading one .npy array from bytes that come in order: a file, memory or a member of an archive.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "systole/base/literal.h"

namespace systole::io {

class Stream {
 public:
  virtual ~Stream() = default;
  virtual std::uint64_t size() const = 0;           // of all there is to read
  virtual void read(std::span<std::byte> out) = 0;  // the next bytes; throws when they are not there
};

// Reads the whole stream: bytes after the array are kParse. Nothing is allocated before its size is known to
// agree with the stream's. Fortran order and big-endian items are converted, any non-zero bool is true.
Literal read_npy(Stream& stream, std::string_view file);

}  // namespace systole::io
