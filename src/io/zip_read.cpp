#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "io/crc32.h"
#include "io/zip.h"
#include "io/zip_format.h"
#include "systole/base/error.h"

#ifdef SYSTOLE_HAVE_ZLIB
#include <zlib.h>
#endif

namespace systole::io {

namespace {

constexpr std::uint64_t kLargestRatio = 1032;  // deflate cannot expand more

[[noreturn]] void fail(std::string_view file, std::uint64_t at, std::string message,
                       std::string expected = {}, std::string got = {}, ErrorKind kind = ErrorKind::kParse) {
  throw Error(kind, fmt::format("{}: byte {}", file, at), std::move(message), std::move(expected),
              std::move(got));
}

// A record read from the archive, with checked access to its fields.
class Record {
 public:
  Record(const ByteSource& source, std::uint64_t offset, std::uint64_t size, std::string_view file,
         std::string_view what)
      : offset_(offset), file_(file) {
    if (offset > source.size() || size > source.size() - offset)
      fail(file, offset, "the archive ends early", fmt::format("{} of {} bytes", what, size),
           fmt::format("{} bytes", offset > source.size() ? 0 : source.size() - offset));
    bytes_.resize(static_cast<std::size_t>(size));
    source.read(offset, bytes_);
  }

  std::uint64_t number(std::size_t at, std::size_t width) const {
    if (at > bytes_.size() || width > bytes_.size() - at)
      fail(file_, offset_ + at, "a record of the archive ends early");
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes_[at + i]);
    return value;
  }
  std::uint16_t u16(std::size_t at) const { return static_cast<std::uint16_t>(number(at, 2)); }
  std::uint32_t u32(std::size_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u64(std::size_t at) const { return number(at, 8); }

  std::string_view text(std::size_t at, std::size_t length) const {
    if (at > bytes_.size() || length > bytes_.size() - at)
      fail(file_, offset_ + at, "a record of the archive ends early");
    return {reinterpret_cast<const char*>(bytes_.data()) + at, length};
  }

  std::size_t size() const { return bytes_.size(); }
  std::uint64_t offset() const { return offset_; }
  std::string_view file() const { return file_; }

 private:
  std::uint64_t offset_;
  std::string_view file_;
  std::vector<std::byte> bytes_;
};

// Replaces each value that is all ones by the next 8-byte number of the zip64 extra field, in this order.
void apply_zip64(const Record& record, std::size_t extra, std::size_t length,
                 std::initializer_list<std::uint64_t*> values) {
  if (std::none_of(values.begin(), values.end(), [](const std::uint64_t* v) { return *v == kAllOnes32; }))
    return;
  for (std::size_t at = extra; at + 4 <= extra + length;) {
    const std::size_t end = at + 4 + record.u16(at + 2);
    if (end > extra + length)
      fail(record.file(), record.offset() + at, "an extra field is longer than its record");
    if (record.u16(at) == kZip64Tag) {
      std::size_t field = at + 4;
      for (std::uint64_t* value : values)
        if (*value == kAllOnes32) {
          if (field + 8 > end) fail(record.file(), record.offset() + at, "the zip64 field is too short");
          *value = record.u64(field);
          field += 8;
        }
      return;
    }
    at = end;
  }
  fail(record.file(), record.offset() + extra, "a size is left to a zip64 field that is missing");
}

struct Directory {
  std::uint64_t offset = 0, size = 0, count = 0;
};

// From the record at the end of the file, which may point to a zip64 one before it.
Directory find_directory(const ByteSource& source, std::string_view file) {
  const std::uint64_t file_size = source.size();
  const std::uint64_t tail_size = std::min<std::uint64_t>(file_size, kEndSize + kAllOnes16);
  const Record tail(source, file_size - tail_size, tail_size, file, "the end record");
  std::size_t at = tail.size() < kEndSize ? 0 : tail.size() - kEndSize + 1;
  do {
    if (at-- == 0)
      fail(file, file_size, "not a complete .npz archive: the zip end record is missing", {},
           fmt::format("{} bytes", file_size));
  } while (tail.u32(at) != kEndSignature || at + kEndSize + tail.u16(at + 20) != tail.size());

  const std::uint64_t end = tail.offset() + at;
  if (tail.u16(at + 4) != 0 || tail.u16(at + 6) != 0 || tail.u16(at + 8) != tail.u16(at + 10))
    fail(file, end + 4, "archives of several disks are not supported", {}, {}, ErrorKind::kUnsupported);
  Directory directory{tail.u32(at + 16), tail.u32(at + 12), tail.u16(at + 10)};
  std::uint64_t directory_end = end;
  const bool has_locator = at >= kLocatorSize && tail.u32(at - kLocatorSize) == kLocatorSignature;
  if (has_locator) {
    directory_end = tail.u64(at - kLocatorSize + 8);
    const std::uint64_t locator = end - kLocatorSize;
    const Record wide(source, directory_end, kZip64EndSize, file, "the zip64 end record");
    if (wide.u32(0) != kZip64EndSignature || wide.u64(4) < kZip64EndSize - 12 || wide.u64(4) > locator ||
        directory_end + 12 + wide.u64(4) != locator)
      fail(file, directory_end, "malformed zip64 end record");
    const Directory narrow = std::exchange(directory, {wide.u64(48), wide.u64(40), wide.u64(32)});
    if ((narrow.offset != kAllOnes32 && narrow.offset != directory.offset) ||
        (narrow.size != kAllOnes32 && narrow.size != directory.size) ||
        (narrow.count != kAllOnes16 && narrow.count != directory.count))
      fail(file, end, "the two end records of the archive disagree");
  }
  if (directory.size > directory_end || directory.offset != directory_end - directory.size)
    fail(file, end + 12, "the central directory is not where the end record says",
         fmt::format("{} bytes that end at byte {}", directory.size, directory_end),
         fmt::format("a start at byte {}", directory.offset));
  if (directory.count > directory.size / kCentralSize)
    fail(file, end + 10, "more members than the central directory has room for", {},
         std::to_string(directory.count));
  return directory;
}

void check_local_header(const ByteSource& source, ZipEntry& entry, std::uint16_t flags, std::uint64_t limit,
                        std::string_view file) {
  const Record fixed(source, entry.header_offset, kLocalSize, file, "a local header");
  if (fixed.u32(0) != kLocalSignature)
    fail(file, entry.header_offset, "a local header is not where the directory says");
  const std::size_t name = fixed.u16(26), extra = fixed.u16(28);
  const Record record(source, entry.header_offset, kLocalSize + name + extra, file, "a local header");
  std::uint64_t compressed = record.u32(18), size = record.u32(22);
  // With a data descriptor the sizes stand behind the data and here are zero.
  const bool sizes_here = (flags & kDescriptorFlag) == 0;
  if (sizes_here) apply_zip64(record, kLocalSize + name, extra, {&size, &compressed});
  if (record.text(kLocalSize, name) != entry.name ||
      record.u16(8) != (entry.deflated ? kDeflated : kStored) ||
      (sizes_here &&
       (record.u32(14) != entry.crc || compressed != entry.compressed_size || size != entry.size)))
    fail(file, entry.header_offset,
         fmt::format("the local header of member {} disagrees with the directory", entry.name));
  entry.data_offset = entry.header_offset + record.size();
  if (entry.data_offset > limit || entry.compressed_size > limit - entry.data_offset)
    fail(file, entry.header_offset, fmt::format("member {} reaches past the data of the archive", entry.name),
         fmt::format("{} bytes", entry.compressed_size));
}

ZipEntry read_entry(const Record& directory, std::size_t& at, std::uint16_t& flags) {
  const std::string_view file = directory.file();
  const std::uint64_t offset = directory.offset() + at;
  if (directory.u32(at) != kCentralSignature)
    fail(file, offset, "malformed central directory", "the bytes PK\\1\\2");
  ZipEntry entry;
  flags = directory.u16(at + 8);
  const std::uint16_t method = directory.u16(at + 10);
  entry.crc = directory.u32(at + 16);
  entry.compressed_size = directory.u32(at + 20);
  entry.size = directory.u32(at + 24);
  entry.header_offset = directory.u32(at + 42);
  const std::size_t name = directory.u16(at + 28), extra = directory.u16(at + 30),
                    comment = directory.u16(at + 32);
  entry.name = directory.text(at + kCentralSize, name);
  if (std::any_of(entry.name.begin(), entry.name.end(), [](unsigned char c) { return c < ' ' || c == 127; }))
    fail(file, offset + kCentralSize, "the name of a member holds control characters");
  directory.text(at + kCentralSize + name, extra + comment);
  apply_zip64(directory, at + kCentralSize + name, extra,
              {&entry.size, &entry.compressed_size, &entry.header_offset});
  if (flags & kEncryptedFlag)
    fail(file, offset + 8, fmt::format("member {} is encrypted", entry.name), {}, {},
         ErrorKind::kUnsupported);
  if (method != kStored && method != kDeflated)
    fail(file, offset + 10,
         fmt::format("member {} uses another compression; save it with numpy.savez", entry.name),
         "stored or deflate", fmt::format("method {}", method), ErrorKind::kUnsupported);
  entry.deflated = method == kDeflated;
  if (!entry.deflated && entry.size != entry.compressed_size)
    fail(file, offset + 20, fmt::format("stored member {} has two sizes", entry.name),
         std::to_string(entry.size), std::to_string(entry.compressed_size));
  // What the compressed bytes can never yield is refused before anything is allocated for it.
  if (entry.deflated && entry.size / kLargestRatio > entry.compressed_size)
    fail(file, offset + 24,
         fmt::format("member {} claims more than its compressed bytes can hold", entry.name), {},
         fmt::format("{} bytes from {}", entry.size, entry.compressed_size));
  at += kCentralSize + name + extra + comment;
  return entry;
}

void check_overlaps(const std::vector<ZipEntry>& entries, std::string_view file) {
  std::vector<const ZipEntry*> order;
  for (const ZipEntry& e : entries) order.push_back(&e);
  std::sort(order.begin(), order.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->header_offset < b->header_offset; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->header_offset < order[i - 1]->data_offset + order[i - 1]->compressed_size)
      fail(file, order[i]->header_offset,
           fmt::format("members {} and {} overlap", order[i - 1]->name, order[i]->name));
}

void check_crc(const ZipEntry& entry, std::uint32_t crc, std::string_view file) {
  if (crc != entry.crc)
    fail(file, entry.data_offset, fmt::format("the content of member {} is damaged", entry.name),
         fmt::format("checksum {:08x}", entry.crc), fmt::format("{:08x}", crc));
}

class StoredStream final : public ZipStream {
 public:
  StoredStream(const ByteSource& source, const ZipEntry& entry, std::string_view file)
      : source_(source), entry_(entry), file_(file) {}

