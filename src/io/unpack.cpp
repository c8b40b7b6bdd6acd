// gzip and xz in memory. Output grows as it comes and stops at the limit; a stream that ends early, has wrong
// checksums or is followed by other bytes is refused.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "base/budget.h"
#include "base/file.h"
#include "systole/base/error.h"
#include "systole/io/archive.h"

#ifdef SYSTOLE_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef SYSTOLE_HAVE_LZMA
#include <lzma.h>
#endif

namespace systole::io {

namespace {

using Bytes = std::vector<std::byte>;

[[noreturn, maybe_unused]] void damaged(std::string_view file, std::string_view what, std::uint64_t at) {
  throw Error(ErrorKind::kParse, fmt::format("{}: byte {}", file, at),
              fmt::format("the packed data {}", what));
}

// Where unpacked bytes go.
class Output {
 public:
  Output(std::string_view file, std::uint64_t packed, std::uint64_t largest, const LengthOf& length)
      : file_(file), largest_(std::min(largest, expansion_limit(packed))), length_(length) {
    grow(std::min<std::uint64_t>(largest_, std::max<std::uint64_t>(4 * packed, 1 << 12)));
  }

  std::span<std::byte> room() {
    check_length();
    if (used_ == bytes_.size()) {
      // One byte more than the limit would be needed to see that it is passed.
      if (used_ > largest_) refuse();
      grow(used_ < largest_ / 2 ? 2 * used_ : largest_ + 1);
    }
    return std::span(bytes_).subspan(used_, std::min<std::size_t>(bytes_.size() - used_, 1 << 30));
  }
  void used(std::size_t count) { used_ += count; }

  Bytes finish() {
    check_length();
    if (used_ > largest_) refuse();
    bytes_.resize(used_);
    return std::move(bytes_);
  }

 private:
  // What the content says of its length is the limit, once it is known.
  void check_length() {
    if (!length_ || is_said_) return;
    const std::optional<std::uint64_t> said = length_(std::span<const std::byte>(bytes_).first(used_));
    if (!said) return;
    if (*said > largest_)
      throw Error(ErrorKind::kLimit, file_, "the file says that it unpacks to too much", at_most(),
                  fmt::format("{} bytes", *said));
    is_said_ = true;
    largest_ = *said;
    if (used_ > largest_) refuse();
    if (bytes_.size() > largest_ + 1) bytes_.resize(static_cast<std::size_t>(largest_ + 1));
  }

  std::string at_most() const {
    return fmt::format(
        "at most {} bytes; a file that is as it should be can be unpacked with gunzip or unxz and "
        "read then",
        largest_);
  }

  [[noreturn]] void refuse() const {
    if (is_said_)
      throw Error(ErrorKind::kParse, file_, "the file unpacks to more than its header says",
                  fmt::format("{} bytes", largest_), "more");
    throw Error(ErrorKind::kLimit, file_, "the file unpacks to too much", at_most(), "more");
  }

  void grow(std::uint64_t size) try {
    bytes_.resize(static_cast<std::size_t>(size));
  } catch (const std::exception&) {  // bad_alloc or length_error
    throw Error(ErrorKind::kOutOfMemory, file_, "no memory for the content", fmt::format("{} bytes", size));
  }

  std::string file_;
  std::uint64_t largest_;
  const LengthOf& length_;
  bool is_said_ = false;
  Bytes bytes_;
  std::size_t used_ = 0;
};

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}
constexpr std::string_view kGzip("\x1f\x8b", 2), kXz("\xfd"
                                                     "7zXZ\0",
                                                     6);

#ifdef SYSTOLE_HAVE_ZLIB
Bytes gunzip(std::span<const std::byte> bytes, std::string_view file, std::uint64_t largest,
             const LengthOf& length) {
  Output out(file, bytes.size(), largest, length);
  z_stream stream{};
  if (::inflateInit2(&stream, 15 + 16) != Z_OK)
    throw Error(ErrorKind::kOutOfMemory, std::string(file), "no memory to unpack");
  struct End {
    z_stream& stream;
    ~End() { ::inflateEnd(&stream); }
  } const end{stream};
  std::size_t given = 0;
  for (;;) {
    if (stream.avail_in == 0 && given < bytes.size()) {
      const std::size_t count = std::min<std::size_t>(bytes.size() - given, 1 << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + given));
      stream.avail_in = static_cast<uInt>(count);
      given += count;
    }
    const std::span<std::byte> room = out.room();
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    out.used(room.size() - stream.avail_out);
    const std::size_t at = given - stream.avail_in;
    if (status == Z_STREAM_END) {
      const std::span<const std::byte> rest = bytes.subspan(at);
      if (rest.empty()) return out.finish();
      if (!starts_with(rest, kGzip)) damaged(file, "is followed by other bytes", at);
      if (::inflateReset(&stream) != Z_OK) damaged(file, "is malformed", at);  // several members in a row
    } else if (status == Z_BUF_ERROR && stream.avail_in == 0 && given == bytes.size()) {
      damaged(file, "ends early", at);
    } else if (status == Z_MEM_ERROR) {
      throw Error(ErrorKind::kOutOfMemory, std::string(file), "no memory to unpack");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      damaged(file, "is malformed", at);
    }
  }
}
#endif

