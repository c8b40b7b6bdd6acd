// Any bytes as .npy and as .npz: either a typed refusal or arrays that survive being written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "systole/base/error.h"
#include "systole/io.h"

namespace {

using systole::Error;
using systole::ErrorKind;
using systole::Literal;

void check_round_trip(const Literal& value) {
  // f8e5m2, which ml_dtypes marks and numpy cannot load, is written as plain bytes.
  const Literal again = systole::io::parse_npy(systole::io::npy_bytes(value), "again.npy");
  if (!again.reinterpreted(value.dtype()).same_bits(value)) std::abort();
}

template <class F>
void expect_value_or_refusal(F&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kParse && error.kind() != ErrorKind::kUnsupported) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  expect_value_or_refusal([&] { check_round_trip(systole::io::parse_npy(bytes, "fuzz.npy")); });
  expect_value_or_refusal([&] {
    for (const auto& array : systole::io::parse_npz(bytes, "fuzz.npz")) check_round_trip(array.value);
  });
  return 0;
}
