#include "io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <new>

#include "io/json.h"
#include "systole/base/error.h"

namespace systole::io {

namespace {

using Entry = SafetensorsEntry;
using Shard = SafetensorsFile;

[[noreturn]] void fail(const Shard& shard, std::uint64_t at, std::string message, std::string expected = {},
                       std::string got = {}, ErrorKind kind = ErrorKind::kParse) {
  throw Error(kind, fmt::format("{}: byte {}", shard.file, at), std::move(message), std::move(expected),
              std::move(got));
}

// Says what a file is that begins like something else, and what to do with it.
void refuse_other_formats(const Shard& shard, std::span<const unsigned char> first) {
  const auto begins = [&](std::string_view magic) {
    return first.size() >= magic.size() && std::memcmp(first.data(), magic.data(), magic.size()) == 0;
  };
  const auto refuse = [&](std::string what, std::string advice) {
    fail(shard, 0, std::move(what), std::move(advice), {}, ErrorKind::kUnsupported);
  };
  const char* const convert =
      "a safetensors file; in Python, for a file that you trust: "
      "safetensors.torch.save_file(torch.load(file, weights_only=True), \"model.safetensors\")";
  if (first.size() >= 2 && first[0] == 0x80 && first[1] <= 5)
    refuse("a Python pickle, which can run any program when it is opened, and is not opened", convert);
  if (begins("PK\x03\x04"))
    refuse("a zip file: one of torch.save() holds a pickle, which can run any program, and is not opened",
           convert);
  if (begins("GGUF")) refuse("a GGUF file", "a safetensors file");
  if (begins("\x89HDF")) refuse("an HDF5 file, as Keras writes", "a safetensors file");
  if (begins("\x93NUMPY"))
    refuse("a .npy file", "a safetensors file; in a program, io::load_npy() reads this one");
}

bool is_text(std::span<const unsigned char> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char c) {
    return (c >= ' ' && c != 0x7f) || c == '\n' || c == '\r' || c == '\t';
  });
}

// A text is shown as it begins, anything else by its bytes.
void refuse_unknown_format(const Shard& shard, std::uint64_t size) {
  std::array<unsigned char, 24> bytes{};
  const std::span<unsigned char> begin = std::span(bytes).first(std::min<std::uint64_t>(size, bytes.size()));
  shard.source->read(0, std::as_writable_bytes(begin));
  std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  text = text.substr(0, text.find_first_of("\r\n"));
  fail(shard, 0, "this is not a safetensors file",
       "one that `systole train`, save() or Python's safetensors wrote: the length of a header in 8 bytes, "
       "then '{'",
       is_text(begin) ? fmt::format("text that begins with \"{}\"", text)
                      : fmt::format("the bytes {:02x}",
                                    fmt::join(begin.first(std::min<std::size_t>(begin.size(), 9)), " ")));
}

class HeaderReader {
 public:
  HeaderReader(Shard& shard, std::uint64_t size)
      : shard_(shard), in_({shard.header.get(), static_cast<std::size_t>(size)}, shard.file, 8) {}

