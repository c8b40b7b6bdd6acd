#include "eval/wide.h"

#include <bit>
#include <cmath>
#include <limits>

namespace systole::eval {

namespace {

template <class T>
constexpr bool is_integer_type = std::is_integral_v<T> && !std::is_same_v<T, bool>;

// Whether elements of T are computed as W, signed and unsigned taken together.
template <class T, class W>
constexpr bool same_domain = is_real<W> != std::is_integral_v<T>;

// bool is read from any bits: a caller's byte for true may be 2.
template <class T, class W>
W widened(const std::byte* p) {
  if constexpr (std::is_same_v<T, bool>)
    return *p != std::byte{0};
  else
    return static_cast<W>(read<T>(p));
}

template <class T, class W>
T narrowed(W v) {
  if constexpr (std::is_same_v<T, bool>)
    return v & 1;
  else
    return static_cast<T>(v);
}

[[noreturn]] void refuse(DType dtype) {
  throw Error(ErrorKind::kInternal, "eval", "elements are computed in another domain", {},
              std::string(name(dtype)));
}

// |v| as a double, rounded to odd: enough bits remain for the final rounding to a format of at most 51 bits
// to come out as if it were the only one.
double magnitude_to_odd(std::uint64_t v) {
  const int shift = std::bit_width(v) - std::numeric_limits<double>::digits;
  if (shift <= 0) return static_cast<double>(v);
  std::uint64_t kept = v >> shift;
  if (kept << shift != v) kept |= 1;
  return std::ldexp(static_cast<double>(kept), shift);
}

template <class W>
double to_odd(W v) {
  if constexpr (std::is_signed_v<W>)
    if (v < 0) return -magnitude_to_odd(0 - static_cast<std::uint64_t>(v));
  return magnitude_to_odd(static_cast<std::uint64_t>(v));
}

// Toward zero, saturated; 0 for NaN. Both bounds are powers of two (or zero), hence exact as doubles.
template <class T>
T saturate(double x) {
  using Limits = std::numeric_limits<T>;
  if (x != x) return 0;
  if (x <= static_cast<double>(Limits::min())) return Limits::min();
  if (x >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  return static_cast<T>(x);
}

template <class T, class W>
T converted(W v) {
  if constexpr (std::is_same_v<T, bool>)
    return v != 0;
  else if constexpr (is_real<W> && is_integer_type<T>)
    return saturate<T>(v);
  else if constexpr (is_real<W> || std::is_arithmetic_v<T>)
    return static_cast<T>(v);
  else
    return T(to_odd(v));
}

}  // namespace

template <class W>
void load(DType dtype, const std::byte* src, std::int64_t n, W* dst) {
  visit_dtype(dtype, [&]<class T>() {
    constexpr std::int64_t size = sizeof(T);
    if constexpr (same_domain<T, W>)
      for (std::int64_t i = 0; i < n; ++i) dst[i] = widened<T, W>(src + i * size);
    else
      refuse(dtype);
  });
}

template <class W>
void load_strided(DType dtype, const std::byte* src, std::int64_t stride, std::int64_t n, W* dst) {
  if (stride == 1) return load<W>(dtype, src, n, dst);
  visit_dtype(dtype, [&]<class T>() {
    const std::int64_t step = stride * static_cast<std::int64_t>(sizeof(T));
    if constexpr (same_domain<T, W>)
      for (std::int64_t i = 0; i < n; ++i) dst[i] = widened<T, W>(src + i * step);
    else
      refuse(dtype);
  });
}

template <class W>
void store(DType dtype, const W* src, std::int64_t n, std::byte* dst) {
  visit_dtype(dtype, [&]<class T>() {
    constexpr std::int64_t size = sizeof(T);
    if constexpr (same_domain<T, W>)
      for (std::int64_t i = 0; i < n; ++i) write<T>(dst + i * size, narrowed<T, W>(src[i]));
    else
      refuse(dtype);
  });
}

template <class W>
void store_converted(DType dtype, const W* src, std::int64_t n, std::byte* dst) {
  visit_dtype(dtype, [&]<class T>() {
    constexpr std::int64_t size = sizeof(T);
    for (std::int64_t i = 0; i < n; ++i) write<T>(dst + i * size, converted<T, W>(src[i]));
  });
}

template void load(DType, const std::byte*, std::int64_t, double*);
template void load(DType, const std::byte*, std::int64_t, std::int64_t*);
template void load(DType, const std::byte*, std::int64_t, std::uint64_t*);
template void load_strided(DType, const std::byte*, std::int64_t, std::int64_t, double*);
template void load_strided(DType, const std::byte*, std::int64_t, std::int64_t, std::uint64_t*);
template void store(DType, const double*, std::int64_t, std::byte*);
template void store(DType, const std::int64_t*, std::int64_t, std::byte*);
template void store(DType, const std::uint64_t*, std::int64_t, std::byte*);
template void store_converted(DType, const double*, std::int64_t, std::byte*);
template void store_converted(DType, const std::int64_t*, std::int64_t, std::byte*);
template void store_converted(DType, const std::uint64_t*, std::int64_t, std::byte*);

}  // namespace systole::eval
