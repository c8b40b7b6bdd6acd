#pragma once

// The arithmetic of kernels, compiled as kernels are: its text in C goes through a compiler of this machine
// into a library that the test loads. f32 functions are compared with libm in double, in units of the last
// place.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/math/math.h"
#include "scratch_folder.h"

namespace systole {

inline bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Those that are here.
inline std::vector<std::string> c_compilers() {
  std::vector<std::string> found;
  for (const char* name : {"clang-19", "gcc"})
    if (runs(std::string(name) + " --version")) found.emplace_back(name);
  if (found.empty() && runs("cc --version")) found.emplace_back("cc");
  return found;
}

struct Isa {
  std::string name, flags;
};

// Those that this machine runs.
inline std::vector<Isa> isas() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  std::vector<Isa> found{{"sse2", "-msse2"}};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    found.push_back({"avx2 without fma", "-mavx2"});
    found.push_back({"avx2", "-mavx2 -mfma"});
  }
  if (__builtin_cpu_supports("avx512f")) found.push_back({"avx512", "-mavx512f"});
  return found;
#else
  return {{"native", ""}};
#endif
}

class Library {
 public:
  explicit Library(const std::filesystem::path& file)
      : handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) ADD_FAILURE() << ::dlerror();
  }
  ~Library() {
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class F>
  F* symbol(const std::string& name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<F*>(::dlsym(handle_, name.c_str()));
  }

 private:
  void* handle_;
};

class CodegenMath : public ScratchFolder {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  // What the compiler said goes to `remarks`. Null, with a failure noted, when it refuses.
  std::unique_ptr<Library> compile(const std::string& text, const std::string& compiler,
                                   const std::string& flags, std::string* remarks = nullptr) {
    const std::string stem = "kernel" + std::to_string(count_++);
    const std::filesystem::path library = folder_ / (stem + ".so"), log = folder_ / (stem + ".log");
    const std::string command = compiler + " -x c -std=gnu11 -O3 -Wall -Wextra -Werror -fPIC -shared " +
                                std::string(codegen::math::kCFlags) + " " + flags + " " +
                                write(stem + ".c", text).string() + " -o " + library.string() + " -lm >" +
                                log.string() + " 2>&1";
    const bool done = std::system(command.c_str()) == 0;
    std::ostringstream said;
    said << std::ifstream(log).rdbuf();
    if (remarks != nullptr) *remarks = said.str();
    if (done) return std::make_unique<Library>(library);
    ADD_FAILURE() << command << "\n" << said.str().substr(0, 2000);
    return nullptr;
  }

 private:
  int count_ = 0;
};

using Unary = void(const float* x, float* y, long n);
using Binary = void(const float* a, const float* b, float* y, long n);

struct UnaryCase {
  std::string name;
  double (*reference)(double);
  double ulps;  // the error stays below or at this over all of f32, with FMA and without
};

inline void PrintTo(const UnaryCase& c, std::ostream* out) { *out << c.name; }

inline std::vector<UnaryCase> unary_cases() {
  return {{"exp", std::exp, 1.1},
          {"expm1", std::expm1, 1.1},
          {"log", std::log, 1.0},
          {"log1p", std::log1p, 1.5},
          {"sqrt", std::sqrt, 0.5 + 0x1p-28},  // the reference is rounded too
          {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.5},
          {"cbrt", std::cbrt, 1.0},
          {"sin", std::sin, 1.1},
          {"cos", std::cos, 1.1},
          {"tan", std::tan, 1.75},
          {"tanh", std::tanh, 1.5},
          {"logistic", [](double x) { return 1 / (1 + std::exp(-x)); }, 2.0},
          {"erf", std::erf, 1.5},
          {"floor", std::floor, 0},
          {"ceil", std::ceil, 0},
          {"round", std::nearbyint, 0}};
}

struct BinaryCase {
  std::string name;
  double (*reference)(double, double);
  double ulps;
};

inline std::vector<BinaryCase> binary_cases() {
  return {{"pow", std::pow, 1.0}, {"atan2", std::atan2, 1.75}, {"rem", std::fmod, 0}};
}

// A loop `s_exp_f32_loop(x, y, n)` over a function of `arguments` arrays; the types are as the text names
// them.
struct Loop {
  std::string function, from, to;
  int arguments;
};

inline std::string loops_over(const std::vector<Loop>& loops) {
  std::vector<std::string_view> names;
  for (const Loop& l : loops) names.push_back(l.function);
  std::string text = codegen::math::prelude(codegen::Dialect::c) + codegen::math::source(names);
  for (const Loop& l : loops) {
    std::string parameters, values;
    for (int k = 0; k < l.arguments; ++k) {
      const std::string x = "x" + std::to_string(k);
      parameters += "const " + l.from + "* restrict " + x + ", ";
      values += (k == 0 ? "" : ", ") + x + "[i]";
    }
    text += "void " + l.function + "_loop(" + parameters + l.to + "* restrict y, long n) {\n";
    text += "  for (long i = 0; i < n; ++i) y[i] = " + l.function + "(" + values + ");\n}\n";
  }
  return text;
}

// The functions of all cases.
inline std::string loops_source() {
  std::vector<Loop> loops;
  for (const UnaryCase& c : unary_cases()) loops.push_back({"s_" + c.name + "_f32", "float", "float", 1});
  for (const BinaryCase& c : binary_cases()) loops.push_back({"s_" + c.name + "_f32", "float", "float", 2});
  return loops_over(loops);
}
inline std::string loop_name(const std::string& op) { return "s_" + op + "_f32_loop"; }

// How far `got` is from `exact` in units of f32's last place there; infinity when one is NaN and the other
// not, or a zero has the wrong sign. Overflow counts as 2^128.
inline double ulps(float got, double exact) {
  constexpr double infinite = std::numeric_limits<double>::infinity(), top = 0x1p128;
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : infinite;
  if (got == 0 && std::signbit(got) != std::signbit(exact)) return infinite;
  const double y = std::clamp<double>(got, -top, top), e = std::clamp(exact, -top, top);
  if (y == e) return 0;
  const auto bits = std::bit_cast<std::uint64_t>(e);
  const auto exponent = std::max<std::int64_t>(static_cast<std::int64_t>(bits >> 52 & 0x7ff), 1023 - 126);
  return std::fabs(y - e) / std::bit_cast<double>(static_cast<std::uint64_t>(exponent - 23) << 52);
}

struct Worst {
  double ulps = 0;
  float a = 0, b = 0, got = 0;

  void add(double error, float x, float y, float result) {
    if (error > ulps) *this = {error, x, y, result};
  }
};

inline std::ostream& operator<<(std::ostream& out, const Worst& w) {
  out.precision(9);
  return out << w.ulps << " ulp at (" << w.a << ", " << w.b << ") giving " << w.got;
}

}  // namespace systole
