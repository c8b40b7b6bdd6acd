// Kernels that a program brings, on every device that takes them: one portable source for all, and what only
// OpenCL has. A device that is not here is skipped with its reason.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cpu/jit.h"
#include "error_check.h"
#include "runtime/source_text.h"
#include "systole/runtime.h"
#include "systole/tensor.h"
#include "systole/tensor/kernels.h"

namespace systole {

namespace {

using Floats = std::vector<float>;

// scale: y = factor·x; fill: y = value; mixed: numbers of several types.
const KernelSources kSources{.portable = R"(
S_ENTRY scale(S_GLOBAL const float* x, S_GLOBAL float* y, float factor, int n) {
  const int i = S_THREAD;
  if (i < n) y[i] = factor * x[i];
}
// A comment with a ( and a "quote.
S_ENTRY fill(S_GLOBAL float* y, float value, int n) { if (S_THREAD < n) y[S_THREAD] = value; }
S_ENTRY mixed(S_GLOBAL float* y, s_u8 a, s_i64 b, unsigned int c) {
  y[0] = a;
  y[1] = b;
  y[2] = c;
}
)"};

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class Kernels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    runtime::Backend& backend = runtime::backend(device().substr(0, device().find(':')));
    if (backend.devices().empty()) GTEST_SKIP() << backend.unavailable_reason();
    if (device() == "cpu" && contains(cpu::kernels_in_words(), "without kernels"))
      GTEST_SKIP() << cpu::kernels_in_words();
  }
  static std::string device() { return GetParam(); }
  static DeviceArray<float> array(const Floats& values) { return {device(), values}; }
  static const SourceModule& module() {
    static std::map<std::string, SourceModule> made;
    return made.try_emplace(device(), device(), kSources).first->second;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, Kernels, testing::Values("cpu", "opencl:0"),
                         [](const auto& info) { return info.param.substr(0, info.param.find(':')); });

TEST_P(Kernels, RunWithABlockThatDoesNotDivideTheCount) {
  const SourceModule& module = Kernels::module();
  const auto scale =
      module.function<void(const DeviceArray<float>&, DeviceArray<float>&, float, int)>("scale");
  constexpr int kCount = 1000;
  Floats values(kCount), wanted(kCount);
  for (std::size_t i = 0; i < kCount; ++i) wanted[i] = 3 * (values[i] = static_cast<float>(i));
  const DeviceArray<float> x = array(values);
  DeviceArray<float> y(device(), Shape{kCount}), z(device(), Shape{kCount});
  scale({.grid = {4}, .block = {256}})(x, y, 3, kCount);
  EXPECT_EQ(y.to_host(), wanted);
  scale(Launch::over(kCount, 64))(x, z, 3, kCount);
  module.synchronize();
  EXPECT_EQ(z.to_host(), wanted);
}

TEST_P(Kernels, KnowTheirPlaceInThreeDimensions) {
  const SourceModule module(device(), {.portable = R"(
S_ENTRY place(S_GLOBAL int* y) {
  const s_i64 w = S_LANES * S_GROUPS, h = S_LANES_Y * S_GROUPS_Y;
  y[(S_THREAD_Z * h + S_THREAD_Y) * w + S_THREAD] =
      S_GROUP_Z * 100000 + S_GROUP_Y * 10000 + S_GROUP * 1000 + S_LANE_Z * 100 + S_LANE_Y * 10 + S_LANE;
})"});
  DeviceArray<std::int32_t> y(device(), Shape{2, 4, 6});
  module.function("place")({.grid = {2, 2, 1}, .block = {3, 2, 2}})(y);
  const std::vector<std::int32_t> got = y.to_host();
  for (int z = 0; z < 2; ++z)
    for (int h = 0; h < 4; ++h)
      for (int x = 0; x < 6; ++x)
        EXPECT_EQ(got[static_cast<std::size_t>((z * 4 + h) * 6 + x)],
                  h / 2 * 10000 + x / 3 * 1000 + z * 100 + h % 2 * 10 + x % 3);
}

TEST_P(Kernels, AnUnknownFunctionNamesThoseThereAre) {
  const SourceModule& module = Kernels::module();
  EXPECT_EQ(module.functions().size(), 3u);
  const std::string words = error_of(ErrorKind::kNotFound, [&] { module.function("scales"); });
  EXPECT_TRUE(contains(words, "scales") && contains(words, "scale, fill, mixed")) << words;
}

TEST_P(Kernels, ParametersAreThoseOfTheSource) {
  const auto parameters = module().function("scale").parameters();
  ASSERT_EQ(parameters.size(), 4u);
  EXPECT_EQ(parameters[0].type, "const float*");
  EXPECT_EQ(parameters[1].type, "float*");
  EXPECT_EQ(parameters[3].type, "int");
  EXPECT_EQ(parameters[3].name, "n");
}

TEST_P(Kernels, AWrongNumberOfArgumentsIsNamed) {
  const auto fill = module().function("fill");
  DeviceArray<float> y = array({1, 2});
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { fill({.block = {2}})(y, 1); });
  EXPECT_TRUE(contains(words, "kernel fill") && contains(words, "float* y, float value, int n") &&
              contains(words, "expected 3, got 2"))
      << words;
  EXPECT_EQ(y.to_host(), (Floats{1, 2}));
}

TEST_P(Kernels, AFloatIsNotTakenForAnInteger) {
  const auto fill = module().function("fill");
  DeviceArray<float> y = array({1, 2});
  const std::string words = error_of(ErrorKind::kDType, [&] { fill({.block = {2}})(y, 1, 2.0f); });
  EXPECT_TRUE(contains(words, "argument 2 (int n)") && contains(words, "float")) << words;
}

TEST_P(Kernels, NumbersAreConvertedWhenTheyFit) {
  const SourceModule& module = Kernels::module();
  const auto mixed = module.function("mixed"), fill = module.function("fill");
  DeviceArray<float> y(device(), Shape{3});
  enum class Small : std::uint8_t { seven = 7 };
  mixed({})(y, Small::seven, std::size_t{5}, 'c');
  EXPECT_EQ(y.to_host(), (Floats{7, 5, 99}));
  mixed({})(y, 255, -1, 4000000000LL);
  EXPECT_EQ(y.to_host(), (Floats{255, -1, 4e9f}));
  const auto refused = [&](auto a, auto b, auto c) {
    return error_of(ErrorKind::kInvalidArgument, [&] { mixed({})(y, a, b, c); });
  };
  EXPECT_TRUE(contains(refused(256, 0, 0), "argument 1"));
  EXPECT_TRUE(contains(refused(0, ~std::uint64_t{0}, 0), "18446744073709551615"));
  EXPECT_TRUE(contains(refused(0, 0, -1), "argument 3"));
  fill({.block = {3}})(y, 2.5, 3u);  // a double for a float, as in C++
  EXPECT_EQ(y.to_host(), (Floats{2.5, 2.5, 2.5}));
  fill({.block = {3}})(y, 16777216, 3);
  EXPECT_EQ(y.to_host()[0], 16777216);
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { fill({})(y, 16777217, 3); });
  EXPECT_TRUE(contains(words, "float value")) << words;  // no float has this value
}

