#pragma once

// What a device has for kernels, and whether a kernel can do with it: a driver's own words for one that
// cannot are about its inside, if it has any.

#include <cstddef>
#include <string>

#include "codegen/kernel.h"

namespace systole::opencl {

struct Limits {
  std::string device;  // its name
  std::size_t group_threads = 0, local_bytes = 0;
  bool has_f64 = false;
};

// Bytes that the threads of a group share, as the kernel's text declares them.
std::size_t local_bytes(const codegen::Kernel& kernel);

// Throws kUnsupported for f64 and kLimit for sizes that the device does not have, naming both.
void check_fits(const Limits& limits, const codegen::Kernel& kernel);

}  // namespace systole::opencl
