#pragma once

// Kernels that a program brings as CUDA C++. NVRTC compiles them; the machine code is kept on disk, whatever
// its compilation cost, with the compiler's warnings. What kernels there are, and under which names, is read
// from the machine code; what they take is read from the names that the compiler made, from their
// declarations, and from the sizes that the machine code has.
//
// Launches go to a stream of the device's for all of them, or to one of the program's, and wait for what used
// their arrays before, as sessions do. Variables of a module count as arrays that its kernels use: those in
// constant memory are read, the others written.

#include <memory>
#include <string>

#include "backend/cuda/device.h"
#include "backend/cuda/library_call.h"
#include "compile/program.h"
#include "runtime/source_kernels.h"

namespace systole::cuda {

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options, int ordinal);

// A kernel_call of a Program, which may be captured; null for other steps, and for one that has a body and no
// source.
std::shared_ptr<const LibraryCall> source_call(const Device& device, const lower::Step& step);

}  // namespace systole::cuda
