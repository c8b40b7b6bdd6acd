#pragma once

// The header of one safetensors file, checked. It is read whole, decoded where it lies and kept: names and
// metadata are views into it and dimensions are read from it when asked for, so that opening a file costs its
// header and 48 bytes for each array, whatever the header says.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "io/safetensors_format.h"
#include "systole/base/shape.h"

namespace systole::io {

struct SafetensorsEntry {
  std::string_view name;
  std::uint64_t begin = 0, end = 0;    // in the data
  std::uint32_t at = 0, shape_at = 0;  // in the header: the entry, the dimensions
  std::uint8_t rank = 0;
  std::uint8_t dtype_index = 0;  // in kSafetensorsDTypes

  const SafetensorsDType& dtype() const { return kSafetensorsDTypes[dtype_index]; }
};
using Texts = std::vector<std::pair<std::string_view, std::string_view>>;

struct SafetensorsFile {
  std::string file;
  std::shared_ptr<const ByteSource> source;
  std::unique_ptr<char[]> header;
  std::uint64_t data = 0;                 // where it begins in the file
  std::vector<SafetensorsEntry> entries;  // by name
  Texts metadata;                         // by key

  Ints dims(const SafetensorsEntry& entry) const;
};

// `name` is for messages.
SafetensorsFile open_safetensors(std::shared_ptr<const ByteSource> source, std::string name);

}  // namespace systole::io
