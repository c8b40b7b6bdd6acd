// Launches of kernels that a program brings: their arguments and sizes, on every device that takes them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "error_check.h"
#include "kernel_devices.h"
#include "systole/runtime/timeline.h"
#include "systole/tensor.h"

namespace systole {

namespace {

INSTANTIATE_TEST_SUITE_P(Devices, Kernels, testing::Values("cpu", "opencl:0", "cuda:0"), device_word);

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
  synchronize(module.device());
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
  EXPECT_EQ(module.functions().size(), 4u);
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
  mixed({.block = {1}})(y, Small::seven, std::size_t{5}, 'c');
  EXPECT_EQ(y.to_host(), (Floats{7, 5, 99}));
  mixed({.block = {1}})(y, 255, -1, 4000000000LL);
  EXPECT_EQ(y.to_host(), (Floats{255, -1, 4e9f}));
  const auto refused = [&](auto a, auto b, auto c) {
    return error_of(ErrorKind::kInvalidArgument, [&] { mixed({.block = {1}})(y, a, b, c); });
  };
  EXPECT_TRUE(contains(refused(256, 0, 0), "argument 1"));
  EXPECT_TRUE(contains(refused(0, ~std::uint64_t{0}, 0), "18446744073709551615"));
  EXPECT_TRUE(contains(refused(0, 0, -1), "argument 3"));
  fill({.block = {3}})(y, 2.5, 3u);  // a double for a float, as in C++
  EXPECT_EQ(y.to_host(), (Floats{2.5, 2.5, 2.5}));
  fill({.block = {3}})(y, 16777216, 3);
  EXPECT_EQ(y.to_host()[0], 16777216);
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { fill({.block = {1}})(y, 16777217, 3); });
  EXPECT_TRUE(contains(words, "float value")) << words;  // no float has this value
}

TEST_P(Kernels, NumbersOutsideTheParametersRangeAreRefused) {
  const SourceModule& module = Kernels::module();
  DeviceArray<float> y = array({1, 2});
  const auto fill = module.function<void(float*, float, int)>("fill");
  const std::string large = error_of(ErrorKind::kInvalidArgument, [&] { fill({.block = {2}})(y, 1e300, 2); });
  EXPECT_TRUE(contains(large, "argument 1 (float value): the number does not fit") &&
              contains(large, "expected a number of f32, got 1e+300"))
      << large;
  error_of(ErrorKind::kInvalidArgument, [&] { module.function("fill")({.block = {2}})(y, -1e39, 2); });
  EXPECT_EQ(y.to_host(), (Floats{1, 2}));
  fill({.block = {2}})(y, 0.1, 2);  // rounded
  EXPECT_EQ(y.to_host()[0], 0.1f);
  fill({.block = {2}})(y, std::numeric_limits<double>::infinity(), 2);
  EXPECT_EQ(y.to_host()[1], std::numeric_limits<float>::infinity());
  const auto mixed = module.function<void(float*, std::uint8_t, std::int64_t, unsigned)>("mixed");
  const std::string small =
      error_of(ErrorKind::kInvalidArgument, [&] { mixed({.block = {1}})(y, 300, 0, 0); });
  EXPECT_TRUE(contains(small, "argument 1 (s_u8 a)") && contains(small, "expected a number of u8, got 300"))
      << small;
  const std::string negative =
      error_of(ErrorKind::kInvalidArgument, [&] { mixed({.block = {1}})(y, 0, 0, -1); });
  EXPECT_TRUE(contains(negative, "argument 3") && contains(negative, "expected a number of u32, got -1"))
      << negative;
}

TEST_P(Kernels, ArraysAndNumbersAreNotMixedUp) {
  const auto scale = module().function("scale");
  DeviceArray<float> y = array({1, 2});
  const DeviceArray<float> x = array({1, 2});
  auto wide = DeviceArray<double>::of(device(), {1, 2});
  const std::string number =
      error_of(ErrorKind::kInvalidArgument, [&] { scale({.block = {1}})(3, y, 1, 2); });
  EXPECT_TRUE(contains(number, "argument 0 (const float* x)") && contains(number, "array of f32")) << number;
  const std::string array = error_of(ErrorKind::kInvalidArgument, [&] { scale({.block = {1}})(x, y, x, 2); });
  EXPECT_TRUE(contains(array, "argument 2 (float factor): a number is wanted, an array was given")) << array;
  const std::string dtype = error_of(ErrorKind::kDType, [&] { scale({.block = {1}})(x, wide, 1, 2); });
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

TEST_P(Kernels, ArraysOfAnotherDeviceAreRefused) {
  const auto fill = module().function("fill");
  auto elsewhere = DeviceArray<float>::of("reference", {1, 2});
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { fill({.block = {1}})(elsewhere, 1, 2); });
  EXPECT_TRUE(contains(words, "argument 0 (float* y)") && contains(words, "reference") &&
              contains(words, device()))
      << words;
}

