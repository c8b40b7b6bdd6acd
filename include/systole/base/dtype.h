#pragma once

// Element types: their names, sizes, promotion, and the small float formats that C++20 lacks.

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string_view>

#include "systole/base/export.h"

namespace systole {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3fn,
  f8e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};
inline constexpr int kDTypeCount = 15;

SYSTOLE_API std::string_view name(DType dtype);                        // "f32", …, "bool"
SYSTOLE_API std::ostream& operator<<(std::ostream& out, DType dtype);  // its name
SYSTOLE_API std::optional<DType> parse_dtype(std::string_view text);
SYSTOLE_API std::size_t size_of(DType dtype);  // bytes per element
SYSTOLE_API double epsilon(DType dtype);       // distance from 1 to the next value; 0 for integers and bool

constexpr bool is_float(DType d) { return d <= DType::f8e5m2; }
constexpr bool is_signed_integer(DType d) { return d >= DType::i64 && d <= DType::i8; }
constexpr bool is_unsigned_integer(DType d) { return d >= DType::u64 && d <= DType::u8; }
constexpr bool is_integer(DType d) { return is_signed_integer(d) || is_unsigned_integer(d); }

// The dtype of an expression of both: JAX's lattice (int + float is the float's, f16 + bf16 is f32, u64 +
// signed is f32, never an implicit f64). Two different 8-bit floats, or one with a wider float, have none:
// convert first.
SYSTOLE_API std::optional<DType> promote(DType a, DType b);

// A set of dtypes, as op definitions use it.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  constexpr explicit DTypeSet(std::uint32_t bits) : bits_(bits) {}
  constexpr DTypeSet(DType d) : bits_(1u << static_cast<int>(d)) {}
  constexpr bool contains(DType d) const { return bits_ >> static_cast<int>(d) & 1; }
  constexpr DTypeSet operator|(DTypeSet o) const { return DTypeSet(bits_ | o.bits_); }
  constexpr bool operator==(const DTypeSet&) const = default;

 private:
  std::uint32_t bits_ = 0;
};
inline constexpr DTypeSet kFloats{0x3f}, kSignedInts{0x3c0}, kUnsignedInts{0x3c00};
inline constexpr DTypeSet kBool{DType::boolean}, kInts = kSignedInts | kUnsignedInts;
inline constexpr DTypeSet kSigned = kFloats | kSignedInts, kNumbers = kFloats | kInts, kBits = kInts | kBool;
inline constexpr DTypeSet kAnyDType = kNumbers | kBool;

// A float of `E` exponent and `M` mantissa bits, stored as an integer. Conversion rounds to nearest even and
// keeps denormals. FiniteOnly formats (f8e4m3fn) have no infinity: overflow gives NaN.
template <class Bits, int E, int M, bool FiniteOnly = false>
class SmallFloat {
 public:
  constexpr SmallFloat() = default;
  explicit SmallFloat(double value) : bits_(encode(value)) {}
  static constexpr SmallFloat from_bits(Bits bits) {
    SmallFloat f;
    f.bits_ = bits;
    return f;
  }
  constexpr Bits bits() const { return bits_; }
  operator double() const { return decode(bits_); }

 private:
  static Bits encode(double value);
  static double decode(Bits bits);
  Bits bits_ = 0;
};

using f16 = SmallFloat<std::uint16_t, 5, 10>;
using bf16 = SmallFloat<std::uint16_t, 8, 7>;
using f8e4m3fn = SmallFloat<std::uint8_t, 4, 3, true>;
using f8e5m2 = SmallFloat<std::uint8_t, 5, 2>;

// The DType of a C++ element type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<f8e4m3fn> {
  static constexpr DType value = DType::f8e4m3fn;
};
template <>
struct DTypeOf<f8e5m2> {
  static constexpr DType value = DType::f8e5m2;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<long long> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<unsigned long long> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::u64;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Calls `f.template operator()<T>()` with the C++ element type of `dtype`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f.template operator()<double>();
    case DType::f32: return f.template operator()<float>();
    case DType::f16: return f.template operator()<f16>();
    case DType::bf16: return f.template operator()<bf16>();
    case DType::f8e4m3fn: return f.template operator()<f8e4m3fn>();
    case DType::f8e5m2: return f.template operator()<f8e5m2>();
    case DType::i64: return f.template operator()<std::int64_t>();
    case DType::i32: return f.template operator()<std::int32_t>();
    case DType::i16: return f.template operator()<std::int16_t>();
    case DType::i8: return f.template operator()<std::int8_t>();
    case DType::u64: return f.template operator()<std::uint64_t>();
    case DType::u32: return f.template operator()<std::uint32_t>();
    case DType::u16: return f.template operator()<std::uint16_t>();
    case DType::u8: return f.template operator()<std::uint8_t>();
    case DType::boolean: return f.template operator()<bool>();
  }
  __builtin_unreachable();
}

extern template class SYSTOLE_API SmallFloat<std::uint16_t, 5, 10>;
extern template class SYSTOLE_API SmallFloat<std::uint16_t, 8, 7>;
extern template class SYSTOLE_API SmallFloat<std::uint8_t, 4, 3, true>;
extern template class SYSTOLE_API SmallFloat<std::uint8_t, 5, 2>;

}  // namespace systole
