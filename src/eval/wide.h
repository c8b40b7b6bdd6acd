#pragma once

// The three domains in which elements are computed: double for floats, int64 for signed integers, uint64 for
// unsigned integers and bool. Elements are widened on load and rounded or wrapped once on store, so an op is
// written for at most three types and holds for all dtypes. Elements are read and written as bytes, which
// compiles to plain moves and needs no alignment.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "systole/base/dtype.h"
#include "systole/base/literal.h"

namespace systole::eval {

template <class W>
inline constexpr bool is_real = std::is_floating_point_v<W>;

// Calls `f.template operator()<W>()` with the domain of `dtype`.
template <class F>
decltype(auto) visit_wide(DType dtype, F&& f) {
  if (is_float(dtype)) return f.template operator()<double>();
  if (is_signed_integer(dtype)) return f.template operator()<std::int64_t>();
  return f.template operator()<std::uint64_t>();
}

// Calls `f.template operator()<W>()` with the type that multiplies and adds without overflow: double, or
// uint64 for every integer, since two's complement makes the low bits of sums and products the same.
template <class F>
decltype(auto) visit_ring(DType dtype, F&& f) {
  if (is_float(dtype)) return f.template operator()<double>();
  return f.template operator()<std::uint64_t>();
}

// Widens `n` elements at `src`. W is the dtype's domain; uint64 also takes signed integers (sign-extended).
template <class W>
void load(DType dtype, const std::byte* src, std::int64_t n, W* dst);
extern template void load(DType, const std::byte*, std::int64_t, double*);
extern template void load(DType, const std::byte*, std::int64_t, std::int64_t*);
extern template void load(DType, const std::byte*, std::int64_t, std::uint64_t*);

// As `load`, elements `stride` apart.
template <class W>
void load_strided(DType dtype, const std::byte* src, std::int64_t stride, std::int64_t n, W* dst);
extern template void load_strided(DType, const std::byte*, std::int64_t, std::int64_t, double*);
extern template void load_strided(DType, const std::byte*, std::int64_t, std::int64_t, std::uint64_t*);

// Narrows `n` elements to `dst`: floats round to nearest even, integers keep their low bits (bool the
// lowest). The dtype is a float exactly when W is double.
template <class W>
void store(DType dtype, const W* src, std::int64_t n, std::byte* dst);
extern template void store(DType, const double*, std::int64_t, std::byte*);
extern template void store(DType, const std::int64_t*, std::int64_t, std::byte*);
extern template void store(DType, const std::uint64_t*, std::int64_t, std::byte*);

// As `store`, to any dtype, by the rules of the op `convert`.
template <class W>
void store_converted(DType dtype, const W* src, std::int64_t n, std::byte* dst);
extern template void store_converted(DType, const double*, std::int64_t, std::byte*);
extern template void store_converted(DType, const std::int64_t*, std::int64_t, std::byte*);
extern template void store_converted(DType, const std::uint64_t*, std::int64_t, std::byte*);

// A whole literal.
template <class W>
std::vector<W> load_all(const Literal& x) {
  std::vector<W> out(static_cast<std::size_t>(x.count()));
  load<W>(x.dtype(), x.bytes(), x.count(), out.data());
  return out;
}
template <class W>
Literal store_all(Type type, const std::vector<W>& values) {
  Literal out = Literal::uninitialized(std::move(type));
  store<W>(out.dtype(), values.data(), out.count(), out.mutable_bytes());
  return out;
}

// Elementwise work goes through buffers of this many elements, which stay in the first-level cache.
inline constexpr std::int64_t kChunk = 512;

// f(W, W) computed on the unsigned bits when W is an integer, so that it wraps.
template <class W, class F>
W wrapping(W a, W b, F f) {
  if constexpr (is_real<W>)
    return f(a, b);
  else
    return static_cast<W>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

// NaN if either is NaN. Written so that a NaN in `b` falls through the comparison.
template <class W>
W larger(W a, W b) {
  return a > b || a != a ? a : b;
}
template <class W>
W smaller(W a, W b) {
  return a < b || a != a ? a : b;
}

// One element at any address.
template <class T>
T read(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <class T>
void write(std::byte* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

// Calls `f.template operator()<U>()` with the unsigned integer of `bytes` bytes: how movement sees an
// element.
template <class F>
decltype(auto) visit_size(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

}  // namespace systole::eval
