// Order of what a program's kernels, copies and variables do on CUDA, on streams, of threads and in graphs.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "source_check.h"

namespace systole {
namespace {

TEST_F(CudaSource, VariablesOfAModuleAreSetAndRead) {
  fake().set_kernel(0, [](FakeLaunch&) {});
  const SourceModule module("cuda:0", kScale);
  auto taps = module.constant<float>("taps");
  EXPECT_EQ(taps.size(), 4u);
  taps.copy_from({1, 2, 3, 4});
  EXPECT_EQ(taps.to_host(), (Floats{1, 2, 3, 4}));
  const auto* const there = static_cast<const float*>(fake().variable("taps"));
  ASSERT_NE(there, nullptr);
  EXPECT_EQ(there[2], 3);
  taps.copy_from(Floats{5, 6, 7, 8});
  EXPECT_EQ(there[3], 8);
  auto calls = module.global<int>("calls");
  calls.copy_from(41);
  EXPECT_EQ(calls.to_host(), std::vector<int>{41});
  std::string words = error_of(ErrorKind::kShape, [&] { taps.copy_from({1, 2}); });
  EXPECT_TRUE(contains(words, "variable taps") && contains(words, "16 bytes")) << words;
  words = error_of(ErrorKind::kDType, [&] { module.constant<double>("taps"); });
  EXPECT_TRUE(contains(words, "f32") && contains(words, "f64")) << words;
  words = error_of(ErrorKind::kNotFound, [&] { module.constant<float>("tabs"); });
  EXPECT_TRUE(contains(words, "taps, calls")) << words;
  // Launches on other streams are in order with the copies.
  const Stream one("cuda:0"), two("cuda:0");
  const auto scale = module.function("scale");
  const DeviceArray<float> x = array({1, 2, 3, 4});
  DeviceArray<float> a("cuda:0", {4}), b("cuda:0", {4});
  fake().clear_log();
  scale({.block = {4}, .stream = one})(x, a, 1, 4);
  scale({.block = {4}, .stream = two})(x, b, 1, 4);
  taps.copy_from({0, 0, 0, 0});
  scale({.block = {4}, .stream = one})(x, a, 1, 4);
  EXPECT_GT(fake().count("cuStreamWaitEvent"), 3);
}

// Then launches of other threads wait for the module's order alone.
TEST_F(CudaSource, WhoReadsAVariableWaitsForKernelsBeforeItLocksTheModule) {
  fake().set_kernel(0, [](FakeLaunch&) {});
  const SourceModule module("cuda:0", kScale);
  const auto calls = module.global<int>("calls");
  DeviceArray<float> y("cuda:0", {4});
  module.function("scale")({.block = {4}})(array({1, 2, 3, 4}), y, 1, 4);
  fake().clear_log();
  calls.to_host();
  const std::string names = fake().names();
  EXPECT_TRUE(names.starts_with("cuEventSynchronize ")) << names;
}

// A copy that came between a launch's question what it waits for and its answer when it is done would be
// ordered with neither.
TEST_F(CudaSource, VariablesAreInOrderWithLaunchesOfOtherThreads) {
  const SourceModule module("cuda:0", kScale);
  fake().set_kernel(4, [](FakeLaunch& launch) {
    const float* const taps = launch.read_variable("taps", 4);
    float* const y = launch.write(1, 4);
    for (int i = 0; i < 4; ++i) y[i] = taps[i];
  });
  constexpr int kRounds = 100;
  const DeviceArray<float> x = array({1, 1, 1, 1});
  FakeDriver::set_hesitant(true);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const Stream stream("cuda:0");
      DeviceArray<float> y("cuda:0", {4});
      for (int i = 0; i < kRounds; ++i)
        module.function("scale")({.block = {4}, .stream = stream})(x, y, 1, 4);
      const Floats seen = y.to_host();
      EXPECT_EQ(seen, Floats(4, seen[0]));  // of one copy
    });
  auto taps = module.constant<float>("taps");
  for (int i = 0; i < kRounds; ++i) taps.copy_from(Floats(4, static_cast<float>(i)));
  EXPECT_EQ(taps.to_host()[3], kRounds - 1);
  for (std::thread& thread : threads) thread.join();
  FakeDriver::set_hesitant(false);
}

