// Any bytes as safetensors: either a typed refusal or arrays that survive being written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "systole/base/error.h"
#include "systole/io/safetensors.h"

namespace {

using systole::Error;
using systole::ErrorKind;
using systole::io::SafetensorsReader;

void check_round_trip(const SafetensorsReader& file) {
  std::vector<systole::io::NamedArray> arrays;
  for (std::string& name : file.names()) {
    systole::Literal value = file.read(name);
    arrays.push_back({std::move(name), std::move(value)});
  }
  const std::vector<std::byte> bytes =
      systole::io::safetensors_bytes(arrays, file.metadata(), {.digest = true});
  const SafetensorsReader again = SafetensorsReader::of_bytes(bytes, "again.safetensors");
  if (again.names() != file.names() || again.metadata() != file.metadata()) std::abort();
  if (again.check_digest() != systole::io::Digest::right) std::abort();
  for (const systole::io::NamedArray& array : arrays)
    if (!again.read(array.name).same_bits(array.value)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const SafetensorsReader file =
        SafetensorsReader::of_bytes(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
    file.check_digest();
    check_round_trip(file);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kParse && error.kind() != ErrorKind::kUnsupported &&
        error.kind() != ErrorKind::kLimit)
      std::abort();
  }
  return 0;
}
