// Kernels that a program brings to CUDA: their names, parameters, compilation and faults.

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/cubin.h"
#include "source_check.h"

namespace systole {
namespace {

using cuda::read_cubin;

TEST_F(CudaSource, KernelsHaveTheNamesOfTheSource) {
  const SourceModule module("cuda:0", R"(
#include <stdint.h>
#include <stdio.h>
struct Pair { int a; float b; };
enum class Mode { on, off };
using real = float;
#define KERNEL(name) extern "C" __global__ void name
__device__ __noinline__ float helper(float x) { return x * 2; }
__global__ void plain(const float* __restrict__ x, float* y, int n, Pair p) { y[0] = helper(x[0]) + p.a; }
extern "C" __global__ void outside(real* y, Mode mode) { y[0] = 1; }
extern "C" {
  __global__ void inside(double const* x, uint8_t* y, unsigned long long n) { y[0] = x[0]; }
}
namespace filters {
__global__ void deep(int64_t* y) { y[0] = 1; }
}
template <class T>
__global__ void made(T* y, unsigned n) { y[0] = n; }
template __global__ void made<double>(double*, unsigned);
__global__ void __launch_bounds__(128) bounded(float4* y, float3 v) { y[0].x = v.x; }
#if 0
__global__ void absent(float* y) { y[0] = 1; }
#endif
)");
  EXPECT_EQ(module.functions(), (std::vector<std::string>{"plain", "outside", "inside", "filters::deep",
                                                          "made<double>", "bounded"}));
  const auto types = [&](const char* name) {
    std::string text;
    for (const auto& p : module.function(name).parameters()) text += p.type + " " + p.name + ", ";
    return text;
  };
  EXPECT_EQ(types("plain"), "const float* x, float* y, int n, Pair p, ");
  EXPECT_EQ(types("outside"), "real* y, Mode mode, ");
  EXPECT_EQ(types("inside"), "const double* x, uint8_t* y, unsigned long long n, ");
  EXPECT_EQ(types("filters::deep"), "int64_t* y, ");
  EXPECT_EQ(types("made<double>"), "double* , unsigned int , ");
  EXPECT_EQ(types("bounded"), "float4* y, float3 v, ");
  EXPECT_EQ(types("made<float>"), "float* , unsigned int , ");  // made now
  module.function<void(float*, int)>("outside");
  module.function<void(const double*, std::uint8_t*, std::uint64_t)>("inside");
  module.get_function<void(float*, unsigned)>("made<float>");
  const std::string unknown = error_of(ErrorKind::kNotFound, [&] { module.get_function("absent"); });
  EXPECT_TRUE(contains(unknown, "plain, outside")) << unknown;
}

TEST_F(CudaSource, WhatADeclarationDoesNotSayTheMachineCodeDoes) {
  struct Pair {
    float a, b;
  };
  struct Triple {
    float a, b, c;
  };
  const SourceModule module("cuda:0", R"(
#define ARGUMENTS float* y, triple t
struct triple { float a, b, c; };
extern "C" __global__ void f(ARGUMENTS) { y[0] = t.c; }
__global__ void g(ARGUMENTS) { y[0] = t.c; }
extern "C" __global__ void none() {})");
  DeviceArray<float> y("cuda:0", {1});
  fake().set_kernel(0, [](FakeLaunch&) {});
  module.function("none")({.block = {1}})();
  for (const char* const name : {"f", "g"}) {
    const auto f = module.function(name);
    ASSERT_EQ(f.parameters().size(), 2u) << name;
    f({.block = {1}})(y, Triple{1, 2, 3});
    const std::string words =
        error_of(ErrorKind::kInvalidArgument, [&] { f({.block = {1}})(y, Pair{1, 2}); });
    EXPECT_TRUE(contains(words, "12 bytes") && contains(words, "8 bytes")) << words;
    error_of(ErrorKind::kInvalidArgument, [&] { f({.block = {1}})(y); });
  }
}

TEST_F(CudaSource, OneParameterThatIsNotUnderstoodLeavesTheOthersChecked) {
  struct Pair {
    float a;
    int b;
  };
  const SourceModule module("cuda:0", R"(
template <class A, class B> struct Pair { A a; B b; };
__global__ void f(const float* x, float (*rows)[4], Pair<float, int> p, int n) { rows[0][0] = x[n] + p.a; }
extern "C" __global__ void g(const float* x, float (*rows)[4], Pair<float, int> p, int n) {
  rows[0][0] = x[n] + p.a;
}
__global__ void h(const float* const* rows, float** results, int n) { results[0][n] = rows[0][n]; })");
  DeviceArray<float> x = array({1}), rows("cuda:0", {1, 4});
  auto wide = DeviceArray<double>::of("cuda:0", {1});
  fake().set_kernel(4, [](FakeLaunch&) {});
  for (const char* const name : {"f", "g"}) {
    const auto f = module.function(name);
    ASSERT_EQ(f.parameters().size(), 4u) << name;
    EXPECT_EQ(f.parameters()[3].name, "n");
    f({.block = {1}})(x, rows, Pair{1, 2}, 0);
    std::string words = error_of(ErrorKind::kDType, [&] { f({.block = {1}})(wide, rows, Pair{1, 2}, 0); });
    EXPECT_TRUE(contains(words, "argument 0 (const float* x)")) << words;
    words = error_of(ErrorKind::kDType, [&] { f({.block = {1}})(x, rows, Pair{1, 2}, 0.5); });
    EXPECT_TRUE(contains(words, "argument 3 (int n)")) << words;
    words = error_of(ErrorKind::kInvalidArgument, [&] { f({.block = {1}})(x, rows, 1.0f, 0); });
    EXPECT_TRUE(contains(words, "argument 2") && contains(words, "8 bytes")) << words;
  }
  // Pointers to pointers are tables of addresses.
  const auto h = module.function<void(const std::uint64_t*, std::uint64_t*, int)>("h");
  EXPECT_EQ(h.untyped().parameters()[0].type, "const float* const*");
  const std::string words =
      error_of(ErrorKind::kDType, [&] { module.function("h")({.block = {1}})(x, x, 0); });
  EXPECT_TRUE(contains(words, "argument 0 (const float* const* rows)") && contains(words, "u64")) << words;
}

TEST_F(CudaSource, VectorsAreArraysOfTheirNumbers) {
  const SourceModule module("cuda:0", R"(
__global__ void f(float* y, float4 a, uchar4 b) { y[0] = a.x + b.x; }
__global__ void g(float* y, float3 a, longlong2 b) { y[0] = a.x + b.x; })");
  DeviceArray<float> y("cuda:0", {1});
  fake().set_kernel(2, [](FakeLaunch&) {});
  using Four = std::array<float, 4>;
  using Bytes = std::array<std::uint8_t, 4>;
  module.function("f")({.block = {1}})(y, Four{1, 2, 3, 4}, Bytes{1, 2, 3, 4});
  module.function<void(float*, Four, Bytes)>("f");
  module.function<void(float*, std::array<float, 3>, std::array<std::int64_t, 2>)>("g");
  std::string words =
      error_of(ErrorKind::kDType, [&] { module.function<void(float*, std::array<int, 4>, Bytes)>("f"); });
  EXPECT_TRUE(contains(words, "argument 1 (float4 a)") && contains(words, "f32×4") &&
              contains(words, "i32×4"))
      << words;
  words = error_of(ErrorKind::kDType,
                   [&] { module.function("f")({.block = {1}})(y, Four{}, std::array<float, 1>{}); });
  EXPECT_TRUE(contains(words, "argument 2 (uchar4 b)")) << words;
  words = error_of(ErrorKind::kInvalidArgument,
                   [&] { module.function<void(float*, Four, std::array<std::int64_t, 2>)>("g"); });
  EXPECT_TRUE(contains(words, "12 bytes") && contains(words, "16 bytes")) << words;
}

TEST_F(CudaSource, HeadersAreTheToolkitsWhereThereIsOne) {
  const auto headers = folder_ / "toolkit" / "include";
  std::filesystem::create_directories(headers);
  std::ofstream(headers / "cuda_fp16.h") << "struct __half { unsigned short bits; };\n";
  ::setenv("CUDA_HOME", (folder_ / "toolkit").c_str(), 1);
  const SourceModule module("cuda:0",
                            "#include <cuda_fp16.h>\n__global__ void f(__half* y) { y[0].bits = 1; }");
  ::unsetenv("CUDA_HOME");
  const auto f = module.function<void(f16*)>("f");
  error_of(ErrorKind::kDType, [&] { module.function<void(float*)>("f"); });
}

TEST_F(CudaSource, OverloadsAreNamedByTheirParameters) {
  const SourceModule module(
      "cuda:0", "__global__ void f(float* x) { x[0] = 1; }\n__global__ void f(int* x) { x[0] = 1; }");
  std::vector<std::string> names = module.functions();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"f(float*)", "f(int*)"}));
  module.function<void(int*)>("f(int*)");
  error_of(ErrorKind::kNotFound, [&] { module.function("f"); });
}

