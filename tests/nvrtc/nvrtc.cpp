#include "nvrtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "systole/base/error.h"
#include "systole/compile/passes.h"

namespace systole::nvrtc {

namespace {

// The compiler's own library, which it looks for beside itself; under a sanitizer it does not find it there.
void load_builtins(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error))
    if (file.path().filename().string().starts_with("libnvrtc-builtins.so"))
      ::dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

std::optional<Api> load() {
  const std::filesystem::path folder = SYSTOLE_DEPS "/nvidia/cu13/lib";
  load_builtins(folder);
  void* library = nullptr;
  for (const std::string& name :
       {(folder / "libnvrtc.so.13").string(), std::string("libnvrtc.so.13"), std::string("libnvrtc.so")})
    if (library == nullptr) library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Api api;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  const bool complete = find(api.create, "nvrtcCreateProgram") && find(api.compile, "nvrtcCompileProgram") &&
                        find(api.log_size, "nvrtcGetProgramLogSize") && find(api.log, "nvrtcGetProgramLog") &&
                        find(api.code_size, "nvrtcGetCUBINSize") && find(api.code, "nvrtcGetCUBIN") &&
                        find(api.destroy, "nvrtcDestroyProgram");
  return complete ? std::optional(api) : std::nullopt;
}

class GpuTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "cuda"; }
  lower::KernelLimits limits() const override { return {.nodes = 400, .buffers = 500, .cuts_rows = true}; }
};

}  // namespace

const Api* find() {
  static const std::optional<Api> api = load();
  return api ? &*api : nullptr;
}

std::vector<char> machine_code(const Api& api, const std::string& source, const std::string& architecture) {
  Api::Program program = nullptr;
  if (api.create(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr) != 0)
    throw Error(ErrorKind::kInternal, "nvrtc", "no program is made");
  const std::string target = "--gpu-architecture=" + architecture;
  const char* const options[] = {target.c_str(), "--fmad=false", "--std=c++17", "-w"};
  const int status = api.compile(program, 4, options);
  std::size_t size = 0;
  std::string words;
  std::vector<char> code;
  if (status != 0) {
    api.log_size(program, &size);
    words.resize(size);
    api.log(program, words.data());
  } else if (api.code_size(program, &size) == 0) {
    code.resize(size);
    api.code(program, code.data());
  }
  api.destroy(&program);
  if (code.empty()) throw Error(ErrorKind::kInternal, "nvrtc", "no machine code: " + words.substr(0, 4000));
  return code;
}

lower::Program program_of(const ir::Graph& graph, bool optimize) {
  const GpuTarget target;
  const ir::Graph simplified = optimize ? passes::run_passes(graph, passes::standard_passes()) : graph;
  return lower::make_program(lower::prepared(simplified, target, optimize), target);
}

std::optional<lower::Program> program_of(const conformance::Fixture& fixture, bool optimize) {
  if (fixture.arguments.size() > 1) return std::nullopt;
  return program_of(conformance::bound_graph(fixture), optimize);
}

Shard shard() {
  const char* const text = std::getenv("SYSTOLE_TEST_SHARD");
  if (text == nullptr) return {};
  char* end = nullptr;
  const std::size_t index = std::strtoul(text, &end, 10);
  return {index, std::strtoul(end + 1, nullptr, 10)};
}

}  // namespace systole::nvrtc
