// Any bytes as every kind of data file: either a typed refusal or arrays of the size they claim. The first
// byte chooses the kind.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "systole/base/error.h"
#include "systole/data/sets.h"
#include "systole/io/archive.h"
#include "systole/io/picture.h"
#include "systole/io/wav.h"

namespace {

using systole::Error;
using systole::ErrorKind;
namespace data = systole::data;
namespace io = systole::io;

constexpr std::uint64_t kLargest = 1 << 22;

void read(unsigned kind, std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (kind % 7) {
    case 0: (void)data::parse_idx(bytes, "fuzz.idx"); break;
    case 1: (void)data::parse_cifar10(bytes, "fuzz.bin"); break;
    case 2:
      for (const data::Column& column : data::parse_csv(text, "fuzz.csv").columns)
        (void)column.values.to_doubles();
      break;
    case 3: (void)io::parse_wav(bytes, "fuzz.wav"); break;
    case 4: (void)io::parse_tar(bytes, "fuzz.tar"); break;
    case 5: (void)io::unpack(bytes, "fuzz.gz", kLargest); break;
    default: (void)io::parse_picture(bytes, "fuzz.png", {.largest_pixels = 1 << 16}); break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0], std::as_bytes(std::span(data + 1, size - 1)));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal || error.kind() == ErrorKind::kOutOfMemory) std::abort();
  }
  return 0;
}
