#pragma once

// Matrix products by cuBLASLt.

#include <memory>
#include <string>

#include "backend/cuda/device.h"
#include "backend/cuda/executor.h"
#include "compile/target.h"
#include "systole/runtime.h"

namespace systole::cuda {

std::string blas_absence();  // empty when there is a cuBLASLt

// What cuBLASLt offers for a region whose anchor is a dot_general: the product alone, or with a bias and a
// relu.
lower::Claim blas_offer(const lower::Region& region, runtime::Math math);
std::shared_ptr<const LibraryCall> blas_call(const Device& device, const lower::Region& region,
                                             runtime::Math math);

}  // namespace systole::cuda
