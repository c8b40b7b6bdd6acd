#pragma once

// The words of docs/kernels.md, in which one source serves several languages.

#include <string>
#include <string_view>

#include "codegen/dialect.h"

namespace systole::runtime {

// Definitions of the words in a language. In C, a kernel is a function that returns s_entry and is called
// with its place `s_at` after its own parameters; S_KERNEL(n) leaves an attribute s_threads(n). Atomic
// operations are defined only if `source` has them: not every OpenCL compiler takes their definition.
std::string portable_words(codegen::Dialect dialect, std::string_view source);

}  // namespace systole::runtime