TEST_P(Kernels, ArraysAndNumbersAreNotMixedUp) {
  const auto scale = module().function("scale");
  DeviceArray<float> y = array({1, 2});
  const DeviceArray<float> x = array({1, 2});
  DeviceArray<double> wide(device(), {1, 2});
  const std::string number = error_of(ErrorKind::kInvalidArgument, [&] { scale({})(3, y, 1, 2); });
  EXPECT_TRUE(contains(number, "argument 0 (const float* x)") && contains(number, "array of f32")) << number;
  const std::string array = error_of(ErrorKind::kInvalidArgument, [&] { scale({})(x, y, x, 2); });
  EXPECT_TRUE(contains(array, "argument 2 (float factor)")) << array;
  const std::string dtype = error_of(ErrorKind::kDType, [&] { scale({})(x, wide, 1, 2); });
  EXPECT_TRUE(contains(dtype, "argument 1 (float* y)") && contains(dtype, "f64")) << dtype;
}

TEST_P(Kernels, ASignatureIsComparedWithTheSource) {
  const SourceModule& module = Kernels::module();
  using In = const DeviceArray<float>&;
  using Out = DeviceArray<float>&;
  const std::string count =
      error_of(ErrorKind::kInvalidArgument, [&] { module.function<void(In, Out, float)>("scale"); });
  EXPECT_TRUE(contains(count, "expected 4, got 3")) << count;
  const std::string type = error_of(ErrorKind::kDType, [&] {
    module.function<void(const DeviceArray<std::int32_t>&, Out, float, int)>("scale");
  });
  EXPECT_TRUE(contains(type, "const float* x") && contains(type, "i32")) << type;
  const std::string number =
      error_of(ErrorKind::kDType, [&] { module.function<void(In, Out, float, long)>("scale"); });
  EXPECT_TRUE(contains(number, "int n") && contains(number, "i64")) << number;
  const std::string constant =
      error_of(ErrorKind::kInvalidArgument, [&] { module.function<void(In, In, float, int)>("scale"); });
  EXPECT_TRUE(contains(constant, "float* y") && contains(constant, "const")) << constant;
}