#ifdef SYSTOLE_HAVE_LZMA
Bytes unxz(std::span<const std::byte> bytes, std::string_view file, std::uint64_t largest,
           const LengthOf& length) {
  constexpr std::uint64_t kMostMemory = std::uint64_t{256} << 20;
  Output out(file, bytes.size(), largest, length);
  lzma_stream stream = LZMA_STREAM_INIT;
  if (::lzma_stream_decoder(&stream, kMostMemory, LZMA_CONCATENATED) != LZMA_OK)
    throw Error(ErrorKind::kOutOfMemory, std::string(file), "no memory to unpack");
  struct End {
    lzma_stream& stream;
    ~End() { ::lzma_end(&stream); }
  } const end{stream};
  stream.next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
  stream.avail_in = bytes.size();
  for (;;) {
    const std::span<std::byte> room = out.room();
    stream.next_out = reinterpret_cast<std::uint8_t*>(room.data());
    stream.avail_out = room.size();
    const lzma_ret status = ::lzma_code(&stream, stream.avail_in == 0 ? LZMA_FINISH : LZMA_RUN);
    out.used(room.size() - stream.avail_out);
    const std::size_t at = bytes.size() - stream.avail_in;
    switch (status) {
      case LZMA_OK: break;
      case LZMA_STREAM_END: return out.finish();
      case LZMA_MEM_ERROR: throw Error(ErrorKind::kOutOfMemory, std::string(file), "no memory to unpack");
      case LZMA_MEMLIMIT_ERROR:
        throw Error(ErrorKind::kLimit, std::string(file), "unpacking takes too much memory",
                    fmt::format("at most {} bytes", kMostMemory));
      case LZMA_OPTIONS_ERROR:
        throw Error(ErrorKind::kUnsupported, std::string(file), "packed with options that liblzma lacks");
      case LZMA_BUF_ERROR: damaged(file, "ends early", at);
      default: damaged(file, "is malformed", at);
    }
  }
}
#endif

}  // namespace

std::vector<std::byte> unpack(std::span<const std::byte> bytes, std::string_view file, std::uint64_t largest,
                              const LengthOf& length) {
  if (starts_with(bytes, kGzip)) {
#ifdef SYSTOLE_HAVE_ZLIB
    return gunzip(bytes, file, largest, length);
#else
    throw Error(ErrorKind::kUnsupported, std::string(file),
                "this build has no zlib; unpack the file with gunzip");
#endif
  }
  if (starts_with(bytes, kXz)) {
#ifdef SYSTOLE_HAVE_LZMA
    return unxz(bytes, file, largest, length);
#else
    throw Error(ErrorKind::kUnsupported, std::string(file),
                "this build has no liblzma; unpack the file with unxz");
#endif
  }
  if (bytes.size() > largest)
    throw Error(ErrorKind::kLimit, std::string(file), "the file is too large",
                fmt::format("at most {} bytes", largest), fmt::format("{}", bytes.size()));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> read_unpacked(const std::filesystem::path& file, std::uint64_t largest,
                                     const LengthOf& length) {
  const std::unique_ptr<ByteSource> source = open_file(file);
  if (source->size() > largest)
    throw Error(ErrorKind::kLimit, file.string(), "the file is too large",
                fmt::format("at most {} bytes", largest), fmt::format("{}", source->size()));
  Bytes bytes;
  try {
    bytes.resize(static_cast<std::size_t>(source->size()));
  } catch (const std::exception&) {
    throw Error(ErrorKind::kOutOfMemory, file.string(), "no memory for the content",
                fmt::format("{} bytes", source->size()));
  }
  source->read(0, bytes);
  if (!starts_with(bytes, kGzip) && !starts_with(bytes, kXz)) return bytes;
  return unpack(bytes, file.string(), largest, length);
}

}  // namespace systole::io
