#pragma once

// What kernels.h passes to a kernel, and says of a kernel's parameter, without the C++ types. For the
// library's own use.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/runtime/launch.h"
#include "systole/tensor/device_array.h"

namespace systole::detail {

template <class T>
inline constexpr bool is_small_float = false;
template <class Bits, int E, int M, bool F>
inline constexpr bool is_small_float<SmallFloat<Bits, E, M, F>> = true;
template <class T>
inline constexpr bool is_local_array = false;
template <class T>
inline constexpr bool is_local_array<LocalArray<T>> = true;

template <class T>
inline constexpr bool is_integral = std::is_integral_v<T> || std::is_enum_v<T>;
template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T> || is_small_float<T>;
template <class T>
concept PlainStruct = std::is_trivially_copyable_v<T> && (std::is_class_v<T> || std::is_union_v<T>) &&
                      !is_small_float<T> && !is_local_array<T>;

template <Number T>
constexpr DType dtype_of_number() {
  constexpr DType kSigned[] = {DType::i8, DType::i16, DType::i32, DType::i64};
  constexpr DType kUnsigned[] = {DType::u8, DType::u16, DType::u32, DType::u64};
  constexpr int kPower = std::bit_width(sizeof(T)) - 1;
  if constexpr (std::is_enum_v<T>)
    return dtype_of_number<std::underlying_type_t<T>>();
  else if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_integral_v<T>)
    return std::is_signed_v<T> ? kSigned[kPower] : kUnsigned[kPower];
  else if constexpr (is_small_float<T>)
    return dtype_of<T>;
  else
    return sizeof(T) == 4 ? DType::f32 : DType::f64;
}
template <Number T>
inline constexpr DType number_dtype = dtype_of_number<T>();

// The numbers that a std::array has, which may stand for a vector such as float4; of other structs nothing is
// known but their size.
template <class T>
struct Lanes {
  static constexpr std::optional<DType> kDType{};
  static constexpr int kCount = 1;
};
template <Number T, std::size_t N>
struct Lanes<std::array<T, N>> {
  static constexpr std::optional<DType> kDType = number_dtype<T>;
  static constexpr int kCount = static_cast<int>(N);
};

struct KernelValue {
  enum class Kind : std::uint8_t { array, signed_integer, unsigned_integer, floating, local, bytes };

  Kind kind = Kind::bytes;
  std::optional<DType> dtype{};          // none: bytes of a struct
  int lanes = 1;                         // of bytes that are numbers
  const DeviceMemory* named = nullptr;   // an array of the program's
  DeviceMemory* writable = nullptr;      // the same unless it was given as const
  std::shared_ptr<DeviceMemory> kept{};  // an array without a name
  std::int64_t signed_integer = 0;       // also the count of local memory
  std::uint64_t unsigned_integer = 0;
  double floating = 0;
  std::vector<std::byte> bytes{};

  const DeviceMemory& memory() const { return named != nullptr ? *named : *kept; }

  static KernelValue array(DType dtype, const DeviceMemory* named, DeviceMemory* writable) {
    return {.kind = Kind::array, .dtype = dtype, .named = named, .writable = writable};
  }
  // What is written to a slice is written to its array, so one may be a temporary.
  static KernelValue array(DType dtype, const DeviceMemory& temporary) {
    KernelValue value{
        .kind = Kind::array, .dtype = dtype, .kept = std::make_shared<DeviceMemory>(temporary.alias())};
    if (temporary.is_slice()) value.writable = value.kept.get();
    return value;
  }
  static KernelValue local(DType dtype, std::int64_t count) {
    return {.kind = Kind::local, .dtype = dtype, .signed_integer = count};
  }
  template <class T>
  static KernelValue copy_of(const T& x) {
    const auto bytes = std::as_bytes(std::span(&x, 1));
    return {.kind = Kind::bytes,
            .dtype = Lanes<T>::kDType,
            .lanes = Lanes<T>::kCount,
            .bytes = {bytes.begin(), bytes.end()}};
  }
  template <Number T>
  static KernelValue number(T x);
};

template <Number T>
constexpr KernelValue::Kind kind_of_number() {
  if constexpr (std::is_enum_v<T>)
    return kind_of_number<std::underlying_type_t<T>>();
  else if constexpr (!std::is_integral_v<T>)
    return KernelValue::Kind::floating;
  else
    return std::is_signed_v<T> ? KernelValue::Kind::signed_integer : KernelValue::Kind::unsigned_integer;
}
template <Number T>
inline constexpr KernelValue::Kind number_kind = kind_of_number<T>();

template <Number T>
KernelValue KernelValue::number(T x) {
  KernelValue value{.kind = number_kind<T>, .dtype = number_dtype<T>};
  if constexpr (number_kind<T> == Kind::floating)
    value.floating = static_cast<double>(x);
  else if constexpr (number_kind<T> == Kind::signed_integer)
    value.signed_integer = static_cast<std::int64_t>(x);
  else
    value.unsigned_integer = static_cast<std::uint64_t>(x);
  return value;
}

// What a signature in C++ says of a parameter.
struct DeclaredParameter {
  KernelValue::Kind kind;
  std::optional<DType> dtype{};
  bool is_const = false;
  std::size_t bytes = 0;  // of a struct
  int lanes = 1;          // of a struct that is numbers
};

}  // namespace systole::detail
