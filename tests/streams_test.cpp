// Streams, events, copies that are not waited for, and what a device says of itself, on devices that do all
// in one queue; tests/cuda has those of CUDA.

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "error_check.h"
#include "kernel_devices.h"
#include "systole/systole.h"

namespace systole {

namespace {

INSTANTIATE_TEST_SUITE_P(Devices, Kernels, testing::Values("cpu", "opencl:0", "cuda:0"), device_word);

TEST_P(Kernels, OnStreamsHappenInTheOrderThatTheirArraysAsk) {
  const auto scale = module().function<void(const float*, float*, float, int)>("scale");
  const Stream one(device()), two(device());
  EXPECT_FALSE(one == two);
  EXPECT_FALSE(one.is_default());
  EXPECT_EQ(one.device(), module().device());
  const DeviceArray<float> a = array({1, 2, 3});
  DeviceArray<float> b(device(), {3}), c(device(), {3});
  for (int i = 0; i < 10; ++i) {
    scale(Launch::over(3).on(one))(a, b, 2, 3);
    scale({.block = {3}, .stream = two})(b, c, 3, 3);
    scale(Launch::over(3))(c, b, 1, 3);
  }
  EXPECT_EQ(b.to_host(), (Floats{6, 12, 18}));
  one.synchronize();
  EXPECT_TRUE(one.is_done());
  const Stream other("reference");
  const std::string words =
      error_of(ErrorKind::kInvalidArgument, [&] { scale(Launch::over(3).on(other))(a, b, 1, 3); });
  EXPECT_TRUE(contains(words, "kernel scale") && contains(words, "the stream is of another device") &&
              contains(words, "reference"))
      << words;
}

TEST_P(Kernels, EventsMeasureTheTimeOfWhatIsBetweenThem) {
  const SourceModule slow(device(), {.portable = R"(
S_ENTRY slow(S_GLOBAL float* y, int n) {
  float x = y[S_THREAD];
  for (int i = 0; i < n; ++i) x = x * 0.999f + 1.0f;
  y[S_THREAD] = x;
})"});
  const auto f = slow.function("slow");
  DeviceArray<float> y(device(), {1});
  f({.block = {1}})(y, 1);
  const Stream stream(device());
  const Event begin(stream);
  f({.block = {1}, .stream = stream})(y, 3'000'000);
  Event end;
  end.record(stream);
  Stream(device()).wait(end);
  Stream::default_of(device()).wait(end);
  const double ms = begin.elapsed_time(end);
  EXPECT_GT(ms, 1);
  EXPECT_LT(ms, 60'000);
  EXPECT_TRUE(end.is_done());
  const Event all(device());
  all.synchronize();
  EXPECT_GE(begin.elapsed_time(all), ms);
  error_of(ErrorKind::kInvalidArgument, [&] { begin.elapsed_time(Event("reference")); });
  error_of(ErrorKind::kInvalidArgument, [&] { begin.elapsed_time(Event()); });
  error_of(ErrorKind::kInvalidArgument, [] { Stream().synchronize(); });
}

TEST_P(Kernels, CopiesThatAreNotWaitedForArrive) {
  HostArray<float> in(device(), Floats{1, 2, 3}), out(device(), 3);
  EXPECT_EQ(in.device(), module().device());
  const Stream stream(device());
  DeviceArray<float> x(device(), {3}), y(device(), {3});
  x.copy_from_async(in, stream);
  module().function("scale")({.block = {3}})(x, y, 2, 3);
  y.copy_to_async(out);
  EXPECT_EQ(out[2], 6);
  EXPECT_FALSE(out.is_busy());
  const Tensor before = x.tensor();
  x.copy_from_async(out, stream);
  EXPECT_EQ(before.to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_EQ(x.to_host(), (Floats{2, 4, 6}));
  std::iota(out.begin(), out.end(), 5.0f);
  EXPECT_EQ(std::as_const(out).to_vector(), (Floats{5, 6, 7}));
  HostArray<float> moved = std::move(out);
  EXPECT_EQ(moved.size(), 3u);
  EXPECT_EQ(out.size(), 0u);
  error_of(ErrorKind::kInvalidArgument, [&] { x.copy_from_async(out); });
  error_of(ErrorKind::kInvalidArgument, [&] { out.data(); });
  const HostArray<float> small(device(), 2), none(device(), 0);
  const std::string words = error_of(ErrorKind::kShape, [&] { x.copy_from_async(small); });
  EXPECT_TRUE(contains(words, "expected 3 elements")) << words;
  DeviceArray<float> empty(device(), {0});
  empty.copy_from_async(none);
  error_of(ErrorKind::kInvalidArgument, [] { HostArray<float>(device(), -1); });
}

TEST_P(Kernels, AFreedArrayIsUndefinedAndOthersKeepTheMemory) {
  DeviceArray<float> x = array({1, 2});
  const Tensor t = x.tensor();
  x.free();
  EXPECT_FALSE(x.defined());
  EXPECT_EQ(t.to_vector<float>(), (Floats{1, 2}));
  const std::string words = error_of(ErrorKind::kInvalidArgument, [&] { x.to_host(); });
  EXPECT_TRUE(contains(words, "freed")) << words;
  x.free();
  x = array({3});
  EXPECT_EQ(x.to_host(), Floats{3});
}

TEST_P(Kernels, VariablesAreForModulesThatHaveThem) {
  if (device() == "cuda:0") GTEST_SKIP() << "tests/cuda has them";
  const std::string words = error_of(ErrorKind::kUnsupported, [] { module().constant<float>("taps"); });
  EXPECT_TRUE(contains(words, "variable taps") && contains(words, "an array as an argument")) << words;
}

TEST_P(Kernels, RunOnADeviceThatDescribesItself) {
  const DeviceProperties known = device_properties(device());
  EXPECT_EQ(known.device, module().device());
  EXPECT_FALSE(known.name.empty());
  EXPECT_GT(known.multiprocessors, 0);
  EXPECT_GT(known.total_memory, 0);
  EXPECT_GT(memory_info(device()).total, 0);
}

static_assert(!std::is_copy_constructible_v<HostArray<float>>);
// Memory of the host that may move or go is not copied from behind the program's back.
template <class T>
concept CopiedFromLater = requires(DeviceArray<float> a, T values) { a.copy_from_async(values); };
static_assert(CopiedFromLater<HostArray<float>>);
static_assert(!CopiedFromLater<std::vector<float>>);
static_assert(!CopiedFromLater<HostArray<double>>);

TEST(StreamsOfOtherDevices, DoNothing) {
  const Stream stream("reference");
  stream.synchronize();
  EXPECT_TRUE(stream.is_done());
  const Event begin(stream), end("reference");
  EXPECT_GE(begin.elapsed_time(end), 0);
  HostArray<float> host("reference", Floats{1, 2});
  DeviceArray<float> x("reference", {2});
  x.copy_from_async(host, stream);
  EXPECT_EQ(x.to_host(), (Floats{1, 2}));
  x.copy_to_async(host);
  EXPECT_EQ(host[1], 2);
  EXPECT_EQ(device_properties("reference").device.to_string(), "reference");
}

}  // namespace

}  // namespace systole
