#pragma once

// Kernels that a program brings as OpenCL C.

#include <memory>
#include <string>

#include "backend/opencl/device.h"
#include "runtime/source_kernels.h"

namespace systole::opencl {

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options, int ordinal);

// The memory of a buffer of this backend; throws kInvalidArgument when it was donated. Beside the buffers.
Place place_of(const runtime::Buffer& buffer);

}  // namespace systole::opencl
