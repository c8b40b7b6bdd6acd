#include "io/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "base/naming_file.h"
#include "io/npy_header.h"
#include "systole/base/error.h"
#include "systole/io.h"

namespace systole::io {

namespace {

static_assert(std::endian::native == std::endian::little, "the writer stores memory as it is");

constexpr std::string_view kMagic = "\x93NUMPY";
// A header of numbers takes a few hundred bytes; numpy's own limit is 10,000.
constexpr std::uint32_t kLargestHeader = 1 << 20;

[[noreturn]] void fail(std::string_view file, std::uint64_t at, std::string message,
                       std::string expected = {}, std::string got = {}, ErrorKind kind = ErrorKind::kParse) {
  throw Error(kind, fmt::format("{}: byte {}", file, at), std::move(message), std::move(expected),
              std::move(got));
}

[[noreturn]] void ends_early(std::string_view file, std::uint64_t size, std::string expected) {
  fail(file, size, "the file ends early", std::move(expected), "the end");
}

void check_magic(std::string_view start, std::string_view file) {
  if (start == kMagic) return;
  if (start.starts_with('\x80'))
    fail(file, 0,
         "this is a Python pickle, which is never loaded because it can run code; "
         "save the array with numpy.save(file, array, allow_pickle=False)",
         {}, {}, ErrorKind::kUnsupported);
  if (start.starts_with("PK")) fail(file, 0, "this is an archive, not a single array; name it .npz");
  fail(file, 0, "not an .npy file", "the bytes \\x93NUMPY at the start");
}

void to_little_endian(std::span<std::byte> bytes, std::size_t item) {
  for (std::size_t i = 0; i < bytes.size(); i += item)
    std::reverse(bytes.data() + i, bytes.data() + i + item);
}

// `source` has the first index running fastest; `target` gets the last one fastest.
template <class Word>
void transpose_items(const std::byte* source, std::byte* target, std::span<const std::int64_t> dims) {
  Ints strides;  // of the source, in items
  std::int64_t stride = 1;
  for (const std::int64_t d : dims) {
    strides.push_back(stride);
    stride *= d;
  }
  const std::size_t last = dims.size() - 1;
  Ints index(dims.size(), 0);
  std::int64_t row = 0;  // offset in the source of index with its last entry 0
  for (;;) {
    for (std::int64_t i = 0; i < dims[last]; ++i, target += sizeof(Word))
      std::memcpy(target, source + static_cast<std::size_t>(row + i * strides[last]) * sizeof(Word),
                  sizeof(Word));
    std::size_t axis = last;
    while (axis-- > 0) {
      row += strides[axis];
      if (++index[axis] < dims[axis]) break;
      row -= dims[axis] * strides[axis];
      index[axis] = 0;
    }
    if (axis > last) return;  // wrapped past axis 0
  }
}

Literal to_row_major(const Literal& columns) {
  Literal rows = Literal::uninitialized(columns.type());
  const Ints dims = columns.dims();
  std::byte* const target = rows.mutable_bytes();
  switch (size_of(columns.dtype())) {
    case 1: transpose_items<std::uint8_t>(columns.bytes(), target, dims); break;
    case 2: transpose_items<std::uint16_t>(columns.bytes(), target, dims); break;
    case 4: transpose_items<std::uint32_t>(columns.bytes(), target, dims); break;
    default: transpose_items<std::uint64_t>(columns.bytes(), target, dims); break;
  }
  return rows;
}

NpyHeader read_header(Stream& stream, std::string_view file, std::uint64_t& data_start) {
  const std::uint64_t size = stream.size();
  char start[12];
  const auto read = [&](std::size_t from, std::size_t count) {
    stream.read(std::as_writable_bytes(std::span(start + from, count)));
  };
  const std::size_t present = static_cast<std::size_t>(std::min<std::uint64_t>(size, 8));
  read(0, present);
  const std::string_view magic(start, std::min(present, kMagic.size()));
  if (present < 8 && kMagic.starts_with(magic))
    ends_early(file, size, "the 8 bytes every .npy file starts with");
  check_magic(magic, file);
  const int major = static_cast<unsigned char>(start[6]), minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0)
    fail(file, 6, "unknown version of the .npy format", "1.0, 2.0 or 3.0",
         fmt::format("{}.{}", major, minor));
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (size < 8 + length_bytes) ends_early(file, size, "the header's length");
  read(8, length_bytes);
  std::uint32_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(start[8 + i]);
  if (length > kLargestHeader)
    fail(file, 8, "the header is too long", fmt::format("at most {} bytes", kLargestHeader),
         std::to_string(length));
  data_start = 8 + length_bytes + length;
  if (size < data_start) ends_early(file, size, fmt::format("a header of {} bytes", length));
  std::string text(length, '\0');
  stream.read(std::as_writable_bytes(std::span(text)));
  return parse_npy_header(text, 8 + length_bytes, file);
}

class SourceStream final : public Stream {
 public:
  explicit SourceStream(const ByteSource& source) : source_(source) {}
  std::uint64_t size() const override { return source_.size(); }
  void read(std::span<std::byte> out) override {
    source_.read(position_, out);
    position_ += out.size();
  }

 private:
  const ByteSource& source_;
  std::uint64_t position_ = 0;
};

}  // namespace

Literal read_npy(Stream& stream, std::string_view file) {
  std::uint64_t data_start = 0;
  const NpyHeader header = read_header(stream, file, data_start);
  const std::uint64_t wanted = static_cast<std::uint64_t>(header.type.bytes());
  const std::uint64_t present = stream.size() - data_start;
  if (present < wanted)
    ends_early(
        file, stream.size(),
        fmt::format("{} bytes of data for {} from byte {} on", wanted, header.type.to_string(), data_start));
  if (present > wanted)
    fail(file, data_start + wanted, "bytes after the array", "the end",
         fmt::format("{} more bytes", present - wanted));

  Literal value = Literal::uninitialized(header.type);
  const std::span<std::byte> bytes(value.mutable_bytes(), value.byte_size());
  stream.read(bytes);
  if (header.big_endian) to_little_endian(bytes, size_of(value.dtype()));
  if (value.dtype() == DType::boolean)
    for (std::byte& b : bytes) b = std::byte{b != std::byte{0}};
  return header.fortran_order && value.rank() > 1 && value.count() > 0 ? to_row_major(value) : value;
}

Literal load_npy(const std::filesystem::path& file) {
  return naming_file(file, [&] {
    const std::unique_ptr<ByteSource> source = open_file(file);
    SourceStream stream(*source);
    return read_npy(stream, file.string());
  });
}

Literal parse_npy(std::span<const std::byte> bytes, std::string_view file) {
  const std::unique_ptr<ByteSource> source = memory_source(bytes);
  SourceStream stream(*source);
  return read_npy(stream, file);
}

void save_npy(const std::filesystem::path& file, const Literal& value) {
  const std::string prefix = npy_prefix(value.type());
  AtomicFile out(file);
  out.write(std::as_bytes(std::span(prefix)));
  out.write(value.as_bytes());
  out.commit();
}

std::vector<std::byte> npy_bytes(const Literal& value) {
  const std::string prefix = npy_prefix(value.type());
  const auto head = std::as_bytes(std::span(prefix));
  std::vector<std::byte> bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), value.as_bytes().begin(), value.as_bytes().end());
  return bytes;
}

}  // namespace systole::io
