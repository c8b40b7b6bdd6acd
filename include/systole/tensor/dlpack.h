#pragma once

// DLPack: arrays shared with other libraries of the process (PyTorch, JAX, CuPy, …) without copying. Include
// dlpack/dlpack.h for the structs themselves.

#include "systole/base/export.h"
#include "systole/tensor/tensor.h"

struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace systole {

// The value in host memory, evaluated, for the receiver to read and not to write. The receiver calls its
// deleter once; until then the memory stays.
SYSTOLE_API DLManagedTensor* to_dlpack(const Tensor& x);
SYSTOLE_API DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& x);  // marked read-only, version 1.0

// Takes `managed` over: its deleter is called exactly once, when the last Tensor that needs the memory is
// gone, or before this throws. Compact row-major arrays are used in place, until a device with memory of its
// own computes with them, and must not be written to any more; others are copied. Throws kUnsupported for
// memory that is not the host's, for dtypes that Systole lacks and for another major version than 1.
SYSTOLE_API Tensor from_dlpack(DLManagedTensor* managed);
SYSTOLE_API Tensor from_dlpack(DLManagedTensorVersioned* managed);

}  // namespace systole