TEST_F(CudaSource, LaunchesOnStreamsWaitForWhatUsedTheirArrays) {
  const SourceModule module("cuda:0", kPlainScale);
  const auto scale = module.function<void(const float*, float*, float, int)>("scale");
  const Stream one("cuda:0"), two("cuda:0");
  EXPECT_NE(one, two);
  DeviceArray<float> a = array({1, 2, 3}), b("cuda:0", {3}), c("cuda:0", {3}), d("cuda:0", {3});
  for (int round = 0; round < 3; ++round) {
    scale(Launch::over(3).on(one))(a, b, 2, 3);
    scale(Launch::over(3).on(two))(b, c, 3, 3);  // after the first
    scale(Launch::over(3))(c, d, 1, 3);          // on the default stream, after the second
    scale(Launch::over(3).on(one))(c, b, 5, 3);  // writes what the second read
    const Tensor sum = b.tensor() + d.tensor();  // a session's stream
    EXPECT_EQ(d.to_host(), (Floats{6, 12, 18}));
    EXPECT_EQ(sum.device().to_string(), "cuda:0");
  }
  EXPECT_EQ(b.to_host(), (Floats{30, 60, 90}));
  {
    DeviceArray<float> shortlived("cuda:0", {3});
    scale(Launch::over(3).on(two))(a, shortlived, 1, 3);
    scale(Launch::over(3).on(one))(shortlived, c, 1, 3);
  }
  EXPECT_EQ(c.to_host(), (Floats{1, 2, 3}));
  one.synchronize();
  EXPECT_TRUE(two.is_done());
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { scale(Launch::over(3).on(Stream("cpu")))(a, b, 1, 3); });
  EXPECT_TRUE(contains(words, "kernel scale on cuda:0: the stream is of another device")) << words;
}

TEST_F(CudaSource, SlicesAreInOrderWithTheirArray) {
  const SourceModule module("cuda:0", kPlainScale);
  const auto scale = module.function("scale");
  const Stream one("cuda:0"), two("cuda:0");
  DeviceArray<float> a = array({1, 2, 3, 4, 5, 6}), b("cuda:0", {3});
  for (int round = 0; round < 3; ++round) {
    scale(Launch::over(3).on(one))(a.slice(0, 3), a.slice(3, 6), 2, 3);
    scale(Launch::over(3).on(two))(a.slice(3, 6), b, 10, 3);
    a.slice(5, 6).fill(9, one);
  }
  EXPECT_EQ(b.to_host(), (Floats{20, 40, 60}));
  EXPECT_EQ(a.to_host(), (Floats{1, 2, 3, 2, 4, 9}));
  auto shortlived = std::make_unique<DeviceArray<float>>(array({1, 2, 3, 4}));
  auto part = shortlived->slice(1, 4);
  shortlived.reset();
  scale(Launch::over(3).on(two))(part, b, 1, 3);
  part.free();
  EXPECT_EQ(b.to_host(), (Floats{2, 3, 4}));
  DeviceArray<double> wide("cuda:0", {5});
  wide.slice(1, 4).fill(2.5, two);
  EXPECT_EQ(wide.to_host(), (std::vector<double>{0, 2.5, 2.5, 2.5, 0}));
  // A float4 lies at multiples of 16 bytes.
  const SourceModule vectors("cuda:0", "__global__ void f(float4* y) { y[0].x = 1; }");
  fake().set_kernel(1, [](FakeLaunch&) {});
  DeviceArray<float> y("cuda:0", {8});
  vectors.function("f")({.block = {1}})(y.slice(4, 8));
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { vectors.function("f")({.block = {1}})(y.slice(1, 5)); });
  EXPECT_TRUE(contains(words, "argument 0 (float4* y)") && contains(words, "16 bytes")) << words;
}

TEST_F(CudaSource, EventsAreMomentsOfAStream) {
  const SourceModule module("cuda:0", kPlainScale);
  const auto scale = module.function("scale");
  const Stream one("cuda:0"), two("cuda:0");
  const DeviceArray<float> x = array({1, 2, 3});
  DeviceArray<float> y("cuda:0", {3});
  Event begin(one), end;
  EXPECT_FALSE(end.is_recorded());
  error_of(ErrorKind::kInvalidArgument, [&] { end.synchronize(); });
  scale(Launch::over(3).on(one))(x, y, 2, 3);
  end.record(one);
  two.wait(end);
  EXPECT_EQ(begin.elapsed_time(end), 1);  // as the fake driver says
  EXPECT_TRUE(end.is_done());
  fake().clear_log();
  Event all("cuda:0");  // after Tensors' work and copies too
  EXPECT_GT(fake().count("cuStreamWaitEvent"), 1);
  all.synchronize();
  Stream::default_of("cuda:0").synchronize();
  synchronize("cuda:0");
  error_of(ErrorKind::kInvalidArgument, [&] { begin.elapsed_time(Event("cpu")); });
}