TEST_F(CudaSource, ALaunchHasItsSizesAndArguments) {
  const SourceModule module("cuda:0", kPlainScale);
  const auto scale = module.function<void(const float*, float*, float, int)>("scale");
  const DeviceArray<float> x = array({1, 2, 3});
  DeviceArray<float> y("cuda:0", {3});
  FakeLaunch::Sizes seen{};
  fake().set_kernel(4, [&](FakeLaunch& launch) {
    seen = launch.sizes();
    EXPECT_EQ(launch.kernel(), "_Z5scalePKfPffi");
    const float* const in = launch.read(0, 3);
    float* const out = launch.write(1, 3);
    for (int i = 0; i < launch.number<int>(3); ++i) out[i] = launch.number<float>(2) * in[i];
  });
  scale({.grid = {5, 4, 3}, .block = {2, 8, 4}, .shared_bytes = 1000})(x, y, 3, 3);
  EXPECT_EQ(y.to_host(), (Floats{3, 6, 9}));
  EXPECT_EQ(seen.grid[0] * 100 + seen.grid[1] * 10 + seen.grid[2], 543u);
  EXPECT_EQ(seen.block[0] * 100 + seen.block[1] * 10 + seen.block[2], 284u);
  EXPECT_EQ(seen.shared, 1000u);
  const Tensor t = y.tensor();  // the same memory, which no launch changes
  scale(Launch::over(3))(x, y, 5, 3);
  EXPECT_EQ(y.to_host(), (Floats{5, 10, 15}));
  EXPECT_EQ(t.to_vector<float>(), (Floats{3, 6, 9}));
}