  std::uint64_t size() const override { return entry_.size; }

  void read(std::span<std::byte> out) override {
    if (out.size() > entry_.size - position_)
      fail(file_, entry_.data_offset + entry_.size, fmt::format("member {} ends early", entry_.name));
    source_.read(entry_.data_offset + position_, out);
    position_ += out.size();
    crc_ = crc32(crc_, out);
  }

  void finish() override { check_crc(entry_, crc_, file_); }

 private:
  const ByteSource& source_;
  const ZipEntry& entry_;
  std::string file_;
  std::uint64_t position_ = 0;
  std::uint32_t crc_ = 0;
};

#ifdef SYSTOLE_HAVE_ZLIB
class InflateStream final : public ZipStream {
 public:
  InflateStream(const ByteSource& source, const ZipEntry& entry, std::string_view file)
      : source_(source), entry_(entry), file_(file), input_(kInputSize) {
    if (::inflateInit2(&state_, -MAX_WBITS) != Z_OK)
      throw Error(ErrorKind::kOutOfMemory, file_, "no memory to decompress member " + entry.name);
  }
  ~InflateStream() override { ::inflateEnd(&state_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  std::uint64_t size() const override { return entry_.size; }

  void read(std::span<std::byte> out) override {
    std::span<std::byte> rest = out;
    while (!rest.empty()) {
      const std::size_t n = inflate_some(rest);
      if (n == 0) damaged("ends early");
      rest = rest.subspan(n);
    }
    crc_ = crc32(crc_, out);
  }

  void finish() override {
    std::byte extra;
    if (inflate_some({&extra, 1}) != 0) damaged("holds more than its header says");
    if (!ended_ || state_.avail_in != 0 || consumed_ != entry_.compressed_size)
      damaged("has bytes after its end");
    check_crc(entry_, crc_, file_);
  }

 private:
  static constexpr std::size_t kInputSize = 1 << 16, kLargestOutput = 1 << 30;

  [[noreturn]] void damaged(std::string_view how) const {
    fail(file_, entry_.data_offset + consumed_ - state_.avail_in,
         fmt::format("the compressed data of member {} {}", entry_.name, how));
  }

  // At least one byte, or 0 at the end of the stream.
  std::size_t inflate_some(std::span<std::byte> out) {
    const std::size_t wanted = std::min(out.size(), kLargestOutput);
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(wanted);
    while (!ended_ && state_.avail_out == wanted) {
      if (state_.avail_in == 0) refill();  // with nothing left zlib may still hold output
      const int status = ::inflate(&state_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) ended_ = true;
      if (status == Z_MEM_ERROR)
        throw Error(ErrorKind::kOutOfMemory, file_, "no memory to decompress member " + entry_.name);
      if (status == Z_BUF_ERROR) damaged("ends early");
      if (status != Z_OK && status != Z_STREAM_END) damaged("is malformed");
    }
    return wanted - state_.avail_out;
  }

  void refill() {
    const std::uint64_t left = entry_.compressed_size - consumed_;
    if (left == 0) return;
    const std::span<std::byte> chunk(input_.data(),
                                     static_cast<std::size_t>(std::min<std::uint64_t>(left, kInputSize)));
    source_.read(entry_.data_offset + consumed_, chunk);
    consumed_ += chunk.size();
    state_.next_in = reinterpret_cast<Bytef*>(chunk.data());
    state_.avail_in = static_cast<uInt>(chunk.size());
  }

  const ByteSource& source_;
  const ZipEntry& entry_;
  std::string file_;
  std::vector<std::byte> input_;
  z_stream state_{};
  std::uint64_t consumed_ = 0;  // compressed bytes handed to zlib
  bool ended_ = false;
  std::uint32_t crc_ = 0;
};
#endif

}  // namespace

std::vector<ZipEntry> read_zip_directory(const ByteSource& source, std::string_view file) {
  const Directory place = find_directory(source, file);
  const Record directory(source, place.offset, place.size, file, "the central directory");
  std::vector<ZipEntry> entries;
  std::set<std::string_view> names;
  std::size_t at = 0;
  entries.reserve(static_cast<std::size_t>(place.count));  // the set's views need the strings to stay
  for (std::uint64_t i = 0; i < place.count; ++i) {
    const std::uint64_t start = directory.offset() + at;
    std::uint16_t flags = 0;
    entries.push_back(read_entry(directory, at, flags));
    if (!names.insert(entries.back().name).second)
      fail(file, start, fmt::format("two members are called {}", entries.back().name));
    check_local_header(source, entries.back(), flags, place.offset, file);
  }
  if (at != directory.size())
    fail(file, directory.offset() + at, "the central directory is longer than its members", {},
         fmt::format("{} more bytes", directory.size() - at));
  check_overlaps(entries, file);
  return entries;
}

std::unique_ptr<ZipStream> open_zip_entry(const ByteSource& source, const ZipEntry& entry,
                                          std::string_view file) {
  if (!entry.deflated) return std::make_unique<StoredStream>(source, entry, file);
#ifdef SYSTOLE_HAVE_ZLIB
  return std::make_unique<InflateStream>(source, entry, file);
#else
  fail(
      file, entry.data_offset,
      fmt::format("member {} is compressed and this build has no zlib; save it with numpy.savez", entry.name),
      {}, {}, ErrorKind::kUnsupported);
#endif
}

}  // namespace systole::io