TEST_P(Kernels, WhatIsConstIsNotWrittenTo) {
  const auto scale = module().function("scale");
  const DeviceArray<float> x = array({1, 2}), y = array({3, 4});
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { scale({.block = {2}})(x, y, 1, 2); });
  EXPECT_TRUE(contains(words, "argument 1 (float* y)") && contains(words, "const")) << words;
}

TEST_P(Kernels, ARefusedSourceGivesItsLineAndTheCompilersWords) {
  const std::string source = "S_ENTRY f(S_GLOBAL float* y) {\n  y[0] = 1;\n  y[1] = undeclared;\n}\n";
  const std::string words =
      error_of(ErrorKind::kParse, [&] { SourceModule(device(), {.portable = source}); });
  EXPECT_TRUE(contains(words, "line 3: ") && contains(words, "y[1] = undeclared;") &&
              contains(words, "undeclared identifier"))
      << words;
}

TEST_P(Kernels, ArraysOfAnotherDeviceAreRefused) {
  const auto fill = module().function("fill");
  DeviceArray<float> elsewhere("reference", {1, 2});
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { fill({})(elsewhere, 1, 2); });
  EXPECT_TRUE(contains(words, "argument 0 (float* y)") && contains(words, "reference") &&
              contains(words, device()))
      << words;
}

TEST_P(Kernels, LaunchesThatCannotBeAreRefused) {
  const auto fill = module().function("fill");
  DeviceArray<float> y = array({1, 2});
  error_of(ErrorKind::kInvalidArgument, [&] { fill({.block = {0}})(y, 1, 2); });
  error_of(ErrorKind::kInvalidArgument, [&] { fill({.grid = {-1}})(y, 1, 2); });
  error_of(ErrorKind::kInvalidArgument,
           [&] { fill({.grid = {std::int64_t{1} << 62}, .block = {256}})(y, 1, 2); });
  error_of(ErrorKind::kInvalidArgument, [&] { fill(Launch::over(5, 0))(y, 1, 2); });
  EXPECT_EQ(y.to_host(), (Floats{1, 2}));
}

TEST_P(Kernels, OfNothingDoNothing) {
  const SourceModule& module = Kernels::module();
  DeviceArray<float> y(device(), Shape{0}), z = array({1, 2});
  module.function("fill")(Launch::over(0))(y, 1, 0);
  module.function("scale")({.block = {2}})(y, z, 1, 0);  // a launch with an array that has no memory
  EXPECT_EQ(y.to_host(), Floats{});
  EXPECT_EQ(z.to_host(), (Floats{1, 2}));
  EXPECT_EQ(y.tensor().shape(), Shape{0});
}

TEST_P(Kernels, AnArrayNeverMadeIsRefused) {
  const auto fill = module().function("fill");
  DeviceArray<float> none;
  EXPECT_FALSE(none.defined());
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { fill({})(none, 1, 2); });
  EXPECT_TRUE(contains(words, "argument 0 (float* y)")) << words;
  error_of(ErrorKind::kInvalidArgument, [&] { none.to_host(); });
  error_of(ErrorKind::kInvalidArgument, [&] { none.tensor(); });
}

