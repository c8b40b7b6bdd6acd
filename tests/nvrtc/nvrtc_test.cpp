// The kernels of every fixture's Program, with and without the passes, as CUDA C++: NVRTC compiles each
// distinct source to machine code. Many kernels stand in one file, since starting the compiler costs more
// than a kernel.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "codegen/kernel.h"
#include "compile/program.h"
#include "fixture.h"
#include "runtime/source_kernels.h"
#include "systole/compile/passes.h"

namespace systole {

namespace {

constexpr std::size_t kKernelsPerFile = 150;

// The part of nvrtc.h that is called.
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*destroy)(Program*) = nullptr;
};

bool load(Nvrtc& api) {
  void* library = nullptr;
  for (const char* const name :
       {SYSTOLE_DEPS "/nvidia/cu13/lib/libnvrtc.so.13", "libnvrtc.so.13", "libnvrtc.so"})
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  return find(api.create, "nvrtcCreateProgram") && find(api.compile, "nvrtcCompileProgram") &&
         find(api.log_size, "nvrtcGetProgramLogSize") && find(api.log, "nvrtcGetProgramLog") &&
         find(api.cubin_size, "nvrtcGetCUBINSize") && find(api.destroy, "nvrtcDestroyProgram");
}

// Empty, or what the compiler says.
std::string refusal(const Nvrtc& api, const std::string& source, const std::string& architecture) {
  Nvrtc::Program program = nullptr;
  if (api.create(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr) != 0)
    return "no program is made";
  const std::string target = "--gpu-architecture=" + architecture;
  const char* const options[] = {target.c_str(), "--fmad=false", "--std=c++17", "-w"};
  const int status = api.compile(program, 4, options);
  std::string words;
  std::size_t size = 0;
  if (status != 0) {
    api.log_size(program, &size);
    words.resize(size);
    api.log(program, words.data());
    words = "refused: " + words.substr(0, 4000);
  } else if (api.cubin_size(program, &size) != 0 || size == 0) {
    words = "no machine code came out";
  }
  api.destroy(&program);
  return words;
}

class CudaTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "cuda"; }
  lower::KernelLimits limits() const override { return {.nodes = 400, .buffers = 500}; }
};

void add(codegen::KernelSet& kernels, const lower::Program& program) {
  for (const lower::Step& step : program.steps) {
    for (const auto& inner : step.programs) add(kernels, *inner);
    const std::string name = fmt::format("k{}", kernels.distinct().size());
    if (std::optional<codegen::Kernel> kernel = codegen::make_kernel(step, name, codegen::Dialect::cuda))
      kernels.add(*std::move(kernel));
  }
}

void add_fixture(codegen::KernelSet& kernels, const std::string& row) {
  const conformance::Fixture fixture = conformance::load_fixture(row);
  if (fixture.arguments.size() > 1) return;  // several devices
  const ir::Graph graph = conformance::bound_graph(fixture);
  for (const bool optimize : {true, false})
    add(kernels, lower::make_program(
                     passes::prepared_for_kernels(
                         optimize ? passes::run_passes(graph, passes::standard_passes()) : graph, optimize),
                     CudaTarget()));
}

TEST(Nvrtc, EveryKernelCompiles) {
  Nvrtc api;
  if (!load(api)) GTEST_SKIP() << "no NVRTC: scripts/setup fetches it";
  const char* const chosen = std::getenv("SYSTOLE_TEST_ARCHITECTURE");
  const std::string architecture = chosen != nullptr ? chosen : "sm_90";
  const char* const share = std::getenv("SYSTOLE_TEST_SHARD");  // "0/2"
  const std::size_t shard = share != nullptr ? static_cast<std::size_t>(share[0] - '0') : 0,
                    shards = share != nullptr ? static_cast<std::size_t>(share[2] - '0') : 1;
  codegen::KernelSet all;
  for (const std::string& row : conformance::fixture_names()) add_fixture(all, row);
  std::vector<codegen::Kernel> mine;
  for (std::size_t i = shard; i < all.distinct().size(); i += shards) mine.push_back(all.distinct()[i]);
  ASSERT_GT(mine.size(), 100u);
  for (std::size_t i = 0; i < mine.size(); i += kKernelsPerFile) {
    const auto first = mine.begin() + static_cast<std::ptrdiff_t>(i);
    const auto last = mine.begin() + static_cast<std::ptrdiff_t>(std::min(i + kKernelsPerFile, mine.size()));
    const std::string words =
        refusal(api, codegen::source_file({first, last}, codegen::Dialect::cuda), architecture);
    EXPECT_TRUE(words.empty()) << words;
  }
  RecordProperty("kernels", static_cast<int>(mine.size()));
}

// Every word of docs/kernels.md.
TEST(Nvrtc, PortableSourcesCompile) {
  Nvrtc api;
  if (!load(api)) GTEST_SKIP() << "no NVRTC: scripts/setup fetches it";
  const std::string source = R"(
S_ENTRY place(S_GLOBAL int* y, s_i64 n) {
  const s_i64 i = (S_THREAD_Z * S_GROUPS_Y * S_LANES_Y + S_THREAD_Y) * S_STEP + S_THREAD;
  if (i < n) y[i] = S_GROUP_Z + S_GROUP_Y + S_GROUP + S_LANE_Z + S_LANE_Y + S_LANE + S_GROUPS + S_LANES;
}
S_KERNEL(THREADS) turn(S_GLOBAL const float* x, S_GLOBAL float* y) {
  S_LOCAL float part[THREADS];
  part[S_LANE] = x[S_THREAD];
  S_BARRIER;
  y[S_THREAD] = part[THREADS - 1 - S_LANE];
})";
  const std::string words = refusal(
      api, runtime::source_head(codegen::Dialect::cuda, true, {.defines = {{"THREADS", "64"}}}) + source,
      "sm_90");
  EXPECT_TRUE(words.empty()) << words;
}

}  // namespace

}  // namespace systole
