#pragma once

// Kernels for groups of threads. One emitter serves CUDA and OpenCL: the prelude names what the languages
// call differently, and the combination over a group's threads has a form for each.

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_parts.h"

namespace systole::codegen {

std::optional<Kernel> simt_kernel(const lower::Step& step, const std::string& name, Dialect dialect,
                                  const Form& form);

Kernel simt_map_kernel(const lower::Step& step, const std::string& name, Dialect dialect, const Form& form);
Kernel simt_rows_kernel(const lower::Step& step, const std::string& name, Dialect dialect, const Form& form);
std::vector<Kernel> simt_cut_rows_kernels(const lower::Step& step, const std::string& name, Dialect dialect,
                                          const Form& form);
Kernel simt_contraction_kernel(const lower::Step& step, const std::string& name, Dialect dialect);
// Of CUDA, and of f32 that may be rounded to tf32.
bool fits_tensor_cores(const lower::Step& step);
Kernel simt_tensor_core_kernel(const lower::Step& step, const std::string& name);
Kernel simt_scatter_kernel(const lower::Step& step, const std::string& name, Dialect dialect);
std::optional<Kernel> simt_special_kernel(const lower::Step& step, const std::string& name, Dialect dialect);

// The functions that read or write neighbours at once, of an input or an output.
inline std::string load_function(const lower::Step& step, std::size_t input, std::int64_t neighbours) {
  const bool is_anywhere = !step.unaligned.empty() && step.unaligned[input];
  return fmt::format("s_load{}{}", neighbours, is_anywhere ? "_anywhere" : "");
}
inline std::string store_function(const lower::Step& step, std::size_t output, std::int64_t neighbours) {
  const bool is_anywhere = !step.unaligned.empty() && step.unaligned[step.inputs.size() + output];
  return fmt::format("s_store{}{}", neighbours, is_anywhere ? "_anywhere" : "");
}
// Of an output that an earlier launch stored.
inline std::string read_back_function(const lower::Step& step, std::size_t output, std::int64_t neighbours) {
  return load_function(step, step.inputs.size() + output, neighbours);
}

// What kernels use beside arithmetic.
std::string_view simt_prelude(Dialect dialect);

}  // namespace systole::codegen
