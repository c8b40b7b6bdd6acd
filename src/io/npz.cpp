// An .npz file is a zip archive with one .npy member per array, called NAME.npy.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/budget.h"
#include "base/file.h"
#include "base/naming_file.h"
#include "io/npy.h"
#include "io/npy_header.h"
#include "io/zip.h"
#include "systole/base/error.h"
#include "systole/io.h"

namespace systole::io {

namespace {

constexpr std::string_view kSuffix = ".npy";

// A single array or a pickle under the name of an archive is a common mistake and deserves its own sentence.
void check_start(const ByteSource& source, std::string_view file) {
  char start[6] = {};
  if (source.size() < sizeof(start)) return;
  source.read(0, std::as_writable_bytes(std::span(start)));
  const std::string_view text(start, sizeof(start));
  const std::string where = fmt::format("{}: byte 0", file);
  if (text == "\x93NUMPY")
    throw Error(ErrorKind::kParse, where, "this is a single array, not an archive; name it .npy");
  if (text[0] == '\x80')
    throw Error(ErrorKind::kUnsupported, where,
                "this is a Python pickle, which is never loaded because it can run code; "
                "save the arrays with numpy.savez");
}

std::vector<NamedArray> read_npz(const ByteSource& source, std::string_view file) {
  check_start(source, file);
  std::vector<NamedArray> arrays;
  // Members as they are take no more than the file; what is compressed may be a thousand times as much.
  Budget budget(std::string(file), expansion_limit(source.size()),
                "save the arrays with numpy.savez, which does not compress");
  for (const ZipEntry& entry : read_zip_directory(source, file)) {
    const std::string_view name = entry.name;
    if (entry.deflated) budget.take(entry.size, fmt::format("array {}", name));
    if (!name.ends_with(kSuffix))
      throw Error(ErrorKind::kParse, fmt::format("{}: byte {}", file, entry.header_offset),
                  fmt::format("member {} is not an array", name), "names that end in .npy");
    const std::unique_ptr<ZipStream> stream = open_zip_entry(source, entry, file);
    // Offsets inside a member count from its own start.
    Literal value = read_npy(*stream, fmt::format("{}: {}", file, name));
    stream->finish();
    arrays.push_back({std::string(name.substr(0, name.size() - kSuffix.size())), std::move(value)});
  }
  return arrays;
}

// Programs that unpack archives make files of the members, so no name may lead out of their folder. Reading
// takes any name: there it is only a key.
bool leads_elsewhere(std::string_view name) {
  if (name.starts_with('/') || name.find('\\') != std::string_view::npos) return true;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::vector<NamedArray> load_npz(const std::filesystem::path& file) {
  return naming_file(file, [&] { return read_npz(*open_file(file), file.string()); });
}

std::vector<NamedArray> parse_npz(std::span<const std::byte> bytes, std::string_view file) {
  return read_npz(*memory_source(bytes), file);
}

void save_npz(const std::filesystem::path& file, std::span<const NamedArray> arrays) {
  std::set<std::string_view> names;
  for (const NamedArray& array : arrays) {
    for (const unsigned char c : array.name)
      if (c < ' ' || c == 127)
        throw Error(ErrorKind::kInvalidArgument, file.string(),
                    "the name of an array holds control characters");
    if (leads_elsewhere(array.name))
      throw Error(ErrorKind::kInvalidArgument, file.string(), "the name of an array is an unsafe path",
                  "a relative name without .. and \\", array.name);
    if (!names.insert(array.name).second)
      throw Error(ErrorKind::kInvalidArgument, file.string(),
                  fmt::format("two arrays are called {}", array.name));
  }
  AtomicFile out(file);
  ZipWriter zip(out);
  for (const NamedArray& array : arrays) {
    const std::string prefix = npy_prefix(array.value.type());
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(prefix)), array.value.as_bytes()};
    zip.add(array.name + std::string(kSuffix), pieces);
  }
  zip.finish();
  out.commit();
}

}  // namespace systole::io
