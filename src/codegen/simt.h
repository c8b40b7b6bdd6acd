#pragma once

// Kernels for groups of threads. One emitter serves CUDA and OpenCL: the prelude names what the languages
// call differently, and the combination over a group's threads has a form for each.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_parts.h"

namespace systole::codegen {

std::optional<Kernel> simt_kernel(const lower::Step& step, const std::string& name, Dialect dialect);

Kernel simt_map_kernel(const lower::Step& step, const std::string& name, Dialect dialect);
Kernel simt_rows_kernel(const lower::Step& step, const std::string& name, Dialect dialect);
std::vector<Kernel> simt_cut_rows_kernels(const lower::Step& step, const std::string& name, Dialect dialect);
Kernel simt_contraction_kernel(const lower::Step& step, const std::string& name, Dialect dialect);
Kernel simt_scatter_kernel(const lower::Step& step, const std::string& name, Dialect dialect);
std::optional<Kernel> simt_special_kernel(const lower::Step& step, const std::string& name, Dialect dialect);

// The functions that read or write four neighbours.
inline std::string_view load4(const lower::Step& step) {
  return step.is_aligned ? "s_load4" : "s_load4_anywhere";
}
inline std::string_view store4(const lower::Step& step) {
  return step.is_aligned ? "s_store4" : "s_store4_anywhere";
}

// What kernels use beside arithmetic.
std::string_view simt_prelude(Dialect dialect);

}  // namespace systole::codegen