TEST_F(CudaSource, LimitsAreCheckedBeforeTheDriverIsAsked) {
  const SourceModule module("cuda:0", kPlainScale);
  const auto scale = module.function("scale");
  const DeviceArray<float> x = array({1});
  DeviceArray<float> y("cuda:0", {1});
  const auto refused = [&](const Launch& launch) {
    return error_of(ErrorKind::kLimit, [&] { scale(launch)(x, y, 1, 1); });
  };
  fake().clear_log();
  std::string words = refused({.block = {32, 33}});
  EXPECT_TRUE(contains(words, "kernel scale on cuda:0") && contains(words, "1024") && contains(words, "1056"))
      << words;
  words = refused({.block = {1, 1, 65}});
  EXPECT_TRUE(contains(words, "1024×1024×64") && contains(words, "1×1×65")) << words;
  words = refused({.grid = {1, 65536}, .block = {1}});
  EXPECT_TRUE(contains(words, "the grid is larger") && contains(words, "1×65536")) << words;
  words = refused({.block = {1}, .shared_bytes = 232449});
  EXPECT_TRUE(contains(words, "232448 bytes") && contains(words, "232449 bytes")) << words;
  EXPECT_EQ(fake().count("cuLaunchKernel"), 0);
  scale({.block = {1}, .shared_bytes = 40000})(x, y, 1, 1);
  EXPECT_EQ(fake().count("cuFuncSetAttribute"), 0);
  for (int i = 0; i < 2; ++i) scale({.block = {1}, .shared_bytes = 200000})(x, y, 1, 1);
  EXPECT_EQ(fake().count("cuFuncSetAttribute"), 1);
  const SourceModule portable("cuda:0",
                              {.portable = "S_KERNEL(THREADS) f(S_GLOBAL float* y) { y[S_THREAD] = 1; }"},
                              {.defines = {{"THREADS", "(2 * 32)"}}});
  words = error_of(ErrorKind::kInvalidArgument, [&] { portable.function("f")({.block = {32}})(y); });
  EXPECT_TRUE(contains(words, "64×1×1")) << words;
}

