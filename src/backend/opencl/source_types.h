#pragma once

// Types that a program's kernels take by names of its own.

#include <string>
#include <vector>

#include "backend/opencl/device.h"
#include "runtime/source_text.h"

namespace systole::opencl {

// What the words stand for at the end of a source that compiles with these flags, as the language's names of
// numbers and vectors; empty for structs, and for all of them when the compiler does not say. The driver
// tells a typedef's name alone, and which one it is may depend on macros, headers and the device.
runtime::Typedefs types_in(const Device& device, const std::string& source, const std::string& flags,
                           const std::vector<std::string>& words);

}  // namespace systole::opencl
