#pragma once

// Zip archives as .npz uses them: members stored or deflated, zip64 where sizes need it. The reader trusts
// nothing: the central directory must fill its place exactly, every local header must agree with it, and
// members may neither overlap nor share a name. The writer stores without compression and with a fixed time
// stamp, so equal arrays give equal files.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "io/npy.h"

namespace systole::io {

struct ZipEntry {
  std::string name;
  std::uint64_t header_offset = 0;  // of the local header
  std::uint64_t data_offset = 0;
  std::uint64_t compressed_size = 0, size = 0;
  std::uint32_t crc = 0;
  bool deflated = false;
};

// The members in the order of the central directory; throws kParse with the offset, or kUnsupported for
// encryption, other compression methods and archives of several disks.
std::vector<ZipEntry> read_zip_directory(const ByteSource& source, std::string_view file);

class ZipStream : public Stream {
 public:
  virtual void finish() = 0;  // throws kParse unless the member ends here and its checksum is right
};

// `source` and `entry` must outlive the stream. A deflated member is kUnsupported in a build without zlib.
std::unique_ptr<ZipStream> open_zip_entry(const ByteSource& source, const ZipEntry& entry,
                                          std::string_view file);

class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& out) : out_(out) {}
  // The member is the pieces one after the other. Throws kInvalidArgument when the name is longer than zip
  // allows.
  void add(const std::string& name, std::span<const std::span<const std::byte>> pieces);
  void finish();  // the central directory; commit the file afterwards

 private:
  void write(const std::string& bytes);

  AtomicFile& out_;
  std::uint64_t offset_ = 0, count_ = 0;
  std::string directory_;
};

}  // namespace systole::io