// Every word of docs/kernels.md; what the functions give is tested on devices.
TEST_F(CudaSource, ThePortableLanguageCompiles) {
  const KernelSources source{.portable = R"(
#define BOTH(name, T) \
  S_ENTRY name(S_GLOBAL const T* x, S_GLOBAL T* y) { \
    const T a = x[S_THREAD]; \
    y[0] = s_exp(a) + s_expm1(a) + s_log(a) + s_log1p(a) + s_sqrt(a) + s_rsqrt(a) + s_cbrt(a) + s_sin(a) + \
           s_cos(a) + s_tan(a) + s_tanh(a) + s_erf(a) + s_fabs(a) + s_floor(a) + s_ceil(a) + s_rint(a) + \
           s_pow(a, (T)2) + s_atan2(a, a) + s_fmod(a, (T)2) + s_fma(a, a, a) + s_min(a, (T)2) + \
           s_max(a, (T)2) + s_min(-3, 2) + s_max(4, 5); \
  }
BOTH(in_float, float)
BOTH(in_double, double)
S_KERNEL(2 * HALF) places(S_GLOBAL s_i64* y, S_GLOBAL s_u16* h, S_GLOBAL int* a, S_GLOBAL unsigned* b,
                          S_GLOBAL float* c, s_u8 small, s_i8 tiny) {
  S_LOCAL float part[256];
  part[S_LANE] = S_LANES + S_LANE_Y + S_LANES_Y + S_LANE_Z + S_LANES_Z;
  S_BARRIER;
  for (s_i64 i = S_THREAD; i < 10; i += S_STEP)
    y[i] = S_GROUP + S_GROUPS + S_GROUP_Y + S_GROUPS_Y + S_GROUP_Z + S_GROUPS_Z + S_THREAD_Y + S_THREAD_Z;
  h[0] = s_convert_f32_f16(s_convert_f16_f32(h[0])) + s_convert_f32_bf16(s_convert_bf16_f32(h[1]));
  s_atomic_add(a, -1);
  s_atomic_add(b, 2u);
  s_atomic_add(c + 1, part[small + tiny]);
})"};
  const SourceModule module("cuda:0", source, {.defines = {{"HALF", "(2 + 2)"}}});
  EXPECT_EQ(module.functions().size(), 3u);
  const auto in_double = module.function<void(const double*, double*)>("in_double");
  EXPECT_EQ(in_double.untyped().parameters()[0].type, "const double*");
  const auto places = module.function("places");
  EXPECT_EQ(places.parameters()[6].name, "tiny");
  DeviceArray<std::int64_t> y("cuda:0", {10});
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { places({.block = {8}})(y); });
  EXPECT_TRUE(contains(words, "expected 7, got 1")) << words;
}

// The words of the portable language have variables, too.
TEST_F(CudaSource, AProgramsMacrosReachItsOwnLinesOnly) {
  const KernelSources source{
      .portable = "S_ENTRY f(S_GLOBAL float* y) { y[0] = N + T + x + i + all + s_exp(1.0f); }"};
  const SourceModule module(
      "cuda:0", source,
      {.flags = {.cuda = {"-DN=5", "-DT=3", "-Dx=2", "-Di=1", "-Dall", "--use_fast_math"}}});
  EXPECT_EQ(module.functions(), (std::vector<std::string>{"f"}));
}

