#pragma once

// Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): a block of four words as a
// function of a counter and a key, by ten rounds of multiply and exclusive or.

#include <array>
#include <cstdint>

namespace systole::eval {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(a)};
    k = {k[0] + 0x9E3779B9, k[1] + 0xBB67AE85};  // golden ratio, sqrt(3) - 1
  }
  return c;
}

}  // namespace systole::eval
