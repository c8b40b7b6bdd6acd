#pragma once

// Machine code of generated kernels. Many are compiled at one time, and several such parts beside each other.
// A program that comes again wants fewer of them, those that were found to be fastest: the cache has the
// parts, and for the program a list of the kernels in them, so that only what is new is compiled.

#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "codegen/kernel.h"
#include "runtime/disk_cache.h"

namespace systole::cuda {

struct Code {
  std::string bytes;                 // of a module
  std::vector<std::string> kernels;  // those of it that are wanted
};

// The program is told by what is the same whatever was found to be fastest.
std::vector<Code> compiled(const Device& device, const runtime::CacheKey& program,
                           const std::vector<codegen::Kernel>& kernels);

}  // namespace systole::cuda
