#pragma once

// Convolutions and their gradients by cuDNN 9.

#include <memory>
#include <string>

#include "backend/cuda/device.h"
#include "backend/cuda/executor.h"
#include "compile/target.h"
#include "systole/runtime.h"

namespace systole::cuda {

std::string dnn_absence();  // empty when there is a cuDNN

// What cuDNN offers for a region whose anchor is a convolution; it has made its plan then.
lower::Claim dnn_offer(const Device& device, const lower::Region& region, runtime::Math math);
std::shared_ptr<const LibraryCall> dnn_call(const Device& device, const lower::Region& region,
                                            runtime::Math math);

}  // namespace systole::cuda