TEST_P(Kernels, LaunchesThatCannotBeAreRefused) {
  const auto fill = module().function("fill");
  DeviceArray<float> y = array({1, 2});
  error_of(ErrorKind::kInvalidArgument, [&] { fill({.block = {0}})(y, 1, 2); });
  error_of(ErrorKind::kInvalidArgument, [&] { fill({.grid = {-1}, .block = {1}})(y, 1, 2); });
  error_of(ErrorKind::kInvalidArgument,
           [&] { fill({.grid = {std::int64_t{1} << 62}, .block = {256}})(y, 1, 2); });
  error_of(ErrorKind::kInvalidArgument, [&] { fill(Launch::over(5, 0))(y, 1, 2); });
  error_of(ErrorKind::kInvalidArgument, [&] { fill(Launch::over(-5))(y, 1, 2); });
  error_of(ErrorKind::kInvalidArgument, [&] { fill({.grid = {2}, .block = {4}, .items = 9})(y, 1, 2); });
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { fill({.grid = {4}})(y, 1, 2); });
  EXPECT_TRUE(contains(words, "no block")) << words;
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
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { fill({.block = {1}})(none, 1, 2); });
  EXPECT_TRUE(contains(words, "argument 0 (float* y)")) << words;
  DeviceArray<float> moved = array({1, 2});
  const DeviceArray<float> taken = std::move(moved);
  const std::string gone = error_of(ErrorKind::kInvalidArgument, [&] { moved.size(); });
  EXPECT_TRUE(contains(gone, "moved from")) << gone;
  error_of(ErrorKind::kInvalidArgument, [&] { none.to_host(); });
  error_of(ErrorKind::kInvalidArgument, [&] { none.tensor(); });
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

TEST(KernelDevices, ABackendWithoutKernelsNamesThoseWithThem) {
  const std::string words =
      error_of(ErrorKind::kUnsupported, [] { SourceModule("reference", "void f(void) {}"); });
  EXPECT_TRUE(contains(words, "cpu") && contains(words, "opencl")) << words;
  EXPECT_NO_THROW(synchronize("reference"));  // nothing is under way there
}

using Scale = void(const float*, float*, float, int);

TEST_P(Kernels, ASignatureMayHavePointersForArrays) {
  const TypedSourceFunction<Scale> scale = module().function<Scale>("scale");
  const DeviceArray<float> x = array({1, 2});
  DeviceArray<float> y(x.device(), {2});
  scale({.block = {2}})(x, y, 3, 2);
  EXPECT_EQ(y.to_host(), (Floats{3, 6}));
  scale({.block = {2}})(array({5, 7}), y, 2.0, std::size_t{2});
  EXPECT_EQ(y.to_host(), (Floats{10, 14}));
  error_of(ErrorKind::kDType, [] { module().function<void(const int*, float*, float, int)>("scale"); });
  error_of(ErrorKind::kInvalidArgument,
           [] { module().function<void(const float*, const float*, float, int)>("scale"); });
}

// What the compiler refuses: floats for integers, const arrays and temporaries where the kernel writes.
using ScaleCall = TypedSourceFunction<Scale>::Call;
using In = const DeviceArray<float>&;
using Out = DeviceArray<float>&;
static_assert(std::is_invocable_v<ScaleCall, In, Out, float, int>);
static_assert(std::is_invocable_v<ScaleCall, In, Out, int, std::size_t>);
static_assert(!std::is_invocable_v<ScaleCall, In, Out, float, double>);
static_assert(!std::is_invocable_v<ScaleCall, In, Out, float, f16>);
static_assert(!std::is_invocable_v<ScaleCall, In, In, float, int>);
static_assert(!std::is_invocable_v<ScaleCall, In, DeviceArray<float>, float, int>);
static_assert(!std::is_constructible_v<KernelArgument, Tensor>);

TEST_P(Kernels, NumbersOfATypedCallAreCheckedToo) {
  const auto scale = module().function<Scale>("scale");
  const DeviceArray<float> x = array({1, 2});
  DeviceArray<float> y = array({0, 0});
  const std::string words = error_of(ErrorKind::kInvalidArgument,
                                     [&] { scale({.block = {2}})(x, y, 1, (std::size_t{1} << 32) + 2); });
  EXPECT_TRUE(contains(words, "int n") && contains(words, "4294967298")) << words;
  EXPECT_EQ(y.to_host(), (Floats{0, 0}));
}

