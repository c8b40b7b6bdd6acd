#include "backend/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string_view>
#include <system_error>

#include "backend/cuda/libraries.h"
#include "base/env.h"
#include "base/lasting.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

struct Api {
  using Program = struct ProgramObject*;
  int (*version)(int*, int*) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*code_size)(Program, std::size_t*) = nullptr;
  int (*code)(Program, char*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  const char* (*words)(int) = nullptr;
  int (*add_name)(Program, const char*) = nullptr;
  int (*lowered_name)(Program, const char*, const char**) = nullptr;
};

constexpr int kRefused = 6;  // NVRTC_ERROR_COMPILATION

// Headers that sources include out of habit: the compiler knows mathematics, printf and the built-in
// variables without them, and has no others.
struct Header {
  const char *name, *text;
};
constexpr const char* kIntegers = R"c(#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
namespace std {
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::intptr_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t; using ::uintptr_t;
}
)c";
constexpr const char* kLimits = R"c(#pragma once
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807LL
#define LLONG_MIN (-LLONG_MAX - 1)
)c";
constexpr const char* kFloats = R"c(#pragma once
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
)c";
constexpr const char* kConstants = R"c(#pragma once
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_E 2.7182818284590452354
#define M_SQRT2 1.41421356237309504880
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF __int_as_float(0x7f800000)
#endif
#ifndef HUGE_VAL
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ULL)
#endif
#ifndef CUDART_INF_F
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ULL)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000ULL)
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931e+0
#endif
)c";
constexpr const char* kAssert = R"c(#pragma once
#ifndef assert
#define assert(condition) ((condition) ? (void)0 : (void)__trap())
#endif
)c";
constexpr const char* kNothing = "#pragma once\n";
constexpr Header kHeaders[] = {{"stdint.h", kIntegers},
                               {"cstdint", kIntegers},
                               {"inttypes.h", kIntegers},
                               {"limits.h", kLimits},
                               {"climits", kLimits},
                               {"float.h", kFloats},
                               {"cfloat", kFloats},
                               {"math.h", kConstants},
                               {"cmath", kConstants},
                               {"math_constants.h", kConstants},
                               {"assert.h", kAssert},
                               {"cassert", kAssert},
                               {"stdio.h", kNothing},
                               {"cstdio", kNothing},
                               {"stdlib.h", kNothing},
                               {"cstdlib", kNothing},
                               {"stddef.h", kNothing},
                               {"cstddef", kNothing},
                               {"string.h", kNothing},
                               {"cuda.h", kNothing},
                               {"cuda_runtime.h", kNothing},
                               {"cuda_runtime_api.h", kNothing},
                               {"device_launch_parameters.h", kNothing}};

