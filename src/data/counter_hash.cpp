#include "data/counter_hash.h"

#include <cmath>
#include <cstddef>
#include <span>

#include "io/crc32.h"
#include "systole/base/error.h"

namespace systole::data {

namespace {

template <class T>
Literal uniform(std::uint32_t seed, const Type& type, double std) {
  Literal made = Literal::uninitialized(type);
  const T factor = static_cast<T>(std::sqrt(3.0) * std);
  std::uint32_t i = 0;
  for (T& value : made.mutable_values<T>())
    value = (static_cast<T>(hashed(seed, i++) >> 8) / static_cast<T>(1 << 23) - T{1}) * factor;
  return made;
}

}  // namespace

std::uint32_t hashed(std::uint32_t seed, std::uint32_t i) {
  std::uint32_t x = i * 0x9E3779B9u + seed;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

Literal hashed_uniform(std::uint32_t seed, const Type& type, double std) {
  if (type.dtype == DType::f32) return uniform<float>(seed, type, std);
  if (type.dtype == DType::f64) return uniform<double>(seed, type, std);
  throw Error(ErrorKind::kDType, "data::hashed_uniform", "wrong dtype", "f32 or f64", type.to_string());
}

Literal hashed_integers(std::uint32_t seed, const Shape& shape, std::uint32_t bound) {
  Literal made = Literal::uninitialized({DType::i32, shape});
  std::uint32_t i = 0;
  for (std::int32_t& value : made.mutable_values<std::int32_t>())
    value = static_cast<std::int32_t>(hashed(seed, i++) % bound);
  return made;
}

Literal hashed_parameter(std::string_view name, const Type& type, double std) {
  const bool bias = name.find("bias") != std::string_view::npos;
  const Ints dims = type.shape.dims();
  if (dims.size() == 1 && !bias) return Literal::full(type, 1);
  double fan_in = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) fan_in *= static_cast<double>(dims[i]);
  const std::uint32_t seed = io::crc32(0, std::as_bytes(std::span(name)));
  return hashed_uniform(seed, type, bias ? 0.01 : std > 0 ? std : std::sqrt(2.0 / fan_in));
}

}  // namespace systole::data
