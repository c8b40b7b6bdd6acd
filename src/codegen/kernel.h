#pragma once

// Kernels from regions. A kernel's work comes in items that may run in any order and at the same time; its
// buffers are the region's inputs, then its outputs. In C it is
//
//   void NAME(void* const* buffers, s_i64 begin, s_i64 end);   // items begin … end-1

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/dialect.h"
#include "compile/program.h"

namespace systole::codegen {

struct Kernel {
  std::string name;
  std::string source;             // the function alone
  std::set<std::string> helpers;  // of math.h, that it calls
  std::int64_t items = 0;
};

// Nothing when the step's kind has no generated kernel in this dialect.
std::optional<Kernel> make_kernel(const lower::Step& step, const std::string& name, Dialect dialect);

// One file: the prelude, the helpers and the kernels.
std::string source_file(const std::vector<Kernel>& kernels, Dialect dialect);

}  // namespace systole::codegen