TEST_F(CudaSource, CopiesWithoutWaitingAreInOrder) {
  const SourceModule module("cuda:0", kPlainScale);
  const auto scale = module.function("scale");
  const Stream copies("cuda:0"), work("cuda:0");
  HostArray<float> in("cuda:0", Floats{1, 2, 3}), out("cuda:0", 3);
  EXPECT_EQ(out.to_vector(), (Floats{0, 0, 0}));
  DeviceArray<float> x("cuda:0", {3}), y("cuda:0", {3});
  x.copy_from_async(in, copies);
  scale(Launch::over(3).on(work))(x, y, 2, 3);
  y.copy_to_async(out, copies);
  EXPECT_EQ(out[2], 6);  // waits
  EXPECT_FALSE(out.is_busy());
  in[0] = 10;  // waits as well
  x.copy_from_async(in);
  EXPECT_EQ(x.to_host(), (Floats{10, 2, 3}));
  const Tensor held = x.tensor();
  x.copy_from_async(out, work);
  EXPECT_EQ(held.to_vector<float>(), (Floats{10, 2, 3}));
  EXPECT_EQ(x.to_host(), (Floats{2, 4, 6}));
  {
    HostArray<float> shortlived("cuda:0", Floats{7, 8, 9});
    x.copy_from_async(shortlived, work);
    shortlived.free();
    EXPECT_FALSE(shortlived.defined());
    EXPECT_EQ(shortlived.size(), 0u);
  }
  EXPECT_EQ(x.to_host(), (Floats{7, 8, 9}));
  // Another device waits for what this one copies.
  DeviceArray<float> there("cpu", {3});
  x.copy_to_async(out, copies);
  there.copy_from_async(out);
  EXPECT_EQ(there.to_host(), (Floats{7, 8, 9}));
  HostArray<float> small("cuda:0", 2);
  error_of(ErrorKind::kShape, [&] { x.copy_to_async(small); });
  x.free();
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { x.copy_from_async(in); });
  EXPECT_TRUE(contains(words, "freed")) << words;
}

TEST_F(CudaSource, KernelOpsAreCapturedWithTheirGraph) {
  const KernelOp twice({.name = "twice", .sources = {.cuda = R"(
__global__ void twice(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < S_COUNT) y[i] = 2 * x[i];
})"}});
  fake().set_kernel(2, [](FakeLaunch& launch) {
    EXPECT_EQ(launch.kernel(), "_Z5twicePKfPf");
    EXPECT_EQ(launch.sizes().block[0], 256u);
    const float* const x = launch.read(0, 4);
    float* const y = launch.write(1, 4);
    for (int i = 0; i < 4; ++i) y[i] = 2 * x[i];
  });
  const auto f = compile([&](const Tensor& x) { return twice(twice(x)); });
  const DeviceArray<float> x = array({1, 2, 3, 4});
  for (int round = 0; round < 3; ++round)
    EXPECT_EQ(f(x.tensor()).to_vector<float>(), (Floats{4, 8, 12, 16})) << round;
  EXPECT_GE(fake().count("cuGraphLaunch"), 1);
  const KernelOp elsewhere({.name = "f", .sources = {.opencl = "__kernel void f() {}"}});
  const std::string words = error_of(ErrorKind::kUnsupported, [&] { elsewhere(x.tensor()).eval(); });
  EXPECT_TRUE(contains(words, "no source in this device's language and no body graph")) << words;
  const KernelOp broken(
      {.name = "broken",
       .sources = {.cuda = "__global__ void broken(const float* x, float* y) { y[0] = nothing; }"}});
  const std::string refused = error_of(ErrorKind::kParse, [&] { broken(x.tensor()).eval(); });
  EXPECT_TRUE(contains(refused, "kernel_call broken: kernel source on cuda:0, line 1: ") &&
              contains(refused, "identifier \"nothing\" is undefined"))
      << refused;
}

TEST_F(CudaSource, ZeroedResultsAreSoInEveryLaunchOfAGraph) {
  const KernelOp total({.name = "total",
                        .sources = {.cuda = "__global__ void total(const float* x, float* y) {"
                                            " atomicAdd(y, x[threadIdx.x]); }"},
                        .results = {{DType::f32, {1}}},
                        .zeroed = true,
                        .launch = Launch{.grid = {1}, .block = {4}}});
  fake().set_kernel(2, [](FakeLaunch& launch) {
    const float* const x = launch.read(0, 4);
    float* const y = launch.write(1, 1);
    for (int i = 0; i < 4; ++i) y[0] += x[i];
  });
  const auto f = compile([&](const Tensor& x) { return total(x); });
  const DeviceArray<float> x = array({1, 2, 3, 4});
  fake().clear_log();
  for (int round = 0; round < 4; ++round) EXPECT_EQ(f(x.tensor()).item<float>(), 10) << round;
  EXPECT_GE(fake().count("cuGraphLaunch"), 2);
  EXPECT_LE(fake().count("cuMemsetD8Async"), 3);  // captured with the kernel
}

TEST_F(CudaSource, ZeroedResultsOfAnEmptyLaunchAreZeros) {
  const KernelOp total({.name = "total",
                        .sources = {.cuda = "__global__ void total(const float* x, float* y) {"
                                            " atomicAdd(y, x[threadIdx.x]); }"},
                        .results = {{DType::f32, {3}}},
                        .zeroed = true,
                        .launch = Launch::over(0)});
  fake().set_kernel(2, [](FakeLaunch&) { FAIL() << "it is launched"; });
  const auto f = compile([&](const Tensor& x) { return total(x); });
  const DeviceArray<float> x("cuda:0", {0});
  for (int round = 0; round < 4; ++round) EXPECT_EQ(f(x.tensor()).to_vector<float>(), Floats(3, 0)) << round;
}

}  // namespace
}  // namespace systole
