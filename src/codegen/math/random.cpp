// random_bits: Philox-4x32-10, of which an element takes one word, or two when it is 64 bits wide.

#include <string_view>

#include "codegen/math/texts.h"

namespace systole::codegen::math {

namespace {

constexpr std::string_view kPhilox = R"c(
// Word `word` of the block, of which the counter's upper half is 0; words 2n and 2n + 1 when joined.
S_FN s_u64 s_philox(s_u32 k0, s_u32 k1, s_u64 block, s_u32 word) {
  s_u32 c0 = (s_u32)block, c1 = (s_u32)(block >> 32), c2 = 0u, c3 = 0u;
  for (int round = 0; round < 10; ++round) {
    s_u64 a = (s_u64)0xd2511f53u * c0, b = (s_u64)0xcd9e8d57u * c2;
    c0 = (s_u32)(b >> 32) ^ c1 ^ k0;
    c2 = (s_u32)(a >> 32) ^ c3 ^ k1;
    c1 = (s_u32)b;
    c3 = (s_u32)a;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  s_u64 low = (word & 2u) != 0u ? c2 : c0, high = (word & 2u) != 0u ? c3 : c1;
  return (word & 1u) != 0u ? high : low | high << 32;
}

S_FN s_u64 s_random_u64(s_u32 k0, s_u32 k1, s_u64 i) { return s_philox(k0, k1, i / 2u, 2u * (s_u32)(i % 2u)); }
)c";

}  // namespace

std::string random_text() {
  std::string text(kPhilox);
  for (std::string_view type : {"u32", "u16", "u8"})
    text += filled(
        "S_FN s_$T s_random_$T(s_u32 k0, s_u32 k1, s_u64 i) { return (s_$T)s_philox(k0, k1, i / 4u, "
        "(s_u32)(i % 4u)); }\n",
        {{"$T", type}});
  return text;
}

}  // namespace systole::codegen::math