TEST_P(Kernels, ArraysAreValues) {
  const auto fill = module().function("fill");
  DeviceArray<float> a = array({1, 2}), b = a;
  EXPECT_EQ(a.buffer_ref(), b.buffer_ref());
  fill({.block = {2}})(b, 7, 2);
  EXPECT_EQ(a.to_host(), (Floats{1, 2}));
  EXPECT_EQ(b.to_host(), (Floats{7, 7}));
  const runtime::Buffer* const own = b.buffer_ref().get();
  fill({.block = {2}})(b, 8, 2);
  EXPECT_EQ(b.buffer_ref().get(), own);  // nobody else has it: written in place
}

TEST_P(Kernels, MayReadAndWriteOneArray) {
  const auto scale = module().function("scale");
  DeviceArray<float> a = array({1, 2});
  const DeviceArray<float> old = a;  // makes the write copy first
  scale({.block = {2}})(a, a, 10, 2);
  scale({.block = {2}})(a, a, 10, 2);
  EXPECT_EQ(a.to_host(), (Floats{100, 200}));
  EXPECT_EQ(old.to_host(), (Floats{1, 2}));
}

TEST_P(Kernels, ArraysAndTensorsShareMemoryAndTensorsDoNotChange) {
  const auto fill = module().function("fill");
  DeviceArray<float> a = array({1, 2});
  const Tensor t = a.tensor();
  EXPECT_EQ(t.device(), DeviceName::parse(device()));
  const DeviceArray<float> back(t);
  EXPECT_EQ(back.buffer_ref(), a.buffer_ref());
  fill({.block = {2}})(a, 5, 2);
  EXPECT_EQ(t.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(a.to_host(), (Floats{5, 5}));
  DeviceArray<float> computed(t * 2 + a.tensor());  // evaluated where it lies
  EXPECT_EQ(computed.to_host(), (Floats{7, 9}));
  const runtime::Buffer* const memory = computed.buffer_ref().get();
  fill({.block = {1}})(computed, 0, 1);
  EXPECT_EQ(computed.buffer_ref().get(), memory);
  EXPECT_EQ(computed.to_host(), (Floats{0, 9}));
}

TEST_P(Kernels, AVariablesValueIsKeptWhileItIsAssigned) {
  const DeviceScope scope(device());
  Variable v(tensor({1, 2}, DType::f32));
  auto step = compile([&] {
    v += 1;
    return sum(v);
  });
  DeviceArray<float> before(v.value());
  step().eval();
  EXPECT_EQ(before.to_host(), (Floats{1, 2}));
  module().function("fill")({.block = {2}})(before, 9, 2);
  EXPECT_EQ(v.value().to_vector<float>(), (Floats{2, 3}));
}

TEST_P(Kernels, FunctionsOutliveTheirModuleAndLaunchesTheirArrays) {
  const auto scale = [] { return module().function("scale"); }();
  DeviceArray<float> y(device(), Shape{1000});
  {
    const Floats ones(1000, 1);
    for (int i = 0; i < 20; ++i) scale(Launch::over(1000))(array(ones), y, i, 1000);
  }
  EXPECT_EQ(y.to_host(), Floats(1000, 19));
}

TEST_P(Kernels, OneFunctionIsCalledByManyThreads) {
  const auto fill = module().function("fill");
  std::vector<Floats> results(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      DeviceArray<float> y(device(), Shape{100});
      for (int i = 0; i < 50; ++i) fill(Launch::over(100))(y, static_cast<int>(t) * 1000 + i, 100);
      results[t] = y.to_host();
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < results.size(); ++t)
    EXPECT_EQ(results[t], Floats(100, static_cast<float>(t * 1000 + 49)));
}

TEST_P(Kernels, DefinesAndTypedefsReachTheSource) {
  const SourceModule module(device(), {.portable = R"(
typedef unsigned int count_t;
S_ENTRY put(S_GLOBAL real* y, count_t n) { if (S_THREAD < n) y[S_THREAD] = SEVEN; })"},
                            {.defines = {{"SEVEN", "7"}, {"real", "float"}}});
  const auto put = module.function("put");
  DeviceArray<float> y(device(), Shape{3});
  put({.block = {3}})(y, 2);
  EXPECT_EQ(y.to_host(), (Floats{7, 7, 0}));
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { put({})(y, -1); });
  EXPECT_TRUE(contains(words, "count_t n")) << words;
}

