#pragma once

#include <memory>

#include "systole/runtime.h"

namespace systole::opencl {

// Without OpenCL's headers at build time, or its loader at run time, a backend that has no device and says
// why.
std::unique_ptr<runtime::Backend> make_backend();

}  // namespace systole::opencl