  void read() {
    in_.begin_object();
    bool has_metadata = false;
    for (std::string_view key; in_.next_key(key);) {
      if (key != kMetadataKey) {
        array(key);
        continue;
      }
      if (has_metadata) in_.fail(in_.position(), "\"__metadata__\" stands twice");
      has_metadata = true;
      in_.begin_object();
      for (std::string_view name; in_.next_key(name);) {
        if (in_.kind() != JsonReader::Kind::string)
          in_.fail(in_.position(), fmt::format("the metadata \"{}\"", name), "a string");
        if (shard_.metadata.size() == kMaxSafetensorsArrays)
          in_.fail(in_.position(), "too many metadata", fmt::format("at most {}", kMaxSafetensorsArrays), {},
                   ErrorKind::kLimit);
        shard_.metadata.emplace_back(name, in_.string());
      }
    }
    in_.end();
    std::sort(shard_.metadata.begin(), shard_.metadata.end());
    const auto twice = std::adjacent_find(shard_.metadata.begin(), shard_.metadata.end(),
                                          [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twice != shard_.metadata.end())
      in_.fail(0, fmt::format("the metadata \"{}\" stand twice", twice->first));
  }

 private:
  // A field that must stand once.
  void first_time(bool& seen, std::string_view name, std::string_view field) {
    if (seen) in_.fail(in_.position(), fmt::format("\"{}\" of array \"{}\" stands twice", field, name));
    seen = true;
  }

  void array(std::string_view name) {
    if (shard_.entries.size() == kMaxSafetensorsArrays)
      in_.fail(in_.position(), "too many arrays", fmt::format("at most {}", kMaxSafetensorsArrays), {},
               ErrorKind::kLimit);
    Entry entry{.name = name, .at = static_cast<std::uint32_t>(in_.position())};
    bool has_dtype = false, has_shape = false, has_offsets = false;
    in_.begin_object();
    for (std::string_view field; in_.next_key(field);) {
      if (field == "dtype") {
        first_time(has_dtype, name, field);
        dtype(entry);
      } else if (field == "shape") {
        first_time(has_shape, name, field);
        shape(entry);
      } else if (field == "data_offsets") {
        first_time(has_offsets, name, field);
        offsets(entry);
      } else {
        in_.skip();  // as the reference does
      }
    }
    if (!has_dtype || !has_shape || !has_offsets)
      in_.fail(entry.at, fmt::format("array \"{}\" lacks a field", name),
               !has_dtype   ? "\"dtype\""
               : !has_shape ? "\"shape\""
                            : "\"data_offsets\"");
    shard_.entries.push_back(entry);
  }

  void dtype(Entry& entry) {
    const std::size_t at = in_.position();
    const std::string_view name = in_.string();
    const auto found = std::find_if(std::begin(kSafetensorsDTypes), std::end(kSafetensorsDTypes),
                                    [&](const SafetensorsDType& known) { return known.name == name; });
    if (found == std::end(kSafetensorsDTypes))
      in_.fail(at, fmt::format("unknown dtype of array \"{}\"", entry.name),
               "one of the format, as F32 or I64", fmt::format("\"{}\"", name.substr(0, 40)));
    entry.dtype_index = static_cast<std::uint8_t>(found - std::begin(kSafetensorsDTypes));
  }

  void shape(Entry& entry) {
    entry.shape_at = static_cast<std::uint32_t>(in_.position());
    in_.begin_array();
    while (in_.next_item()) {
      if (entry.rank == kMaxRank)
        in_.fail(in_.position(), fmt::format("array \"{}\" has too many axes", entry.name),
                 fmt::format("at most {}", kMaxRank), {}, ErrorKind::kLimit);
      const std::size_t at = in_.position();
      const std::uint64_t dim = in_.unsigned_number();
      if (dim > static_cast<std::uint64_t>(INT64_MAX))
        in_.fail(at, fmt::format("an axis of array \"{}\" is too long", entry.name), "at most 2^63 - 1",
                 std::to_string(dim));
      ++entry.rank;
      if (++axes_ > kMaxSafetensorsAxes)
        in_.fail(at, "too many axes in all", fmt::format("at most {}", kMaxSafetensorsAxes), {},
                 ErrorKind::kLimit);
    }
  }

  void offsets(Entry& entry) {
    in_.begin_array();
    std::uint64_t* const both[] = {&entry.begin, &entry.end};
    for (std::uint64_t* offset : both) {
      if (!in_.next_item()) in_.fail(in_.position(), "data_offsets", "two numbers");
      *offset = in_.unsigned_number();
    }
    if (in_.next_item()) in_.fail(in_.position(), "data_offsets", "two numbers", "more");
  }

  Shard& shard_;
  std::size_t axes_ = 0;
  JsonReader in_;
};

// Every byte of the data belongs to exactly one array, and to each as many as its type takes.
void check_layout(Shard& shard, std::uint64_t data_bytes) {
  std::vector<Entry>& entries = shard.entries;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t next = 0;
  for (const Entry& entry : entries) {
    const std::uint64_t at = 8 + entry.at;
    if (entry.end < entry.begin)
      fail(shard, at, fmt::format("array \"{}\" ends before it begins", entry.name), {},
           fmt::format("[{},{}]", entry.begin, entry.end));
    if (entry.begin != next)
      fail(shard, at,
           fmt::format("array \"{}\" {}", entry.name,
                       entry.begin < next ? "overlaps the one before it" : "leaves a gap before it"),
           fmt::format("data from {} on", next), fmt::format("from {} on", entry.begin));
    next = entry.end;
    const Ints dims = shard.dims(entry);
    std::uint64_t bits = static_cast<std::uint64_t>(entry.dtype().bits);
    bool overflow = false;
    for (const std::int64_t dim : dims)
      overflow |= __builtin_mul_overflow(bits, static_cast<std::uint64_t>(dim), &bits);
    if (overflow)
      fail(shard, at,
           fmt::format("the shape of array \"{}\" has more elements than 64 bits count", entry.name));
    if (bits % 8 != 0) fail(shard, at, fmt::format("array \"{}\" does not end at a whole byte", entry.name));
    if (bits / 8 != entry.end - entry.begin)
      fail(shard, at, fmt::format("the data of array \"{}\" do not have the size of its type", entry.name),
           fmt::format("{} bytes for {}[{}]", bits / 8, entry.dtype().name,
                       fmt::join(dims.begin(), dims.end(), ",")),
           std::to_string(entry.end - entry.begin));
    if (entry.end > data_bytes)
      fail(shard, at, fmt::format("the file ends inside array \"{}\"", entry.name),
           fmt::format("{} bytes after the header", entry.end), std::to_string(data_bytes));
  }
  if (next != data_bytes)
    fail(shard, shard.data + next, "bytes after the last array", "the end",
         fmt::format("{} more bytes", data_bytes - next));
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const Entry& a, const Entry& b) { return a.name == b.name; });
  if (twice != entries.end())
    fail(shard, 8 + std::max(twice->at, twice[1].at), fmt::format("array \"{}\" stands twice", twice->name));
}

}  // namespace

