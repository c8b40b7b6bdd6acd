#pragma once

// Kernels that a program brings as C. The compiler of generated kernels compiles them; a generated function
// beside each kernel takes the arguments from a list of pointers.
//
// A kernel in C is a function that is not static, returns nothing and ends its parameters with
// `long long begin, long long end`: it does the points begin … end-1 of grid × block. A portable kernel does
// one point; the generated function goes through the groups.

#include <memory>
#include <string>

#include "runtime/source_kernels.h"

namespace systole::cpu {

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options);

// The memory of a buffer of this backend; throws kInvalidArgument when it was donated. Beside the buffers.
std::byte* memory_of(const runtime::Buffer& buffer);

}  // namespace systole::cpu
