#include "runtime/portable_language.h"

#include <fmt/format.h>

#include <vector>

#include "codegen/math/math.h"
#include "codegen/simt.h"

namespace systole::runtime {

namespace {

using codegen::Dialect;

constexpr std::string_view kThreads[] = {"LANE", "LANES", "GROUP", "GROUPS", "THREAD"};

// A processor has one thread after the other; the place of the one that runs is a value beside the
// parameters, and what needs the others is refused by the compiler, in words.
constexpr std::string_view kC = R"c(
typedef void s_entry;
typedef struct {
  s_i64 group[3], lane[3], groups[3], lanes[3];
} s_place;
#define S_ENTRY static inline __attribute__((always_inline)) s_entry
#define S_KERNEL(threads) static inline __attribute__((always_inline, s_threads(threads))) s_entry
#define S_GLOBAL
#define S_LOCAL _Static_assert(0, "S_LOCAL needs threads that run together: give the processor a source in C");
#define S_BARRIER _Static_assert(0, "S_BARRIER needs threads that run together: give the processor a source in C")
#define S_LANE_(d) ((s_i32)s_at.lane[d])
#define S_LANES_(d) ((s_i32)s_at.lanes[d])
#define S_GROUP_(d) s_at.group[d]
#define S_GROUPS_(d) s_at.groups[d]
#define S_THREAD_(d) (s_at.group[d] * s_at.lanes[d] + s_at.lane[d])
#define S_STEP (s_at.groups[0] * s_at.lanes[0])
)c";

// Not extern "C": the names that the compiler makes say what a kernel takes, whatever macros it is made of.
constexpr std::string_view kCuda = R"c(
#undef S_KERNEL
#define S_ENTRY __global__ void
#define S_KERNEL(threads) __global__ void __launch_bounds__(threads)
#define S_LANE_(d) ((s_i32)(d == 0 ? threadIdx.x : d == 1 ? threadIdx.y : threadIdx.z))
#define S_LANES_(d) ((s_i32)(d == 0 ? blockDim.x : d == 1 ? blockDim.y : blockDim.z))
#define S_GROUP_(d) ((s_i64)(d == 0 ? blockIdx.x : d == 1 ? blockIdx.y : blockIdx.z))
#define S_GROUPS_(d) ((s_i64)(d == 0 ? gridDim.x : d == 1 ? gridDim.y : gridDim.z))
#define S_THREAD_(d) (S_GROUP_(d) * S_LANES_(d) + S_LANE_(d))
)c";

constexpr std::string_view kOpenCl = R"c(
#define S_ENTRY __kernel void
#define S_LANE_(d) ((s_i32)get_local_id(d))
#define S_LANES_(d) ((s_i32)get_local_size(d))
#define S_GROUP_(d) ((s_i64)get_group_id(d))
#define S_GROUPS_(d) ((s_i64)get_num_groups(d))
#define S_THREAD_(d) ((s_i64)get_global_id(d))
)c";

// The word is s_<name>; `own` is the operation of codegen/math that does it in C.
struct Function {
  std::string_view name, own;
  int arguments;
};
constexpr Function kFunctions[] = {
    {"exp", "exp", 1},     {"expm1", "expm1", 1}, {"log", "log", 1},    {"log1p", "log1p", 1},
    {"sqrt", "sqrt", 1},   {"rsqrt", "rsqrt", 1}, {"cbrt", "cbrt", 1},  {"sin", "sin", 1},
    {"cos", "cos", 1},     {"tan", "tan", 1},     {"tanh", "tanh", 1},  {"erf", "erf", 1},
    {"floor", "floor", 1}, {"ceil", "ceil", 1},   {"rint", "round", 1}, {"fabs", "abs", 1},
    {"pow", "pow", 2},     {"atan2", "atan2", 2}, {"fmod", "rem", 2}};

constexpr std::string_view kConversions[] = {"s_convert_f16_f32", "s_convert_f32_f16", "s_convert_bf16_f32",
                                             "s_convert_f32_bf16"};

// Integers are taken for f32, as min and max take them by their common type.
constexpr std::string_view kChoiceInC = R"c(
#define s_choice(name, type) _Generic((type), double: name##_f64, float: name##_f32, \
    unsigned: name##_u32, long: name##_i64, unsigned long: name##_u64, long long: name##_i64, \
    unsigned long long: name##_u64, default: name##_i32)