Ints SafetensorsFile::dims(const SafetensorsEntry& entry) const {
  Ints dims;
  const char* at = header.get() + entry.shape_at;
  for (int i = 0; i < entry.rank; ++i) {
    while (*at < '0' || *at > '9') ++at;
    std::int64_t dim = 0;
    at = std::from_chars(at, header.get() + (data - 8), dim).ptr;
    dims.push_back(dim);
  }
  return dims;
}

SafetensorsFile open_safetensors(std::shared_ptr<const ByteSource> source, std::string file) {
  Shard shard;
  shard.file = std::move(file);
  shard.source = std::move(source);
  const std::uint64_t size = shard.source->size();
  std::array<unsigned char, 9> first{};
  const std::size_t known = std::min<std::uint64_t>(size, first.size());
  shard.source->read(0, std::as_writable_bytes(std::span(first).first(known)));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= static_cast<std::uint64_t>(first[i]) << 8 * i;
  if (known < 9 || length > kMaxSafetensorsHeader || length > size - 8 || first[8] != '{') {
    refuse_other_formats(shard, std::span(first).first(known));
    const bool is_other = known < 9 ? is_text(std::span(first).first(known)) : first[8] != '{';
    if (known > 0 && is_other) refuse_unknown_format(shard, size);
    if (known < 9) fail(shard, size, "the file ends early", "the length of a header and the header");
    if (length > size - 8 && size < kMaxSafetensorsHeader + 8)
      fail(shard, 0, "the header is longer than the file",
           fmt::format("at most {} bytes: a safetensors file that is whole", size - 8),
           std::to_string(length));
    if (length > kMaxSafetensorsHeader)
      fail(shard, 0, "the header is too long", fmt::format("at most {} bytes", kMaxSafetensorsHeader),
           std::to_string(length), ErrorKind::kLimit);
    if (length > size - 8)
      fail(shard, 0, "the header is longer than the file", fmt::format("at most {} bytes", size - 8),
           std::to_string(length));
  }
  try {
    shard.header.reset(new char[length]);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kOutOfMemory, shard.file, "no memory for the header",
                std::to_string(length) + " bytes");
  }
  shard.data = 8 + length;
  shard.source->read(8, std::as_writable_bytes(std::span(shard.header.get(), length)));
  HeaderReader(shard, length).read();
  check_layout(shard, size - shard.data);
  return shard;
}

}  // namespace systole::io
