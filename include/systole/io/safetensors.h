#pragma once

// Safetensors: named arrays and a small map of texts in one file, as Hugging Face and PyTorch users keep
// their weights. Nothing in such a file is ever executed.
//
//   io::save_safetensors("net.safetensors", state_dict(net));
//   load_state_dict(net, io::load_safetensors("net.safetensors"));
//
// A reader opens the file once and reads single arrays by name:
//
//   io::SafetensorsReader file("model.safetensors.index.json");   // or one file, or a folder with either
//   Tensor w = file.tensor("fc1.weight");
//
// The header is checked as a whole before anything is read: sizes, types, overlaps, gaps, names that stand
// twice, bytes after the end. What is wrong is kParse with file and offset, kLimit (a header of more than
// 100 MB, more than 49,152 arrays, more than 32 axes of one or 262,144 of all), or kUnsupported: a dtype that
// Systole has not, a pickle, a zip file of PyTorch's.
//
// The file, index or folder that is named may itself be a link. What is then found in the folder may not
// leave it: a link out of it is kUnsupported unless ReadOptions::follow_links is set, and so is a shard with
// several hard links. Links of a Hugging Face cache, from snapshots/REVISION to blobs beside it, are
// followed.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/base/export.h"
#include "systole/base/literal.h"
#include "systole/io/named_array.h"
#include "systole/io/read_options.h"
#include "systole/tensor/tensor.h"

namespace systole::io {

using Metadata = std::map<std::string, std::string>;

// How a file's digest (below) compares with its content.
enum class Digest : std::uint8_t {
  none,      // the file has none
  right,     // all as it was written
  metadata,  // the metadata differ
  arrays,    // the metadata are right, the arrays differ
};

// A file, or the shards of an index, open for reading. Copies share it; threads may read at the same time.
class SYSTOLE_API SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& file, const ReadOptions& options = {});
  // The same on bytes in memory, which must outlive it; `file` is only for messages.
  static SafetensorsReader of_bytes(std::span<const std::byte> bytes, std::string_view file);

  std::vector<std::string> names() const;  // sorted
  std::size_t size() const;                // how many arrays
  bool contains(std::string_view name) const;
  Type type(std::string_view name) const;     // throws kNotFound with the nearest name
  Literal read(std::string_view name) const;  // throws the same, and kUnsupported for a dtype we have not
  Tensor tensor(std::string_view name) const { return Tensor(read(name)); }

  Metadata metadata() const;  // without the digest
  std::optional<std::string> metadata(std::string_view key) const;
  // Reads every byte. Of an index: of all shards, the first that is not right.
  Digest check_digest() const;

 private:
  struct State;
  explicit SafetensorsReader(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// All arrays of a file, of an index of shards, or of a folder with either; for load_state_dict().
SYSTOLE_API std::map<std::string, Tensor> load_safetensors(const std::filesystem::path& file,
                                                           const ReadOptions& options = {});

// Replaces the file when every byte is on the disk: a failure or a kill leaves the old one as it was. With a
// digest (SHA-256, under the key "systole.digest") a reader can tell whether the arrays are those that were
// saved. Throws kInvalidArgument for a name twice or "__metadata__", kLimit for a header above 100 MB.
struct SafetensorsOptions {
  bool digest = false;
};
SYSTOLE_API void save_safetensors(const std::filesystem::path& file, std::span<const NamedArray> arrays,
                                  const Metadata& metadata = {}, SafetensorsOptions options = {});
SYSTOLE_API void save_safetensors(const std::filesystem::path& file,
                                  const std::map<std::string, Tensor>& tensors, const Metadata& metadata = {},
                                  SafetensorsOptions options = {});
// The bytes of such a file.
SYSTOLE_API std::vector<std::byte> safetensors_bytes(std::span<const NamedArray> arrays,
                                                     const Metadata& metadata = {},
                                                     SafetensorsOptions options = {});

}  // namespace systole::io