#define s_min(a, b) s_choice(s_min, (a) + (b))(a, b)
#define s_max(a, b) s_choice(s_max, (a) + (b))(a, b)
#define s_fma(a, b, c) _Generic((a) + (b) + (c), double: __builtin_fma, default: __builtin_fmaf)(a, b, c)
S_FN int s_atomic_add_i32(int* p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
S_FN unsigned s_atomic_add_u32(unsigned* p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
S_FN float s_atomic_add_f32(float* p, float v) {
  s_u32 old = __atomic_load_n((s_u32*)p, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n((s_u32*)p, &old, s_bits_f32(s_float_of_bits(old) + v), 1, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return s_float_of_bits(old);
}
#define s_atomic_add(p, v) \
  _Generic(*(p), float: s_atomic_add_f32, unsigned: s_atomic_add_u32, int: s_atomic_add_i32)(p, v)
)c";

constexpr std::string_view kChoiceInCuda = R"c(
template <class T, class U>
S_FN auto s_min(T a, U b) -> decltype(a + b) { return a < b || a != a ? a : b; }
template <class T, class U>
S_FN auto s_max(T a, U b) -> decltype(a + b) { return a > b || a != a ? a : b; }
S_FN float s_fma(float a, float b, float c) { return fmaf(a, b, c); }
S_FN double s_fma(double a, double b, double c) { return fma(a, b, c); }
#define s_atomic_add(p, v) atomicAdd(p, v)
)c";

constexpr std::string_view kChoiceInOpenCl = R"c(
#define s_min(a, b) min(a, b)
#define s_max(a, b) max(a, b)
#define s_fma(a, b, c) fma(a, b, c)
)c";

constexpr std::string_view kAtomicsInOpenCl = R"c(
#define S_ATOMIC_ADD(space) \
  S_FN __attribute__((overloadable)) int s_atomic_add(volatile space int* p, int v) { return atomic_add(p, v); } \
  S_FN __attribute__((overloadable)) uint s_atomic_add(volatile space uint* p, uint v) { return atomic_add(p, v); } \
  S_FN __attribute__((overloadable)) float s_atomic_add(volatile space float* p, float v) { \
    uint old = as_uint(*p), seen; \
    while ((seen = atomic_cmpxchg((volatile space uint*)p, old, as_uint(as_float(old) + v))) != old) old = seen; \
    return as_float(old); \
  }
S_ATOMIC_ADD(__global)
S_ATOMIC_ADD(__local)
)c";

// Mathematics: our own in C, which has no headers; elsewhere the language's.
std::string functions_in_c() {
  std::vector<std::string> names(std::begin(kConversions), std::end(kConversions));
  for (const std::string_view type : {"f32", "f64"})
    for (const Function& f : kFunctions) names.push_back(fmt::format("s_{}_{}", f.own, type));
  for (const std::string_view type : {"f32", "f64", "i32", "u32", "i64", "u64"})
    for (const std::string_view op : {"min", "max"}) names.push_back(fmt::format("s_{}_{}", op, type));
  std::string text = codegen::math::source(std::vector<std::string_view>(names.begin(), names.end()));
  for (const Function& f : kFunctions)
    text += f.arguments == 1
                ? fmt::format("#define s_{0}(x) _Generic((x), double: s_{1}_f64, default: s_{1}_f32)(x)\n",
                              f.name, f.own)
                : fmt::format(
                      "#define s_{0}(a, b) _Generic((a) + (b), double: s_{1}_f64, default: "
                      "s_{1}_f32)(a, b)\n",
                      f.name, f.own);
  return text + std::string(kChoiceInC);
}

std::string functions_in_cuda() {
  std::string text = codegen::math::source(kConversions);
  for (const Function& f : kFunctions)
    for (const std::string_view type : {"float", "double"})
      text += fmt::format("S_FN {0} s_{1}({0} a{3}) {{ return {1}{2}(a{4}); }}\n", type, f.name,
                          type == "float" ? "f" : "", f.arguments == 1 ? "" : fmt::format(", {} b", type),
                          f.arguments == 1 ? "" : ", b");
  return text + std::string(kChoiceInCuda);
}

std::string functions_in_opencl(std::string_view source) {
  std::string text = codegen::math::source(kConversions);
  for (const Function& f : kFunctions)
    text += fmt::format("#define s_{0}({1}) {0}({1})\n", f.name, f.arguments == 1 ? "x" : "a, b");
  text += kChoiceInOpenCl;
  if (source.find("s_atomic_add") != std::string_view::npos) text += kAtomicsInOpenCl;
  return text;
}

std::string functions(Dialect dialect, std::string_view source) {
  switch (dialect) {
    case Dialect::c: return functions_in_c();
    case Dialect::cuda: return functions_in_cuda();
    case Dialect::opencl: return functions_in_opencl(source);
  }
  __builtin_unreachable();
}

}  // namespace

std::string portable_words(Dialect dialect, std::string_view source) {
  const bool is_c = dialect == Dialect::c;
  std::string text = codegen::math::prelude(dialect);
  if (!is_c) text += codegen::simt_prelude(dialect);
  text += is_c ? kC : dialect == Dialect::cuda ? kCuda : kOpenCl;
  for (const std::string_view word : kThreads) {
    if (is_c || word == "LANES") text += fmt::format("#define S_{0} S_{0}_(0)\n", word);
    text += fmt::format("#define S_{0}_Y S_{0}_(1)\n#define S_{0}_Z S_{0}_(2)\n", word);
  }
  return text + functions(dialect, source);
}

}  // namespace systole::runtime
