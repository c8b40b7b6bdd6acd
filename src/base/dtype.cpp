#include "systole/base/dtype.h"

#include <bit>
#include <cmath>
#include <limits>
#include <ostream>
#include <utility>

namespace systole {

namespace {

struct Facts {
  std::string_view name;
  std::uint8_t size;
  int mantissa;  // explicit mantissa bits; 0 for integers
};

constexpr Facts kFacts[kDTypeCount] = {
    {"f64", 8, 52},   {"f32", 4, 23}, {"f16", 2, 10}, {"bf16", 2, 7}, {"f8e4m3fn", 1, 3},
    {"f8e5m2", 1, 2}, {"i64", 8, 0},  {"i32", 4, 0},  {"i16", 2, 0},  {"i8", 1, 0},
    {"u64", 8, 0},    {"u32", 4, 0},  {"u16", 2, 0},  {"u8", 1, 0},   {"bool", 1, 0},
};

DType signed_of_size(std::size_t bytes) {
  return bytes == 1 ? DType::i8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64;
}

constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;
constexpr std::uint64_t kInfinityBits = std::uint64_t{0x7ff} << 52;
constexpr std::uint64_t kQuietNanBits = std::uint64_t{0xfff} << 51;

}  // namespace

std::string_view name(DType dtype) { return kFacts[static_cast<int>(dtype)].name; }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }
std::size_t size_of(DType dtype) { return kFacts[static_cast<int>(dtype)].size; }

double epsilon(DType dtype) {
  return is_float(dtype) ? std::ldexp(1.0, -kFacts[static_cast<int>(dtype)].mantissa) : 0;
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kFacts[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::boolean) return b;
  if (b == DType::boolean) return a;
  if (is_float(a) && is_float(b)) {
    if (size_of(a) == 1 || size_of(b) == 1) return std::nullopt;
    if (size_of(a) == size_of(b)) return DType::f32;  // f16 with bf16
    return size_of(a) > size_of(b) ? a : b;
  }
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  if (is_signed_integer(a) == is_signed_integer(b)) return size_of(a) > size_of(b) ? a : b;
  if (is_signed_integer(b)) std::swap(a, b);  // a is the signed one
  if (size_of(a) > size_of(b)) return a;
  return b == DType::u64 ? DType::f32 : signed_of_size(2 * size_of(b));
}

template <class Bits, int E, int M, bool FiniteOnly>
Bits SmallFloat<Bits, E, M, FiniteOnly>::encode(double value) {
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr Bits exponent_mask = static_cast<Bits>(((1 << E) - 1) << M);
  constexpr Bits quiet_nan =
      FiniteOnly ? static_cast<Bits>((1 << (E + M)) - 1) : static_cast<Bits>(exponent_mask | 1 << (M - 1));
  constexpr Bits overflow = FiniteOnly ? quiet_nan : exponent_mask;
  constexpr std::int64_t limit = FiniteOnly ? quiet_nan : exponent_mask;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & ~kSignBit;
  const Bits sign = static_cast<Bits>((bits >> 63) << (E + M));
  if (magnitude > kInfinityBits) return static_cast<Bits>(sign | quiet_nan);
  std::int64_t result;
  if (magnitude >= std::uint64_t{1024 - bias} << 52) {
    // A normal number: round away the mantissa bits that do not fit (a carry steps the exponent), then rebase
    // it.
    constexpr int drop = 52 - M;
    const std::uint64_t rounded =
        magnitude + ((std::uint64_t{1} << (drop - 1)) - 1) + (magnitude >> drop & 1);
    result = static_cast<std::int64_t>(rounded >> drop) - (static_cast<std::int64_t>(1023 - bias) << M);
  } else {
    // A denormal counts units of the smallest one; rounding up to the smallest normal gives its bits too.
    result = static_cast<std::int64_t>(std::nearbyint(std::ldexp(std::fabs(value), bias - 1 + M)));
  }
  return static_cast<Bits>(sign | (result >= limit ? overflow : static_cast<Bits>(result)));
}

template <class Bits, int E, int M, bool FiniteOnly>
double SmallFloat<Bits, E, M, FiniteOnly>::decode(Bits bits) {
  constexpr int bias = (1 << (E - 1)) - 1;
  const int exponent = bits >> M & ((1 << E) - 1);
  const std::uint64_t mantissa = bits & ((1 << M) - 1);
  const std::uint64_t sign = static_cast<std::uint64_t>(bits >> (E + M)) << 63;
  const bool top = exponent == (1 << E) - 1;
  if (top && (FiniteOnly ? mantissa == (1 << M) - 1 : mantissa != 0))
    return std::bit_cast<double>(sign | kQuietNanBits);
  if (top && !FiniteOnly) return std::bit_cast<double>(sign | kInfinityBits);
  if (exponent == 0) {
    const double magnitude = std::ldexp(static_cast<double>(mantissa), 1 - bias - M);
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<double>(sign | static_cast<std::uint64_t>(exponent - bias + 1023) << 52 |
                               mantissa << (52 - M));
}

template class SmallFloat<std::uint16_t, 5, 10>;
template class SmallFloat<std::uint16_t, 8, 7>;
template class SmallFloat<std::uint8_t, 4, 3, true>;
template class SmallFloat<std::uint8_t, 5, 2>;

}  // namespace systole
