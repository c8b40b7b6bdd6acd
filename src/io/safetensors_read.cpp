// Files and indices of shards as one list of arrays by name.

#include <fmt/format.h>

#include <algorithm>

#include "base/beneath.h"
#include "base/file.h"
#include "base/nearest.h"
#include "io/json.h"
#include "io/safetensors_format.h"
#include "io/safetensors_header.h"
#include "systole/base/error.h"
#include "systole/io/safetensors.h"

namespace systole::io {

namespace fs = std::filesystem;

namespace {

using Entry = SafetensorsEntry;
using Shard = SafetensorsFile;

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
    throw unknown_name(file, "array", wanted, all);
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

  void open_index(const fs::path& index, std::unique_ptr<ByteSource> source, const ReadOptions& options);
};

// {"metadata": {…}, "weight_map": {"fc1.weight": "model-00001-of-00002.safetensors", …}}
void SafetensorsReader::State::open_index(const fs::path& index, std::unique_ptr<ByteSource> source,
                                          const ReadOptions& options) {
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
      const LinkRule rule = options.follow_links ? LinkRule::any : LinkRule::inside_unique;
      shards.push_back(open_safetensors(open_beneath(index.parent_path(), name, rule), path.string()));
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

SafetensorsReader::SafetensorsReader(const fs::path& file, const ReadOptions& options) {
  constexpr const char *kIndex = "model.safetensors.index.json", *kSingle = "model.safetensors";
  auto state = std::make_shared<State>();
  fs::path path = file;
  std::unique_ptr<ByteSource> source;
  std::error_code code;
  if (fs::is_directory(file, code)) {
    const char* const name = fs::exists(fs::symlink_status(file / kIndex, code)) ? kIndex : kSingle;
    path = file / name;
    source = open_beneath(file, name, options.follow_links ? LinkRule::any : LinkRule::inside);
  } else {
    source = open_file(path, path.extension() == ".json" ? kMaxSafetensorsHeader : kLargestStream);
  }
  state->file = path.string();
  if (path.extension() == ".json") {
    state->open_index(path, std::move(source), options);
  } else {
    state->shards.push_back(open_safetensors(std::move(source), state->file));
    state->list();
  }
  state_ = std::move(state);
}

SafetensorsReader SafetensorsReader::of_bytes(std::span<const std::byte> bytes, std::string_view file) {
  auto state = std::make_shared<State>();
  state->file = file;
  state->shards.push_back(open_safetensors(memory_source(bytes), state->file));
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
  if (!entry.dtype().dtype)
    throw Error(ErrorKind::kUnsupported, shard.file,
                fmt::format("array \"{}\" has a dtype that Systole has not", name),
                "one of ours, as F32 or BF16", std::string(entry.dtype().name));
  return {*entry.dtype().dtype, Shape(shard.dims(entry))};
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
      parts.push_back({entry.name, entry.dtype().name, shard.dims(entry), entry.end - entry.begin});
    const std::string arrays =
        arrays_digest(parts, [&](std::size_t part, std::uint64_t offset, std::span<std::byte> buffer) {
          shard.source->read(shard.data + shard.entries[part].begin + offset, buffer);
          return std::span<const std::byte>(buffer);
        });
    if (space == std::string_view::npos || written->second.substr(space + 1) != arrays) return Digest::arrays;
  }
  return Digest::right;
}

}  // namespace systole::io