TEST_F(CudaSource, WhatTheCompilerRefusesIsToldWithItsLine) {
  const std::string words = error_of(ErrorKind::kParse, [] {
    SourceModule("cuda:0", "__global__ void f(float* y) {\n  y[0] = nothing;\n}", {.source_name = "blur.cu"});
  });
  EXPECT_TRUE(contains(words, "blur.cu on cuda:0, line 2: the compiler refuses it: y[0] = nothing;") &&
              contains(words, "identifier \"nothing\" is undefined"))
      << words;
  const std::string defined = error_of(ErrorKind::kParse, [] {
    SourceModule("cuda:0", {.portable = "S_ENTRY f(S_GLOBAL float* y) {\n\n  y[0] = A + ;\n}"},
                 {.defines = {{"A", "1"}}});
  });
  EXPECT_TRUE(contains(defined, "kernel source on cuda:0, line 3")) << defined;
  const std::string portable = error_of(
      ErrorKind::kParse, [] { SourceModule("cuda:0", "S_ENTRY f(S_GLOBAL float* y) { y[0] = 1; }"); });
  EXPECT_TRUE(contains(portable, "{.portable = source}")) << portable;
  const std::string flag = error_of(ErrorKind::kInvalidArgument, [] {
    SourceModule("cuda:0", kPlainScale, {.flags = {.cuda = {"--no-such-flag"}}});
  });
  EXPECT_TRUE(contains(flag, "no-such-flag")) << flag;
  const SourceModule warned("cuda:0", "__global__ void f(float* y) { int unused; y[0] = 1; }");
  EXPECT_TRUE(contains(warned.log(), "unused")) << warned.log();
  EXPECT_EQ(SourceModule("cuda:0", "__global__ void f(float* y) { int unused; y[0] = 1; }").log(),
            warned.log());
  const std::string none =
      error_of(ErrorKind::kInvalidArgument, [] { SourceModule("cuda:0", "__device__ int x;"); });
  EXPECT_TRUE(contains(none, "__global__ void name")) << none;
}

TEST_F(CudaSource, MachineCodeIsKeptOnDiskAndMadeAnewWhenItIsDamaged) {
  const auto files = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      count += entry.is_regular_file() ? 1 : 0;
    return count;
  };
  ::setenv("SYSTOLE_CACHE_MIN_MS", "10000", 1);  // kernels of a program are kept all the same
  const auto before = files();
  for (int i = 0; i < 2; ++i) SourceModule("cuda:0", kPlainScale, {.defines = {{"KEPT", "1"}}});
  EXPECT_EQ(files(), before + 1);
  fake().clear_log();
  fake().fail(1, 200, "cuModuleLoadData");  // CUDA_ERROR_INVALID_IMAGE
  SourceModule("cuda:0", kPlainScale, {.defines = {{"KEPT", "1"}}}).function("scale");
  EXPECT_EQ(fake().count("cuModuleLoadData"), 2);
  EXPECT_EQ(files(), before + 1);
}

// A header may change and the text not.
TEST_F(CudaSource, MachineCodeThatReadsFilesIsNotKept) {
  const auto write = [&](const char* text) { std::ofstream(folder_ / "taps.h") << text; };
  const SourceOptions options{.flags = {.cuda = {"-I" + folder_.string()}}};
  const auto functions = [&] {
    return SourceModule("cuda:0", "#include \"taps.h\"\n__global__ void NAME(float* y) { y[0] = 1; }",
                        options)
        .functions();
  };
  write("#define NAME first\n");
  EXPECT_EQ(functions(), std::vector<std::string>{"first"});
  write("#define NAME second\n");
  EXPECT_EQ(functions(), std::vector<std::string>{"second"});
}

TEST_F(CudaSource, HeadersOfHabitAreThere) {
  const SourceModule module("cuda:0", R"(
#include <cassert>
#include <cmath>
#include <cstdint>
#include <math_constants.h>
__global__ void largest(const float* x, float* y, std::uint32_t n) {
  float most = -INFINITY;
  assert(n > 0);
  for (std::uint32_t i = 0; i < n; ++i) most = fmaxf(most, x[i] == CUDART_INF_F ? NAN : x[i]);
  y[0] = most;
})");
  EXPECT_EQ(module.functions(), std::vector<std::string>{"largest"});
}