// The compiler's own library, which it looks for beside itself; not every loader finds it there.
void load_builtins(const void* function) {
  ::Dl_info place{};
  if (::dladdr(function, &place) == 0 || place.dli_fname == nullptr) return;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(place.dli_fname).parent_path();
  for (const auto& file : std::filesystem::directory_iterator(folder, error))
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so"))
      ::dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::string load(Api& api) {
  std::string absence;
  void* const library = open_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                                     {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"}, absence);
  if (library == nullptr) return absence;
  const auto find = [&](auto& function, const char* name) { return find_function(library, function, name); };
  const bool complete = find(api.version, "nvrtcVersion") && find(api.create, "nvrtcCreateProgram") &&
                        find(api.compile, "nvrtcCompileProgram") &&
                        find(api.log_size, "nvrtcGetProgramLogSize") && find(api.log, "nvrtcGetProgramLog") &&
                        find(api.code_size, "nvrtcGetCUBINSize") && find(api.code, "nvrtcGetCUBIN") &&
                        find(api.destroy, "nvrtcDestroyProgram") && find(api.words, "nvrtcGetErrorString") &&
                        find(api.add_name, "nvrtcAddNameExpression") &&
                        find(api.lowered_name, "nvrtcGetLoweredName");
  if (!complete) return "libnvrtc.so is not one that is known: CUDA 12 or newer is needed";
  load_builtins(reinterpret_cast<const void*>(api.version));
  return {};
}

const Loaded<Api>& found() {
  static const auto& only = lasting<Loaded<Api>>(load);
  return only;
}

// A program of the compiler's, destroyed with it.
class Program {
 public:
  Program(const Api& api, const std::string& source, const std::string& file_name,
          std::span<const Header> headers = {})
      : api_(api) {
    std::vector<const char*> names, texts;
    for (const Header& header : headers) {
      names.push_back(header.name);
      texts.push_back(header.text);
    }
    if (const int status = api.create(&program_, source.c_str(), file_name.c_str(),
                                      static_cast<int>(headers.size()), texts.data(), names.data());
        status != 0)
      throw Error(ErrorKind::kInternal, "nvrtc", api.words(status));
  }
  ~Program() { api_.destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  Api::Program get() const { return program_; }

  std::string log() const {
    std::size_t size = 0;
    if (api_.log_size(program_, &size) != 0 || size <= 1) return {};
    std::string text(size, '\0');
    api_.log(program_, text.data());
    text.resize(size - 1);
    return text;
  }
  int compile(const std::vector<std::string>& flags) const {
    std::vector<const char*> pointers;
    for (const std::string& flag : flags) pointers.push_back(flag.c_str());
    return api_.compile(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string code(const std::string& architecture) const {
    std::string code;
    std::size_t size = 0;
    if (api_.code_size(program_, &size) == 0 && size > 0) {
      code.resize(size);
      api_.code(program_, code.data());
    }
    if (code.empty())
      throw Error(ErrorKind::kInternal, "nvrtc", "no machine code came out", {}, architecture);
    return code;
  }

 private:
  const Api& api_;
  Api::Program program_ = nullptr;
};

}  // namespace

std::string nvrtc_absence() { return found().absence; }

std::string nvrtc_version() {
  if (!found().absence.empty()) return {};
  int major = 0, minor = 0;
  found().api.version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string machine_code(const std::string& source, const NvrtcOptions& options, std::string* log) {
  const Loaded<Api>& here = found();
  if (!here.absence.empty()) throw Error(ErrorKind::kUnsupported, "cuda", here.absence);
  const Program program(here.api, source, options.file_name);
  // Contraction to fused multiply-add changes what a division or a root is worth, which kernels ask for by
  // name.
  std::vector<std::string> flags = {"--gpu-architecture=" + options.architecture, "--fmad=false",
                                    "--std=c++17"};
  flags.insert(flags.end(), options.flags.begin(), options.flags.end());
  const int status = program.compile(flags);
  std::string words = program.log();
  if (status != 0)
    throw Error(ErrorKind::kInvalidArgument, "nvrtc",
                fmt::format("{}:\n{}", here.api.words(status), words.substr(0, 8000)));
  std::string code = program.code(options.architecture);
  if (log != nullptr) *log = std::move(words);
  return code;
}

std::string toolkit_headers() {
  const auto set = [](const char* name) { return env::text(name).value_or(std::string()); };
  for (const std::string& folder : {set("CUDA_HOME"), set("CUDA_PATH"), std::string("/usr/local/cuda")}) {
    std::error_code error;
    const std::filesystem::path headers = std::filesystem::path(folder) / "include";
    if (!folder.empty() && std::filesystem::exists(headers / "cuda_fp16.h", error)) return headers.string();
  }
  return {};
}

NvrtcResult compile_users_source(const std::string& source, const NvrtcOptions& options,
                                 const std::vector<std::string>& templates) {
  const Loaded<Api>& here = found();
  if (!here.absence.empty()) throw Error(ErrorKind::kUnsupported, "cuda", here.absence);
  const Program program(here.api, source, options.file_name, kHeaders);
  for (const std::string& name : templates)
    if (const int status = here.api.add_name(program.get(), name.c_str()); status != 0)
      throw Error(ErrorKind::kInvalidArgument, "nvrtc", here.api.words(status), "a template as f<float>",
                  name);
  const auto is_given = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(options.flags.begin(), options.flags.end(), [&](const std::string& flag) {
      return std::any_of(words.begin(), words.end(), [&](std::string_view w) { return flag.starts_with(w); });
    });
  };
  std::vector<std::string> flags;
  if (!is_given({"--gpu-architecture", "-arch"}))
    flags.push_back("--gpu-architecture=" + options.architecture);
  if (!is_given({"--std", "-std"})) flags.emplace_back("--std=c++17");
  flags.insert(flags.end(), options.flags.begin(), options.flags.end());
  const int status = program.compile(flags);
  NvrtcResult result{.code = {}, .log = program.log(), .symbols = {}, .is_refused = status == kRefused};
  if (result.is_refused) return result;
  if (status != 0)
    throw Error(ErrorKind::kInvalidArgument, "nvrtc",
                fmt::format("{}: {}", here.api.words(status), result.log.substr(0, 4000)), {},
                fmt::format("{}", fmt::join(options.flags, " ")));
  for (const std::string& name : templates) {
    const char* symbol = nullptr;
    if (here.api.lowered_name(program.get(), name.c_str(), &symbol) != 0 || symbol == nullptr)
      throw Error(ErrorKind::kNotFound, "nvrtc", "no kernel came of the template", {}, name);
    result.symbols.emplace_back(symbol);
  }
  result.code = program.code(options.architecture);
  return result;
}

}  // namespace systole::cuda