// What a language lacks stands as an integer of its size.
TEST_P(Kernels, SmallTypesStandAsTheirBits) {
  const SourceModule module(device(), {.portable = R"(
S_ENTRY flip(S_GLOBAL s_u8* y) { y[S_THREAD] = !y[S_THREAD]; }
S_ENTRY negate(S_GLOBAL s_u16* y) { y[S_THREAD] ^= 0x8000; })"});
  DeviceArray<bool> flags(device(), {true, false, true});
  module.function("flip")({.block = {3}})(flags);
  EXPECT_EQ(flags.to_host(), (std::vector<bool>{false, true, false}));
  DeviceArray<f16> halves(device(), {f16(1.5), f16(-2)});
  module.function("negate")({.block = {2}})(halves);
  EXPECT_EQ(double{halves.to_host()[0]}, -1.5);
  EXPECT_EQ(double{halves.to_host()[1]}, 2);
  DeviceArray<std::int16_t> integers(device(), {1});
  error_of(ErrorKind::kDType, [&] { module.function("negate")({})(integers); });
}

TEST_P(Kernels, StructsArePassedAsTheyAre) {
  struct Line {
    float slope, offset;
  };
  const SourceModule module(device(), {.portable = R"(
typedef struct { float slope, offset; } line;
S_ENTRY apply(S_GLOBAL float* y, line l) { y[S_THREAD] = l.slope * y[S_THREAD] + l.offset; })"});
  const auto apply = module.function<void(DeviceArray<float>&, Line)>("apply");
  DeviceArray<float> y = array({1, 2});
  apply({.block = {2}})(y, Line{10, 0.5f});
  EXPECT_EQ(y.to_host(), (Floats{10.5, 20.5}));
}

TEST_P(Kernels, ASourceWithoutAKernelSaysWhatOneIs) {
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [] { SourceModule(device(), {.portable = "// nothing\n"}); });
  EXPECT_TRUE(contains(words, "S_ENTRY")) << words;
  error_of(ErrorKind::kUnsupported, [] { SourceModule(device(), KernelSources{.cuda = "__global__ …"}); });
}

TEST_P(Kernels, ArraysTakeNewValuesOfTheirShape) {
  DeviceArray<float> a(device(), Floats{1, 2, 3, 4}, Shape{2, 2});
  EXPECT_EQ(a.size(), 4);
  EXPECT_EQ(a.shape(), (Shape{2, 2}));
  const Tensor before = a.tensor();
  a.assign(Floats{5, 6, 7, 8});
  EXPECT_EQ(a.to_host(), (Floats{5, 6, 7, 8}));
  EXPECT_EQ(before.to_vector<float>(), (Floats{1, 2, 3, 4}));
  error_of(ErrorKind::kShape, [&] { a.assign(Floats{1}); });
  error_of(ErrorKind::kShape, [&] { DeviceArray<float>(device(), Floats{1, 2}, Shape{3}); });
}

TEST(DeviceArrays, ComeOnlyFromTensorsOfTheirTypeThatHaveAValue) {
  const std::string words =
      error_of(ErrorKind::kDType, [] { DeviceArray<float>(tensor({1, 2}, DType::i32)); });
  EXPECT_TRUE(contains(words, "i32")) << words;
  error_of(ErrorKind::kInvalidArgument, [] { DeviceArray<float>{Tensor()}; });
  auto traced = compile([](const Tensor& x) { return DeviceArray<float>(x).tensor(); });
  error_of(ErrorKind::kInvalidArgument, [&] { traced(tensor({1, 2}, DType::f32)); });
}

TEST(KernelDevices, ABackendWithoutKernelsNamesThoseWithThem) {
  const std::string words =
      error_of(ErrorKind::kUnsupported, [] { SourceModule("reference", "void f(void) {}"); });
  EXPECT_TRUE(contains(words, "cpu") && contains(words, "opencl")) << words;
  error_of(ErrorKind::kUnsupported, [] { synchronize("reference"); });
}

class CKernels : public Kernels {};
INSTANTIATE_TEST_SUITE_P(Cpu, CKernels, testing::Values("cpu"));

TEST_P(CKernels, GetARangeOfTheLaunchsPoints) {
  const SourceModule module("cpu", R"(
static int helper(int x) { return x + 1; }
void count(int* y, long long n, long long begin, long long end) {
  for (long long i = begin; i < end && i < n; ++i) y[i] = helper(y[i]);
}
void no_kernel(int* y) {}
)");
  EXPECT_EQ(module.functions(), std::vector<std::string>{"count"});
  DeviceArray<std::int32_t> y("cpu", Shape{1000});
  module.function("count")(Launch::over(1000))(y, 1000);
  EXPECT_EQ(y.to_host(), std::vector<std::int32_t>(1000, 1));
}

TEST_P(CKernels, WithoutARangeAreNone) {
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [] { SourceModule("cpu", "void f(float* x) { *x = 1; }"); });
  EXPECT_TRUE(contains(words, "long long begin, long long end")) << words;
}

