#pragma once

// The arithmetic of generated kernels, as source text. Every function is written once in the C that all three
// dialects share and is called s_<op>_<dtype>, after ops.def: s_exp_f32, s_div_i32, s_clamp_u8;
// s_convert_<from>_<to> converts between any two dtypes, f16, bf16 and f8 standing as their bits.
// Arithmetic of f16, bf16 and f8 is done in f32. s_random_<dtype>(key 0, key 1, i) is element i of
// random_bits.
//
// The f32 functions are our own, without libm, tables or branches (but for s_rem_f32), so that a loop over
// them is vectorised; they need no FMA to be accurate and no fast-math, and keep denormals. f64 calls the
// math library that the dialect has: libm, CUDA's, OpenCL's built-ins.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/dialect.h"

namespace systole::codegen::math {

// Types (s_i8 … s_u64, s_bool), bit casts and the macros the functions use; it stands once, at the top of a
// source. S_FMA(a, b, c) is fused only where that is fast. A kernel that wants fusion writes it: across
// statements no compiler may fuse (gcc is told so here too, clang and OpenCL never do, NVRTC: --fmad=false).
std::string prelude(Dialect dialect);

// Flags for the compiler of the C dialect, beside optimisation and ISA. Links with -lm.
inline constexpr std::string_view kCFlags = "-fno-math-errno -fno-trapping-math -ffp-contract=off";

// The text of `functions` and of all they call, callees first, each once. Throws Error for an unknown name.
std::string source(std::span<const std::string_view> functions);

bool has(std::string_view function);

// All names, in the order of their definition.
std::vector<std::string_view> functions();

}  // namespace systole::codegen::math
