#pragma once

// The languages in which kernels are written.

#include <cstdint>

namespace systole::codegen {

enum class Dialect : std::uint8_t { c, cuda, opencl };

}  // namespace systole::codegen