TEST_P(CKernels, ThatNeedGroupsAreRefusedInWords) {
  const std::string words = error_of(ErrorKind::kParse, [] {
    SourceModule("cpu", {.portable = "S_ENTRY f(S_GLOBAL float* x) {\n  S_BARRIER;\n  x[0] = 1;\n}"});
  });
  EXPECT_TRUE(contains(words, "line 2") && contains(words, "threads that run together")) << words;
}

TEST_P(CKernels, StructsOfAnotherSizeAreRefused) {
  struct Pair {
    float a, b;
  };
  const SourceModule module("cpu", R"(
typedef struct { float a, b, c; } triple;
void f(float* y, triple t, long long begin, long long end) { y[0] = t.c; })");
  DeviceArray<float> y("cpu", {0});
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { module.function("f")({})(y, Pair{1, 2}); });
  EXPECT_TRUE(contains(words, "12 bytes") && contains(words, "8 bytes")) << words;
}

class OpenClKernels : public Kernels {};
INSTANTIATE_TEST_SUITE_P(OpenCl, OpenClKernels, testing::Values("opencl:0"));

const std::string kLocal = R"(
__kernel void turn(__global const float* x, __global float* y, __local float* part) {
  const size_t i = get_local_id(0), n = get_local_size(0);
  part[i] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = part[n - 1 - i];
}
__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void four(__global float* y) { y[get_global_id(0)] = 4; }
__kernel void lanes(__global float4* y, float4 v) { y[get_global_id(0)] = v; }
)";

TEST_P(OpenClKernels, LocalMemoryIsAnArgumentOrTheLaunchs) {
  const SourceModule module(device(), kLocal);
  const auto turn = module.function("turn");
  const DeviceArray<float> x = array({1, 2, 3, 4, 5, 6});
  const Floats turned{3, 2, 1, 6, 5, 4};
  DeviceArray<float> y(device(), Shape{6}), z(device(), Shape{6}), w(device(), Shape{6});
  const Launch launch{.grid = {2}, .block = {3}};
  turn(launch)(x, y, LocalArray<float>{3});
  EXPECT_EQ(y.to_host(), turned);
  turn({.grid = {2}, .block = {3}, .shared_bytes = 12})(x, z);
  EXPECT_EQ(z.to_host(), turned);
  module.function<void(const DeviceArray<float>&, DeviceArray<float>&, LocalArray<float>)>("turn")(launch)(
      x, w, {3});
  EXPECT_EQ(w.to_host(), turned);

  const std::string missing = error_of(ErrorKind::kInvalidArgument, [&] { turn(launch)(x, y); });
  EXPECT_TRUE(contains(missing, "__local float* part")) << missing;
  error_of(ErrorKind::kInvalidArgument, [&] { turn(launch)(x, y, 3); });
  error_of(ErrorKind::kInvalidArgument, [&] { turn(launch)(x, y, LocalArray<float>{0}); });
  error_of(ErrorKind::kDType, [&] { turn(launch)(x, y, LocalArray<double>{3}); });
  error_of(ErrorKind::kInvalidArgument,
           [&] { module.function("four")({.block = {4}, .shared_bytes = 8})(y); });
  const std::string limit =
      error_of(ErrorKind::kLimit, [&] { turn(launch)(x, y, LocalArray<float>{std::int64_t{1} << 40}); });
  EXPECT_TRUE(contains(limit, "local memory")) << limit;
}

