#pragma once

// SHA-256 (FIPS 180-4), by the processor's own instructions where it has them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace systole {

using Sha256Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256();
  Sha256& add(std::span<const std::byte> bytes);
  Sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Sha256Digest finish();  // once

  // For tests: whether the portable code is used in any case.
  static void use_portable(bool on);

 private:
  std::array<std::uint32_t, 8> state_;
  std::array<std::byte, 64> rest_;
  std::uint64_t length_ = 0;
};

Sha256Digest sha256(std::span<const std::byte> bytes);
std::string hex(std::span<const std::byte> bytes);  // lower case

}  // namespace systole
