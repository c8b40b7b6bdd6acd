#include "backend/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <system_error>

#include "backend/cuda/libraries.h"
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
};

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
                        find(api.destroy, "nvrtcDestroyProgram") && find(api.words, "nvrtcGetErrorString");
  if (!complete) return "libnvrtc.so is not one that is known: CUDA 12 or newer is needed";
  load_builtins(reinterpret_cast<const void*>(api.version));
  return {};
}

const Loaded<Api>& found() {
  static const Loaded<Api> only(load);
  return only;
}

// A program of the compiler's, destroyed with it.
class Program {
 public:
  Program(const Api& api, const std::string& source, const std::string& file_name) : api_(api) {
    if (const int status = api.create(&program_, source.c_str(), file_name.c_str(), 0, nullptr, nullptr);
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
  std::vector<const char*> pointers;
  for (const std::string& flag : flags) pointers.push_back(flag.c_str());
  const int status = here.api.compile(program.get(), static_cast<int>(pointers.size()), pointers.data());
  std::string words = program.log();
  if (status != 0)
    throw Error(ErrorKind::kInvalidArgument, "nvrtc",
                fmt::format("{}:\n{}", here.api.words(status), words.substr(0, 8000)));
  std::string code;
  std::size_t size = 0;
  if (here.api.code_size(program.get(), &size) == 0 && size > 0) {
    code.resize(size);
    here.api.code(program.get(), code.data());
  }
  if (code.empty())
    throw Error(ErrorKind::kInternal, "nvrtc", "no machine code came out", {}, options.architecture);
  if (log != nullptr) *log = std::move(words);
  return code;
}

}  // namespace systole::cuda