TEST_P(OpenClKernels, BlocksOverTheDevicesLimitsAreRefused) {
  const SourceModule module(device(), kLocal);
  DeviceArray<float> y(device(), Shape{8});
  const auto four = module.function("four");
  const std::string fixed = error_of(ErrorKind::kInvalidArgument, [&] { four({.block = {8}})(y); });
  EXPECT_TRUE(contains(fixed, "expected 4×1×1, got 8")) << fixed;
  four({.grid = {2}, .block = {4}})(y);
  EXPECT_EQ(y.to_host(), Floats(8, 4));
  const auto fill = Kernels::module().function("fill");
  const std::string large = error_of(ErrorKind::kLimit, [&] { fill({.block = {1 << 20}})(y, 1, 8); });
  EXPECT_TRUE(contains(large, "kernel fill") && contains(large, "1048576")) << large;
  error_of(ErrorKind::kLimit, [&] { fill({.block = {1024, 1024, 1024}})(y, 1, 8); });
}

TEST_P(OpenClKernels, VectorsAreNumbersOfSeveralLanes) {
  const auto lanes = SourceModule(device(), kLocal).function("lanes");
  DeviceArray<float> y(device(), Shape{2, 4});
  lanes({.block = {2}})(y, std::array<float, 4>{1, 2, 3, 4});
  EXPECT_EQ(y.to_host(), (Floats{1, 2, 3, 4, 1, 2, 3, 4}));
  error_of(ErrorKind::kInvalidArgument, [&] { lanes({})(y, std::array<float, 2>{1, 2}); });
  error_of(ErrorKind::kInvalidArgument, [&] { lanes({})(y, 1.0f); });
}

TEST_P(OpenClKernels, FlagsAndWarningsAreTheDrivers) {
  const SourceModule module(device(), "__kernel void f(__global float* x) { char* p = (float*)0; x[0] = N; }",
                            {.flags = "-D N=3"});
  EXPECT_TRUE(contains(module.log(), "incompatible pointer types")) << module.log();
  DeviceArray<float> y(device(), Shape{1});
  module.function("f")({})(y);
  EXPECT_EQ(y.to_host(), Floats{3});
  error_of(ErrorKind::kInvalidArgument, [] { SourceModule(device(), kLocal, {.flags = "--no-such-flag"}); });
}

TEST(SourceText, ReadsDeclarationsPastEverythingElse) {
  const std::string source = R"(
#define TWICE(x) \
  ((x) * 2)
/* void no(float* x) {} */ struct pair { int a; };
static const char* const text = "void no() {";
__attribute__((noinline)) static inline unsigned helper(unsigned a) { if (a) { return 1; } return 0; }
void declared(int n);
void f(const float *restrict x, float* y, unsigned long long count, struct pair p, short s) { helper(1); }
void g(void) {}
)";
  const std::vector<runtime::SourceSignature> all = runtime::source_signatures(source);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "helper");
  EXPECT_EQ(all[1].name, "f");
  EXPECT_EQ(all[2].name, "g");
  EXPECT_TRUE(all[2].parameters.empty());
  const std::vector<runtime::SourceParameter>& p = all[1].parameters;
  ASSERT_EQ(p.size(), 5u);
  EXPECT_EQ(p[0].to_string(), "const float* x");
  EXPECT_FALSE(p[0].is_written);
  EXPECT_TRUE(p[1].is_written);
  EXPECT_EQ(p[2].dtype, DType::u64);
  EXPECT_EQ(p[3].type, "struct pair");
  EXPECT_FALSE(p[3].dtype);
  EXPECT_EQ(p[4].dtype, DType::i16);
  EXPECT_TRUE(all[1].is_plain);
  EXPECT_FALSE(runtime::source_signatures("void f(float x[]) {}")[0].is_plain);
}

TEST(SourceText, SurvivesTextThatIsNoSource) {
  for (const char* text : {"", "(", "f(", "void f(", "void f() {", "}}}", "\"", "/*", "#", "typedef",
                           "typedef a b", "typedef a a;", "void f(,) {}", "() {}", "'\\"})
    EXPECT_NO_THROW({
      runtime::source_signatures(text);
      runtime::source_typedefs(runtime::source_tokens(text));
    }) << text;
  const runtime::Typedefs self{{"a", "b"}, {"b", "a"}};
  EXPECT_FALSE(runtime::number_type("a", self));
}

}  // namespace

}  // namespace systole