// Two handles are of one function, to which the driver allows what was asked for last.
TEST_F(CudaSource, HandlesOfOneKernelDoNotTakeSharedMemoryFromEachOther) {
  const SourceModule module("cuda:0", kPlainScale);
  const auto one = module.function("scale"), other = module.function("scale");
  DeviceArray<float> x = array({1}), y = array({0});
  one({.block = {1}, .shared_bytes = 100'000})(x, y, 1, 1);
  other({.block = {1}, .shared_bytes = 64'000})(x, y, 1, 1);
  one({.block = {1}, .shared_bytes = 100'000})(x, y, 1, 1);
}

TEST_F(CudaSource, AModuleGoesWhenItsKernelsDo) {
  fake().clear_log();
  SourceFunction scale;
  {
    const SourceModule module("cuda:0", kPlainScale);
    scale = module.function("scale");
  }
  EXPECT_EQ(fake().count("cuModuleUnload"), 0);
  const DeviceArray<float> x = array({1, 2});
  DeviceArray<float> y("cuda:0", {2});
  scale(Launch::over(2))(x, y, 4, 2);
  scale = {};
  EXPECT_EQ(fake().count("cuModuleUnload"), 1);
  EXPECT_EQ(y.to_host(), (Floats{4, 8}));
}

TEST_F(CudaSource, AnyCallOfTheDriverMayFailAndTheNextProgramRuns) {
  const auto run = [] {
    const SourceModule module("cuda:0", kScale);
    const auto scale = module.function("scale");
    module.constant<float>("taps").copy_from({1, 1, 1, 1});
    const Stream stream("cuda:0");
    HostArray<float> host("cuda:0", Floats{1, 2, 3});
    DeviceArray<float> x("cuda:0", {3}), y("cuda:0", {3});
    x.copy_from_async(host, stream);
    scale({.block = {3}, .shared_bytes = 100'000, .stream = stream})(x, y, 2, 3);
    const Event done(stream);
    y.copy_to_async(host);
    done.synchronize();
    const Tensor held = y.tensor();
    scale({.block = {3}})(x, y, 3, 3);
    DeviceArray<double> wide("cuda:0", {4});
    wide.slice(1, 3).fill(1, stream);
    wide.slice(0, 2).copy_from(wide.slice(1, 3));
    wide.address();
    return std::pair{host.to_vector(), y.to_host()};
  };
  const std::pair wanted{Floats{2, 4, 6}, Floats{3, 6, 9}};
  EXPECT_EQ(run(), wanted);
  const std::size_t used = fake().used_bytes();
  int failed = 0;
  for (int nth = 1;; ++nth) {
    fake().fail(nth, 1);  // CUDA_ERROR_INVALID_VALUE
    try {
      run();
      if (!fake().has_failed()) break;
    } catch (const Error&) {
      ++failed;
    }
    fake().recover();
    EXPECT_EQ(fake().used_bytes(), used) << "call " << nth << ", " << fake().failed_call();
    EXPECT_EQ(fake().violations(), "") << "call " << nth << ", " << fake().failed_call();
    ASSERT_EQ(run(), wanted) << "after call " << nth << ", " << fake().failed_call();
  }
  fake().recover();
  EXPECT_GT(failed, 30);
}

TEST_F(CudaSource, TheDeviceIsDescribed) {
  const DeviceProperties gpu = device_properties("cuda:0");
  EXPECT_EQ(gpu.name, "Fake H200");
  EXPECT_EQ(gpu.compute_major * 10 + gpu.compute_minor, 90);
  EXPECT_EQ(gpu.multiprocessors, 132);
  EXPECT_EQ(gpu.max_threads_per_block, 1024);
  EXPECT_EQ(gpu.max_grid, Size3(2147483647, 65535, 65535));
  EXPECT_EQ(gpu.max_shared_bytes_per_block, 232448);
  const MemoryInfo before = memory_info("cuda:0");
  EXPECT_EQ(before.total, std::int64_t{1} << 30);
  EXPECT_EQ(before.free, before.total - static_cast<std::int64_t>(fake().used_bytes()) + 500'000);
  DeviceArray<std::uint8_t> array("cuda:0", {1000});
  EXPECT_EQ(memory_info("cuda:0").free, before.free - 1000);
  array.free();
  EXPECT_EQ(memory_info("cuda:0").free, before.free);
}

TEST(Cubin, WhatIsNoMachineCodeIsRefused) {
  error_of(ErrorKind::kInternal, [] { read_cubin("short"); });
  error_of(ErrorKind::kInternal, [] { read_cubin(std::string(64, 'x')); });
  std::string header(64, '\0');
  header.replace(0, 4, "\177ELF");
  header[58] = 64;  // of a section
  header[60] = 5;   // sections, which are not there
  error_of(ErrorKind::kInternal, [&] { read_cubin(header); });
}

}  // namespace
}  // namespace systole
