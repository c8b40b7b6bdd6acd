// Writing safetensors, byte for byte as the reference implementation does: arrays by dtype and name, spaces
// after the header up to a multiple of 8.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/file.h"
#include "io/json.h"
#include "io/safetensors_format.h"
#include "systole/base/error.h"
#include "systole/io/safetensors.h"

namespace systole::io {

namespace {

struct Layout {
  std::string header;                     // with its length before it
  std::vector<const NamedArray*> arrays;  // in file order
};

std::string digest_of(std::span<const NamedArray> arrays, const Metadata& metadata) {
  std::vector<std::pair<std::string_view, std::string_view>> texts(metadata.begin(), metadata.end());
  std::vector<const NamedArray*> sorted;
  for (const NamedArray& array : arrays) sorted.push_back(&array);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
  std::vector<DigestPart> parts;
  for (const NamedArray* array : sorted)
    parts.push_back({array->name, safetensors_dtype(array->value.dtype()).name, array->value.dims(),
                     array->value.byte_size()});
  return metadata_digest(texts) + " " +
         arrays_digest(parts, [&](std::size_t part, std::uint64_t offset, std::span<std::byte> buffer) {
           return sorted[part]->value.as_bytes().subspan(offset, buffer.size());
         });
}

Layout layout_of(const std::string& file, std::span<const NamedArray> arrays, const Metadata& metadata,
                 const SafetensorsOptions& options) {
  Layout out;
  for (const NamedArray& array : arrays) out.arrays.push_back(&array);
  std::sort(out.arrays.begin(), out.arrays.end(), [](const NamedArray* a, const NamedArray* b) {
    const auto *first = &safetensors_dtype(a->value.dtype()), *second = &safetensors_dtype(b->value.dtype());
    return first != second ? first < second : a->name < b->name;
  });
  const auto refuse = [&](ErrorKind kind, std::string message, std::string expected = {},
                          std::string got = {}) {
    throw Error(kind, file, std::move(message), std::move(expected), std::move(got));
  };
  if (arrays.size() > kMaxSafetensorsArrays)
    refuse(ErrorKind::kLimit, "too many arrays", fmt::format("at most {}", kMaxSafetensorsArrays),
           std::to_string(arrays.size()));
  std::vector<std::string_view> names;
  std::size_t axes = 0;
  for (const NamedArray& array : arrays) {
    names.push_back(array.name);
    axes += array.value.shape().size();
  }
  if (axes > kMaxSafetensorsAxes)
    refuse(ErrorKind::kLimit, "too many axes in all", fmt::format("at most {}", kMaxSafetensorsAxes),
           std::to_string(axes));
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    refuse(ErrorKind::kInvalidArgument, fmt::format("the name \"{}\" stands twice", *twice));
  if (std::binary_search(names.begin(), names.end(), kMetadataKey))
    refuse(ErrorKind::kInvalidArgument, "no array can have the name \"__metadata__\"");
  if (metadata.contains(std::string(kDigestKey)))
    refuse(ErrorKind::kInvalidArgument, fmt::format("the key \"{}\" is the file's own", kDigestKey));

  std::string json = "{";
  Metadata texts = metadata;
  if (options.digest) texts.emplace(kDigestKey, digest_of(arrays, metadata));
  const char* comma = "";
  if (!texts.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : texts) {
      json += comma + json_quoted(key, file) + ":" + json_quoted(value, file);
      comma = ",";
    }
    json += "}";
  }
  std::uint64_t offset = 0;
  for (const NamedArray* array : out.arrays) {
    const Ints dims = array->value.dims();
    const std::uint64_t end = offset + array->value.byte_size();
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", comma,
                        json_quoted(array->name, file), safetensors_dtype(array->value.dtype()).name,
                        fmt::join(dims.begin(), dims.end(), ","), offset, end);
    comma = ",";
    offset = end;
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  if (json.size() > kMaxSafetensorsHeader)
    refuse(ErrorKind::kLimit, "names and metadata do not fit into the header",
           fmt::format("at most {} bytes", kMaxSafetensorsHeader), std::to_string(json.size()));
  for (int i = 0; i < 8; ++i) out.header += static_cast<char>(json.size() >> 8 * i);
  out.header += json;
  return out;
}

}  // namespace

void save_safetensors(const std::filesystem::path& file, std::span<const NamedArray> arrays,
                      const Metadata& metadata, SafetensorsOptions options) {
  const Layout layout = layout_of(file.string(), arrays, metadata, options);
  AtomicFile out(file);
  out.write(std::as_bytes(std::span(layout.header)));
  for (const NamedArray* array : layout.arrays) out.write(array->value.as_bytes());
  out.commit();
}

std::vector<std::byte> safetensors_bytes(std::span<const NamedArray> arrays, const Metadata& metadata,
                                         SafetensorsOptions options) {
  const Layout layout = layout_of("safetensors", arrays, metadata, options);
  const auto header = std::as_bytes(std::span(layout.header));
  std::vector<std::byte> bytes(header.begin(), header.end());
  for (const NamedArray* array : layout.arrays) {
    const auto data = array->value.as_bytes();
    bytes.insert(bytes.end(), data.begin(), data.end());
  }
  return bytes;
}

}  // namespace systole::io