TEST_P(Kernels, AnOutputIntoATemporaryIsRefused) {
  const auto scale = module().function("scale");
  const DeviceArray<float> x = array({1, 2});
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { scale({.block = {2}})(x, DeviceArray<float>(x), 1, 2); });
  EXPECT_TRUE(contains(words, "argument 1 (float* y)") && contains(words, "a temporary")) << words;
}

struct Numbers {
  float values[64];
  int count;
};

std::vector<KernelArgument> list_of(DeviceArray<float>& y, float first) {
  Numbers numbers{};
  for (int i = 0; i < 8; ++i) numbers.values[i] = first + static_cast<float>(i);
  numbers.count = 8;
  return {y, numbers, DeviceArray<float>(y.device(), Floats{100})};
}

TEST_P(Kernels, ArgumentsInAListKeepWhatIsTheirs) {
  const SourceModule module(device(), {.portable = R"(
typedef struct { float values[64]; int count; } numbers;
S_ENTRY f(S_GLOBAL float* y, numbers x, S_GLOBAL const float* more) {
  if (S_THREAD < x.count) y[S_THREAD] = x.values[S_THREAD] + more[0];
})"});
  DeviceArray<float> y(device(), {8});
  const std::vector<KernelArgument> list = list_of(y, 1), other = list_of(y, 50);
  module.function("f").launch({.block = {8}}, list);
  EXPECT_EQ(y.to_host(), (Floats{101, 102, 103, 104, 105, 106, 107, 108}));
}

TEST_P(Kernels, WhatWasMovedFromSaysSo) {
  SourceModule module(device(), kSources);
  SourceFunction f = module.function("fill");
  TypedSourceFunction<void(float*, float, int)> typed(f);
  DeviceArray<float> y = array({1, 2});
  const SourceFunction g = std::move(f);
  const auto h = std::move(typed);
  const SourceModule other = std::move(module);
  EXPECT_TRUE(g.defined() && h.defined() && other.defined());
  EXPECT_FALSE(f.defined() || typed.defined() || module.defined());
  for (const std::string& words :
       {error_of(ErrorKind::kInvalidArgument, [&] { f({.block = {2}})(y, 1, 2); }),
        error_of(ErrorKind::kInvalidArgument, [&] { typed({.block = {2}})(y, 1, 2); }),
        error_of(ErrorKind::kInvalidArgument, [&] { f.name(); }),
        error_of(ErrorKind::kInvalidArgument, [&] { module.function("fill"); }),
        error_of(ErrorKind::kInvalidArgument, [&] { module.device(); }),
        error_of(ErrorKind::kInvalidArgument, [] { SourceModule().functions(); })})
    EXPECT_TRUE(contains(words, "never made, or moved from")) << words;
  h({.block = {2}})(y, 4, 2);
  EXPECT_EQ(y.to_host(), (Floats{4, 4}));
}

TEST_P(Kernels, InsideCompileAreRefused) {
  const auto fill = module().function("fill");
  DeviceArray<float> y = array({1, 2});
  auto step = compile([&](const Tensor& x) {
    fill({.block = {2}})(y, 1, 2);
    return x * 2;
  });
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { step(tensor({1, 2}, DType::f32)); });
  EXPECT_TRUE(contains(words, "kernel fill") && contains(words, "compile()")) << words;
  EXPECT_EQ(y.to_host(), (Floats{1, 2}));
}

// The kernel takes a while; a span of its launch alone would be microseconds.
TEST_P(Kernels, OnTheTimelineTakeTheirOwnTime) {
  const SourceModule module(device(), {.portable = R"(
S_ENTRY slow(S_GLOBAL float* y, int n) {
  float x = y[S_THREAD];
  for (int i = 0; i < n; ++i) x = x * 0.999f + 1.0f;
  y[S_THREAD] = x;
})"});
  const auto slow = module.function("slow");
  DeviceArray<float> y(device(), {1});
  slow({.block = {1}})(y, 1);
  const std::string path = testing::TempDir() + "kernels_test_timeline_" + device().substr(0, 3) + ".json";
  Timeline::start(path);
  slow({.block = {1}})(y, 20'000'000);  // some 100 ms: a chain of dependent operations
  Timeline::stop();
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::filesystem::remove(path);
  double most = 0;  // microseconds; a GPU has a row of its own beside the launch's
  for (std::size_t at = text.find("\"slow\""); at != std::string::npos; at = text.find("\"slow\"", at + 1)) {
    const std::size_t line = text.rfind('\n', at) + 1, duration = text.find("\"dur\":", line);
    if (duration != std::string::npos) most = std::max(most, std::stod(text.substr(duration + 6)));
  }
  EXPECT_GT(most, 10'000) << text;
}

}  // namespace

}  // namespace systole
