// Reading safetensors. The header is read whole, decoded where it lies and kept: names and metadata are views
// into it, and dimensions are read from it when asked for, so that
// opening a file costs its header and 48 bytes for each array, whatever the header says.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <new>

#include "base/file.h"
#include "base/nearest.h"
#include "io/json.h"
#include "io/safetensors_format.h"
#include "systole/base/error.h"
#include "systole/io/safetensors.h"

namespace systole::io {

namespace fs = std::filesystem;

namespace {

struct Entry {
  std::string_view name;
  std::uint64_t begin = 0, end = 0;    // in the data
  std::uint32_t at = 0, shape_at = 0;  // in the header: the entry, the dimensions
  std::uint8_t rank = 0;
  std::uint8_t dtype = 0;  // in kSafetensorsDTypes
};
using Texts = std::vector<std::pair<std::string_view, std::string_view>>;

struct Shard {
  std::string file;
  std::shared_ptr<const ByteSource> source;
  std::unique_ptr<char[]> header;
  std::uint64_t data = 0;      // where it begins in the file
  std::vector<Entry> entries;  // by name
  Texts metadata;              // by key

  Ints dims_of(const Entry& entry) const {
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
};
}
};

const SafetensorsDType& dtype_of(const Entry& entry) { return kSafetensorsDTypes[entry.dtype]; }

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
  if (begins("\x93NUMPY")) refuse("a .npy file", "a safetensors file; io::load_npy() reads this one");
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
    entry.dtype = static_cast<std::uint8_t>(found - std::begin(kSafetensorsDTypes));
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
    const Ints dims = shard.dims_of(entry);
    std::uint64_t bits = static_cast<std::uint64_t>(dtype_of(entry).bits);
    bool overflow = false;
    for (const std::int64_t dim : dims)
      overflow |= __builtin_mul_overflow(bits, static_cast<std::uint64_t>(dim), &bits);
    if (overflow)
      fail(shard, at,
           fmt::format("the shape of array \"{}\" has more elements than 64 bits count", entry.name));
    if (bits % 8 != 0) fail(shard, at, fmt::format("array \"{}\" does not end at a whole byte", entry.name));
    if (bits / 8 != entry.end - entry.begin)
      fail(shard, at, fmt::format("the data of array \"{}\" do not have the size of its type", entry.name),
           fmt::format("{} bytes for {}[{}]", bits / 8, dtype_of(entry).name,
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

Shard open_shard(std::shared_ptr<const ByteSource> source, std::string file) {
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
    fail(shard, 8, "the header is no JSON object", "'{'");
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

// A shard's name in an index: a file beside it, nothing else.
void check_shard_name(const std::string& index, std::string_view name) {
  if (name.empty() || name == "." || name == ".." ||
      name.find_first_of(std::string_view("/\\\0", 3)) != name.npos)
    throw Error(ErrorKind::kParse, index, "the name of a shard", "a file beside the index",
                fmt::format("\"{}\"", name.substr(0, 80)));
}

}  // namespace

struct SafetensorsReader::State {
  struct Place {
    std::uint32_t shard, entry;
  };
  std::string file;
  std::vector<Shard> shards;
  std::vector<Place> places;  // by name
  Metadata index_metadata;    // of an index

  const Entry& entry(const Place& place) const { return shards[place.shard].entries[place.entry]; }
  std::string_view name(const Place& place) const { return entry(place).name; }

  const Place* find(std::string_view wanted) const {
    const auto at = std::lower_bound(places.begin(), places.end(), wanted,
                                     [&](const Place& p, std::string_view n) { return name(p) < n; });
    return at != places.end() && name(*at) == wanted ? &*at : nullptr;
  }
  const Place& at(std::string_view wanted) const {
    if (const Place* found = find(wanted)) return *found;
    std::vector<std::string_view> all;
    for (const Place& place : places) all.push_back(name(place));
    const std::string_view near = nearest(wanted, all);
    throw Error(ErrorKind::kNotFound, file, fmt::format("no array \"{}\"", wanted),
                near.empty() ? fmt::format("one of {} others", all.size()) : fmt::format("\"{}\"", near));
  }
  void list() {
    for (std::size_t s = 0; s < shards.size(); ++s)
      for (std::size_t e = 0; e < shards[s].entries.size(); ++e)
        places.push_back({static_cast<std::uint32_t>(s), static_cast<std::uint32_t>(e)});
    std::sort(places.begin(), places.end(),
              [&](const Place& a, const Place& b) { return name(a) < name(b); });
    const auto twice = std::adjacent_find(places.begin(), places.end(),
                                          [&](const Place& a, const Place& b) { return name(a) == name(b); });
    if (twice != places.end())
      throw Error(ErrorKind::kParse, file,
                  fmt::format("array \"{}\" is in two shards, {} and {}", name(*twice),
                              shards[twice->shard].file, shards[twice[1].shard].file));
  }
  const Texts* texts() const { return shards.size() == 1 ? &shards[0].metadata : nullptr; }

  void open_index(const fs::path& index);
};

// {"metadata": {…}, "weight_map": {"fc1.weight": "model-00001-of-00002.safetensors", …}}
void SafetensorsReader::State::open_index(const fs::path& index) {
  std::unique_ptr<ByteSource> source = open_file(index, kMaxSafetensorsHeader);
  if (source->size() > kMaxSafetensorsHeader)
    throw Error(ErrorKind::kLimit, file, "the index is too long",
                fmt::format("at most {} bytes", kMaxSafetensorsHeader), std::to_string(source->size()));
  std::string text(source->size(), '\0');
  source->read(0, std::as_writable_bytes(std::span(text)));
  JsonReader in(text, file);
  std::vector<std::pair<std::string_view, std::string_view>> map;  // array, shard
  bool has_map = false;
  in.begin_object();
  for (std::string_view key; in.next_key(key);) {
    if (key == "metadata" && in.kind() == JsonReader::Kind::object) {
      in.begin_object();
      for (std::string_view name; in.next_key(name);) {
        const std::size_t at = in.position();
        if (in.kind() == JsonReader::Kind::string) {
          index_metadata.emplace(name, in.string());
        } else {
          in.skip();
          std::string_view value(text.data() + at, in.position() - at);
          value.remove_prefix(std::min(value.find_first_not_of(" \t\r\n"), value.size()));
          index_metadata.emplace(name, value);
        }
      }
    } else if (key == "weight_map") {
      if (has_map) in.fail(in.position(), "\"weight_map\" stands twice");
      has_map = true;
      in.begin_object();
      for (std::string_view name; in.next_key(name);) {
        if (map.size() == kMaxIndexArrays)
          in.fail(in.position(), "too many arrays", fmt::format("at most {}", kMaxIndexArrays), {},
                  ErrorKind::kLimit);
        map.emplace_back(name, in.string());
      }
    } else {
      in.skip();
    }
  }
  in.end();
  if (!has_map) in.fail(in.position(), "no index of shards", "\"weight_map\"");
  std::sort(map.begin(), map.end());
  const auto twice = std::adjacent_find(map.begin(), map.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != map.end())
    throw Error(ErrorKind::kParse, file, fmt::format("array \"{}\" stands twice in the index", twice->first));

  std::vector<std::string_view> names;
  for (const auto& [array, shard] : map) names.push_back(shard);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const std::string_view name : names) {
    check_shard_name(file, name);
    const fs::path path = index.parent_path() / name;
    try {
      std::error_code code;
      if (fs::exists(path, code) && !fs::is_regular_file(path, code))
        throw Error(ErrorKind::kParse, path.string(), "a shard", "a regular file");
      shards.push_back(open_shard(open_file(path), path.string()));
    } catch (const Error& error) {
      throw error.within(file);
    }
  }
  list();
  for (const auto& [array, shard] : map) {
    const Place* const place = find(array);
    const auto s =
        static_cast<std::uint32_t>(std::lower_bound(names.begin(), names.end(), shard) - names.begin());
    if (place == nullptr || place->shard != s)
      throw Error(ErrorKind::kParse, file, fmt::format("array \"{}\" is not where the index says", array),
                  std::string(shard), place == nullptr ? "in no shard" : shards[place->shard].file);
  }
  if (map.size() != places.size())
    for (const Place& place : places)
      if (!std::binary_search(map.begin(), map.end(), std::pair(name(place), names[place.shard])))
        throw Error(
            ErrorKind::kParse, file,
            fmt::format("array \"{}\" of {} is not in the index", name(place), shards[place.shard].file));
}

SafetensorsReader::SafetensorsReader(const fs::path& file) {
  auto state = std::make_shared<State>();
  fs::path path = file;
  std::error_code code;
  if (fs::is_directory(file, code)) {
    path = file / "model.safetensors.index.json";
    if (!fs::exists(path, code)) path = file / "model.safetensors";
  }
  state->file = path.string();
  if (path.extension() == ".json") {
    state->open_index(path);
  } else {
    state->shards.push_back(open_shard(open_file(path), state->file));
    state->list();
  }
  state_ = std::move(state);
}

SafetensorsReader SafetensorsReader::of_bytes(std::span<const std::byte> bytes, std::string_view file) {
  auto state = std::make_shared<State>();
  state->file = file;
  state->shards.push_back(open_shard(memory_source(bytes), state->file));
  state->list();
  return SafetensorsReader(std::move(state));
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> all;
  for (const State::Place& place : state_->places) all.emplace_back(state_->name(place));
  return all;
}

std::size_t SafetensorsReader::size() const { return state_->places.size(); }

bool SafetensorsReader::contains(std::string_view name) const { return state_->find(name) != nullptr; }

Type SafetensorsReader::type(std::string_view name) const {
  const State::Place& place = state_->at(name);
  const Shard& shard = state_->shards[place.shard];
  const Entry& entry = state_->entry(place);
  if (!dtype_of(entry).dtype)
    throw Error(ErrorKind::kUnsupported, shard.file,
                fmt::format("array \"{}\" has a dtype that Systole has not", name),
                "one of ours, as F32 or BF16", std::string(dtype_of(entry).name));
  return {*dtype_of(entry).dtype, Shape(shard.dims_of(entry))};
}

Literal SafetensorsReader::read(std::string_view name) const {
  const State::Place& place = state_->at(name);
  const Shard& shard = state_->shards[place.shard];
  Literal value = Literal::uninitialized(type(name));
  const std::span<std::byte> bytes(value.mutable_bytes(), value.byte_size());
  shard.source->read(shard.data + state_->entry(place).begin, bytes);
  if (value.dtype() == DType::boolean)
    for (std::byte& b : bytes) b = std::byte{b != std::byte{0}};
  return value;
}

Metadata SafetensorsReader::metadata() const {
  if (state_->texts() == nullptr) return state_->index_metadata;
  Metadata all;
  for (const auto& [key, value] : *state_->texts())
    if (key != kDigestKey) all.emplace(key, value);
  return all;
}

std::optional<std::string> SafetensorsReader::metadata(std::string_view key) const {
  if (state_->texts() == nullptr) {
    const auto found = state_->index_metadata.find(std::string(key));
    return found == state_->index_metadata.end() ? std::nullopt : std::optional(found->second);
  }
  for (const auto& [known, value] : *state_->texts())
    if (known == key) return std::string(value);
  return std::nullopt;
}

Digest SafetensorsReader::check_digest() const {
  for (const Shard& shard : state_->shards) {
    const auto written = std::find_if(shard.metadata.begin(), shard.metadata.end(),
                                      [](const auto& text) { return text.first == kDigestKey; });
    if (written == shard.metadata.end()) return Digest::none;
    const std::size_t space = written->second.find(' ');
    if (written->second.substr(0, space) != metadata_digest(shard.metadata)) return Digest::metadata;
    std::vector<DigestPart> parts;
    for (const Entry& entry : shard.entries)
      parts.push_back({entry.name, dtype_of(entry).name, shard.dims_of(entry), entry.end - entry.begin});
    const std::string arrays =
        arrays_digest(parts, [&](std::size_t part, std::uint64_t offset, std::span<std::byte> buffer) {
          shard.source->read(shard.data + shard.entries[part].begin + offset, buffer);
          return std::span<const std::byte>(buffer);
        });
    if (space == std::string_view::npos || written->second.substr(space + 1) != arrays) return Digest::arrays;
  }
  return Digest::right;
}

std::map<std::string, Tensor> load_safetensors(const fs::path& file) {
  const SafetensorsReader reader(file);
  std::map<std::string, Tensor> all;
  for (std::string& name : reader.names()) {
    Tensor value = reader.tensor(name);
    all.emplace(std::move(name), std::move(value));
  }
  return all;
}

}  // namespace systole::io
