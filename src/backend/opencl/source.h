#pragma once

// Kernels that a program brings as OpenCL C.

#include <memory>
#include <span>
#include <string>

#include "backend/opencl/device.h"
#include "backend/source_call.h"
#include "compile/program.h"
#include "runtime/source_kernels.h"

namespace systole::opencl {

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options, int ordinal);

// A kernel_call of a Program; null for other steps.
std::shared_ptr<const runtime::SourceCall> source_call(const Device& device, const lower::Step& step);
void run(const Device& device, const runtime::SourceCall& call, std::span<const Place> inputs,
         std::span<const Place> outputs);

// The memory of a buffer of this backend; throws kInvalidArgument when it was donated. Beside the buffers.
Place place_of(const runtime::BufferPart& part);

}  // namespace systole::opencl
