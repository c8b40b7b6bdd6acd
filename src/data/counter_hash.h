#pragma once

// Numbers by a counter hash, for weights and data that must be equal in every framework and language: word i
// is the finaliser of murmur3 over i · 0x9E3779B9 + seed, modulo 2^32. Benchmarks and parity tests start from
// these, so that their losses can be compared.

#include <cstdint>
#include <string_view>

#include "systole/base/literal.h"

namespace systole::data {

std::uint32_t hashed(std::uint32_t seed, std::uint32_t i);

// f32 or f64 of mean 0 and deviation `std`: ((hash >> 8) / 2^23 - 1) · (√3 · std), computed in the dtype.
Literal hashed_uniform(std::uint32_t seed, const Type& type, double std = 1.0);

Literal hashed_integers(std::uint32_t seed, const Shape& shape, std::uint32_t bound);  // i32, below bound

// The parameter `name`, in PyTorch's layout: the seed is the name's crc32. Biases have deviation 0.01, other
// vectors are ones, and the rest has `std`, or √(2 / fan-in) when that is 0.
Literal hashed_parameter(std::string_view name, const Type& type, double std = 0);

}  // namespace systole::data
