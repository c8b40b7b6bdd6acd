#pragma once

// Whether this machine has NVIDIA GPUs that can be used. Their devices are "cuda:0", "cuda:1", …; "cuda" and
// "gpu" are the first.
//
//   const DeviceScope scope(cuda::is_available() ? "cuda" : "cpu");

#include <string>

#include "systole/base/export.h"

namespace systole::cuda {

SYSTOLE_API bool is_available();
SYSTOLE_API int device_count();  // that can be used; 0 when there is none
// Why there is none, or which GPUs are left out and why; empty when nothing is amiss.
SYSTOLE_API std::string unavailable_reason();

}  // namespace systole::cuda
