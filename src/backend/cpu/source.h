#pragma once

// Kernels that a program brings as C. The compiler of generated kernels preprocesses them, so that what is
// read here are the functions and types that it will see, and compiles them; a generated function beside each
// kernel takes the arguments from a list of pointers, another tells what only the compiler knows of types.
//
// A kernel in C is a function that is not static, returns nothing and ends its parameters with
// `long long begin, long long end`: it does the points begin … end-1 of the launch's items. A portable kernel
// does one point; the generated function goes through the groups.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "backend/source_call.h"
#include "compile/program.h"
#include "runtime/source_kernels.h"

namespace systole::cpu {

std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                           const SourceOptions& options);

// A kernel_call of a Program: a function of pointers that is called once, or a kernel as above. Null for
// other steps.
std::shared_ptr<const runtime::SourceCall> source_call(const lower::Step& step);
void run(const runtime::SourceCall& call, std::span<std::byte* const> inputs,
         std::span<std::byte* const> outputs);

// The memory of a buffer of this backend; throws kInvalidArgument when it was donated. Beside the buffers.
std::byte* memory_of(const runtime::BufferPart& part);

}  // namespace systole::cpu
