#include "io/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/file.h"

namespace systole::io {

namespace {

// Both cut the bytes into blocks of 64, the last filled up with 1, 0 … and the number of bits.
template <class Rounds>
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), block_.size() - used_);
      std::memcpy(block_.data() + used_, bytes.data(), count);
      used_ += count;
      bytes = bytes.subspan(count);
      if (used_ == block_.size()) flush();
    }
  }

  std::string finish() {
    const std::uint64_t bits = length_ * 8;
    const std::byte one{0x80}, zero{0};
    add(std::span(&one, 1));
    while (used_ != 56) add(std::span(&zero, 1));
    std::array<std::byte, 8> count;
    for (std::size_t i = 0; i < 8; ++i)
      count[Rounds::kBigEndian ? 7 - i : i] = static_cast<std::byte>(bits >> (8 * i) & 0xff);
    add(count);
    std::string text;
    for (const std::uint32_t word : rounds_.state)
      text += fmt::format("{:08x}", Rounds::kBigEndian ? word : __builtin_bswap32(word));
    return text;
  }

 private:
  void flush() {
    std::array<std::uint32_t, 16> words;
    for (std::size_t i = 0; i < 16; ++i) {
      std::memcpy(&words[i], block_.data() + 4 * i, 4);
      if (Rounds::kBigEndian) words[i] = __builtin_bswap32(words[i]);
    }
    rounds_.take(words);
    used_ = 0;
  }

  Rounds rounds_;
  std::array<std::byte, 64> block_;
  std::size_t used_ = 0;
  std::uint64_t length_ = 0;
};

// The constants are digits of roots of primes; the first 32 bits behind the point.
std::uint32_t fraction_bits(long double root) {
  return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
}

struct Sha256 {
  static constexpr bool kBigEndian = true;
  std::array<std::uint32_t, 8> state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  static const std::array<std::uint32_t, 64>& constants() {
    static const std::array<std::uint32_t, 64> made = [] {
      std::array<std::uint32_t, 64> k{};
      std::size_t found = 0;
      for (int n = 2; found < k.size(); ++n) {
        bool prime = true;
        for (int d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
        if (prime) k[found++] = fraction_bits(std::cbrt(static_cast<long double>(n)));
      }
      return k;
    }();
    return made;
  }

  void take(const std::array<std::uint32_t, 16>& words) {
    std::array<std::uint32_t, 64> w;
    std::copy(words.begin(), words.end(), w.begin());
    for (std::size_t i = 16; i < 64; ++i) {
      const std::uint32_t a = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const std::uint32_t b = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    const std::array<std::uint32_t, 64>& k = constants();
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + k[i] + w[i];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::uint32_t added[] = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
  }
};

struct Md5 {
  static constexpr bool kBigEndian = false;
  std::array<std::uint32_t, 4> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};

  static const std::array<std::uint32_t, 64>& constants() {
    static const std::array<std::uint32_t, 64> made = [] {
      std::array<std::uint32_t, 64> k{};
      for (std::size_t i = 0; i < k.size(); ++i)
        k[i] =
            static_cast<std::uint32_t>(std::abs(std::sin(static_cast<long double>(i + 1))) * 4294967296.0L);
      return k;
    }();
    return made;
  }

  void take(const std::array<std::uint32_t, 16>& words) {
    static constexpr int kTurns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    const std::array<std::uint32_t, 64>& k = constants();
    auto [a, b, c, d] = state;
    for (std::uint32_t i = 0; i < 64; ++i) {
      const std::uint32_t round = i / 16;
      const std::uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                                  : round == 1 ? (d & b) | (~d & c)
                                  : round == 2 ? b ^ c ^ d
                                               : c ^ (b | ~d);
      const std::uint32_t place = (round == 0   ? i
                                   : round == 1 ? 5 * i + 1
                                   : round == 2 ? 3 * i + 5
                                                : 7 * i) %
                                  16;
      const std::uint32_t sum = a + mixed + k[i] + words[place];
      a = d, d = c, c = b;
      b += std::rotl(sum, kTurns[round][i % 4]);
    }
    const std::uint32_t added[] = {a, b, c, d};
    for (std::size_t i = 0; i < 4; ++i) state[i] += added[i];
  }
};

template <class Rounds>
std::string of_file(const std::filesystem::path& file) {
  const std::unique_ptr<ByteSource> source = open_file(file);
  Digest<Rounds> digest;
  std::vector<std::byte> chunk(1 << 20);
  for (std::uint64_t at = 0; at < source->size();) {
    const std::span<std::byte> part(chunk.data(), std::min<std::uint64_t>(chunk.size(), source->size() - at));
    source->read(at, part);
    digest.add(part);
    at += part.size();
  }
  return digest.finish();
}

template <class Rounds>
std::string of_bytes(std::span<const std::byte> bytes) {
  Digest<Rounds> digest;
  digest.add(bytes);
  return digest.finish();
}

}  // namespace

std::string digest(DigestKind kind, std::span<const std::byte> bytes) {
  return kind == DigestKind::sha256 ? of_bytes<Sha256>(bytes) : of_bytes<Md5>(bytes);
}

std::string file_digest(DigestKind kind, const std::filesystem::path& file) {
  return kind == DigestKind::sha256 ? of_file<Sha256>(file) : of_file<Md5>(file);
}

}  // namespace systole::io
