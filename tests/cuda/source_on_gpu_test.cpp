// Kernels that a program brings, on a GPU: what the fake driver cannot show. Elsewhere skipped, with the
// reason.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "../error_check.h"
#include "../scratch_folder.h"
#include "systole/systole.h"

namespace systole {
namespace {

using Floats = std::vector<float>;
constexpr const char* kGpu = "cuda:0";

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

double milliseconds_of(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

class SourceOnGpu : public ScratchFolder {
 protected:
  void SetUp() override {
    if (!cuda::is_available()) GTEST_SKIP() << "no GPU: " << cuda::unavailable_reason();
  }
};

TEST_F(SourceOnGpu, AddsVectorsInAGridStrideLoop) {
  const SourceModule module(kGpu, R"(
__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) c[i] = a[i] + b[i];
})");
  constexpr int kCount = 1'000'003;
  Floats x(kCount), y(kCount), wanted(kCount);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = static_cast<float>(i % 77) * 0.5f;
    wanted[i] = x[i] + y[i];
  }
  const DeviceArray<float> a(kGpu, x), b(kGpu, y);
  auto c = DeviceArray<float>::empty(kGpu, {kCount});
  const auto add = module.get_function<void(const float*, const float*, float*, int)>("vector_add");
  add({.grid = {64}, .block = {256}})(a, b, c, kCount);
  EXPECT_EQ(c.to_host(), wanted);
  EXPECT_EQ((c.tensor() * 2).to_vector<float>()[3], 2 * wanted[3]);
  DeviceArray<float> d(c.tensor() + a.tensor());
  add({.grid = {64}, .block = {256}})(d, a, c, kCount);
  EXPECT_EQ(c.to_host()[999], wanted[999] + 2 * x[999]);
}

TEST_F(SourceOnGpu, KnowsItsPlaceInTwoAndThreeDimensions) {
  const SourceModule module(kGpu, R"(
__global__ void transpose(const float* x, float* y, int width, int height) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < width && j < height) y[i * height + j] = x[j * width + i];
}
__global__ void place(int* y) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y,
            k = blockIdx.z * blockDim.z + threadIdx.z;
  const int w = gridDim.x * blockDim.x, h = gridDim.y * blockDim.y;
  y[(k * h + j) * w + x] = k * 10000 + j * 100 + x;
})");
  constexpr int kWidth = 67, kHeight = 35;
  Floats x(kWidth * kHeight);
  std::iota(x.begin(), x.end(), 0.0f);
  DeviceArray<float> turned(kGpu, {kWidth, kHeight});
  module.function("transpose")({.grid = {5, 3}, .block = {16, 16}})(DeviceArray<float>(kGpu, x), turned,
                                                                    kWidth, kHeight);
  const Floats got = turned.to_host();
  for (int j = 0; j < kHeight; ++j)
    for (int i = 0; i < kWidth; ++i)
      ASSERT_EQ(got[static_cast<std::size_t>(i * kHeight + j)], static_cast<float>(j * kWidth + i));
  DeviceArray<std::int32_t> places(kGpu, {8, 12, 20});
  module.function("place")({.grid = {5, 3, 2}, .block = {4, 4, 4}})(places);
  const std::vector<std::int32_t> there = places.to_host();
  for (int k = 0; k < 8; ++k)
    for (int j = 0; j < 12; ++j)
      for (int i = 0; i < 20; ++i)
        ASSERT_EQ(there[static_cast<std::size_t>((k * 12 + j) * 20 + i)], k * 10000 + j * 100 + i);
}

TEST_F(SourceOnGpu, HasConstantMemoryAndVariables) {
  const SourceModule module(kGpu, R"(
__constant__ float taps[5];
__device__ unsigned calls;
namespace inner { __device__ float4 offset; }
__global__ void blur(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) atomicAdd(&calls, 1u);
  if (i >= n) return;
  float sum = inner::offset.w;
  for (int k = -2; k <= 2; ++k) sum += taps[k + 2] * x[min(max(i + k, 0), n - 1)];
  y[i] = sum;
})");
  auto taps = module.constant<float>("taps");
  const auto blur = module.function<void(const float*, float*, int)>("blur");
  const DeviceArray<float> x(kGpu, Floats{0, 0, 0, 1, 0, 0, 0, 0});
  DeviceArray<float> y(kGpu, {8});
  taps.copy_from({1, 2, 3, 4, 5});
  blur(Launch::over(8))(x, y, 8);
  taps.copy_from({0, 0, 1, 0, 0});  // after that launch
  EXPECT_EQ(y.to_host(), (Floats{0, 5, 4, 3, 2, 1, 0, 0}));
  module.global<std::array<float, 4>>("inner::offset").copy_from(std::array<float, 4>{0, 0, 0, 10});
  blur(Launch::over(8))(x, y, 8);
  EXPECT_EQ(y.to_host(), (Floats{10, 10, 10, 11, 10, 10, 10, 10}));
  EXPECT_EQ(module.global<unsigned>("calls").to_host(), std::vector<unsigned>{2});
  EXPECT_EQ(taps.to_host(), (Floats{0, 0, 1, 0, 0}));
}

TEST_F(SourceOnGpu, AVariableThatAnotherThreadSetsHasOneValueInALaunch) {
  const SourceModule module(kGpu, R"(
__constant__ int same[4096];
__global__ void differing(int* y) {
  for (int i = threadIdx.x; i < 4096; i += blockDim.x)
    if (same[i] != same[0]) atomicAdd(y, 1);
})");
  const auto differing = module.function<void(int*)>("differing");
  auto same = module.constant<int>("same");
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const Stream stream(kGpu);
      DeviceArray<int> y(kGpu, {1});
      for (int i = 0; i < 300; ++i) differing({.grid = {132}, .block = {256}, .stream = stream})(y);
      EXPECT_EQ(y.to_host()[0], 0);
    });
  for (int i = 0; i < 300; ++i) same.copy_from(std::vector<int>(4096, i));
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SourceOnGpu, TakesMoreThan48KiBOfSharedMemory) {
  const SourceModule module(kGpu, R"(
__global__ void turn(const float* x, float* y, int n) {
  extern __shared__ float part[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) part[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = part[n - 1 - i];
}
extern "C" __global__ void __launch_bounds__(128) bounded(float* y) { y[threadIdx.x] = 1; })");
  const DeviceProperties gpu = device_properties(kGpu);
  std::printf("%s: %d.%d, %d multiprocessors, %lld bytes of shared memory a block\n", gpu.name.c_str(),
              gpu.compute_major, gpu.compute_minor, gpu.multiprocessors,
              static_cast<long long>(gpu.max_shared_bytes_per_block));
  ASSERT_GT(gpu.max_shared_bytes_per_block, 48 * 1024);
  const auto count = static_cast<int>(gpu.max_shared_bytes_per_block / 4);
  Floats values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  DeviceArray<float> y(kGpu, {count});
  const auto turn = module.function("turn");
  const auto bytes = static_cast<std::size_t>(4 * count);
  turn({.block = {256}, .shared_bytes = bytes})(DeviceArray<float>(kGpu, values), y, count);
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(y.to_host(), values);
  const auto refused = [&](const SourceFunction& f, const Launch& launch, auto... more) {
    return error_of(ErrorKind::kLimit, [&] { f(launch)(more..., y, count); });
  };
  const DeviceArray<float> x = y;
  std::string words = refused(turn, {.block = {256}, .shared_bytes = bytes + 4}, x);
  EXPECT_TRUE(contains(words, "kernel turn on cuda:0: more shared memory")) << words;
  words = refused(turn, {.block = {2048}}, x);
  EXPECT_TRUE(contains(words, "kernel turn on cuda:0")) << words;
  words = refused(turn, {.grid = {1, 65536}, .block = {1}}, x);
  EXPECT_TRUE(contains(words, "the grid is larger")) << words;
  words = error_of(ErrorKind::kLimit, [&] { module.function("bounded")({.block = {256}})(y); });
  EXPECT_TRUE(contains(words, "at most 128")) << words;
  turn({.block = {256}, .shared_bytes = bytes})(x, y, count);  // the context lives
  EXPECT_EQ(y.to_host()[0], 0);
}

TEST_F(SourceOnGpu, FreedMemoryIsFree) {
  const MemoryInfo before = memory_info(kGpu);
  auto large = DeviceArray<float>::empty(kGpu, {1 << 28});  // 1 GiB
  synchronize(kGpu);
  const MemoryInfo with = memory_info(kGpu);
  EXPECT_NEAR(static_cast<double>(before.free - with.free), 1073741824.0, 1e8);
  large.free();
  synchronize(kGpu);
  EXPECT_NEAR(static_cast<double>(memory_info(kGpu).free - with.free), 1073741824.0, 1e8);
  EXPECT_GE(before.total, before.free);
}

constexpr const char* kSlow = R"(
__global__ void slow(const float* x, float* y, long long ticks) {
  const long long begin = clock64();
  while (clock64() - begin < ticks) {}
  y[threadIdx.x] = x[threadIdx.x] + 1;
})";

TEST_F(SourceOnGpu, StreamsOverlapWhatSharesNothingAndOrderTheRest) {
  const SourceModule module(kGpu, kSlow);
  const auto slow = module.function<void(const float*, float*, std::int64_t)>("slow");
  const Stream one(kGpu), two(kGpu);
  const std::int64_t ticks = 40'000'000;  // some 20 ms
  const DeviceArray<float> zeros(kGpu, {32});
  DeviceArray<float> a(kGpu, {32}), b(kGpu, {32});
  slow({.block = {32}, .stream = one})(zeros, a, 1000);
  slow({.block = {32}, .stream = two})(zeros, b, 1000);
  synchronize(kGpu);
  const Event begin(one);
  two.wait(begin);
  slow({.block = {32}, .stream = one})(zeros, a, ticks);
  const Event single(one);
  slow({.block = {32}, .stream = two})(zeros, b, ticks);
  const Event other(two);
  one.wait(other);
  const Event both(one);
  EXPECT_FALSE(both.is_done());
  const double alone = begin.elapsed_time(single), together = begin.elapsed_time(both);
  std::printf("one kernel %.2f ms, two on two streams %.2f ms\n", alone, together);
  EXPECT_GT(alone, 5);
  EXPECT_LT(together, 1.5 * alone);
  // The same array: one after the other, whatever stream.
  const Event first(one);
  slow({.block = {32}, .stream = one})(zeros, a, ticks);
  slow({.block = {32}, .stream = two})(a, b, ticks);
  slow({.block = {32}, .stream = one})(b, a, ticks);
  const Event last(one);
  EXPECT_EQ(a.to_host(), Floats(32, 3));
  EXPECT_GT(first.elapsed_time(last), 2.5 * alone);
  // On the default stream an event is behind Tensors' work too.
  const Event before(kGpu);
  slow({.block = {32}})(zeros, a, ticks);
  const Tensor sum = (a.tensor() + 1).eval();
  const Event after(kGpu);
  EXPECT_GT(before.elapsed_time(after), 0.8 * alone);
  EXPECT_EQ(sum.to_vector<float>(), Floats(32, 2));
}

TEST_F(SourceOnGpu, CopiesWithoutWaiting) {
  const SourceModule module(kGpu, kSlow);
  const auto slow = module.function("slow");
  const Stream stream(kGpu);
  constexpr int kCount = 1 << 22;
  HostArray<float> in(kGpu, kCount), out(kGpu, kCount);
  std::iota(in.begin(), in.end(), 0.0f);
  DeviceArray<float> x(kGpu, {kCount});
  DeviceArray<float> tick(kGpu, {32});
  slow({.block = {32}, .stream = stream})(tick, tick, 40'000'000);
  const double taken = milliseconds_of([&] {
    x.copy_from_async(in, stream);
    x.copy_to_async(out, stream);
  });
  EXPECT_TRUE(out.is_busy());
  EXPECT_LT(taken, 5);
  EXPECT_EQ(out[kCount - 1], static_cast<float>(kCount - 1));  // waits
  EXPECT_TRUE(std::equal(in.begin(), in.end(), out.begin()));
  {
    HostArray<float> shortlived(kGpu, Floats(kCount, 7));
    slow({.block = {32}, .stream = stream})(tick, tick, 40'000'000);
    x.copy_from_async(shortlived, stream);
  }
  EXPECT_EQ(x.to_host()[kCount / 2], 7);
}

TEST_F(SourceOnGpu, ErrorsOfTheCompilerHaveTheSourcesLine) {
  const std::string words = error_of(ErrorKind::kParse, [] {
    SourceModule(kGpu, "__global__ void f(float* y) {\n  y[0] = nothing;\n}", {.source_name = "blur.cu"});
  });
  EXPECT_TRUE(contains(words, "blur.cu on cuda:0, line 2") && contains(words, "identifier \"nothing\""))
      << words;
}

TEST_F(SourceOnGpu, StructsAreComparedWithTheSizesOfTheDriver) {
  struct Pair {
    float a, b;
  };
  struct Triple {
    float a, b, c;
  };
  const SourceModule module(kGpu, R"(
#define ARGUMENTS float* y, triple t
struct triple { float a, b, c; };
extern "C" __global__ void f(ARGUMENTS) { y[0] = t.c; }
__global__ void g(ARGUMENTS) { y[0] = t.c; })");
  DeviceArray<float> y(kGpu, {1});
  for (const char* const name : {"f", "g"}) {
    const auto f = module.function(name);
    ASSERT_EQ(f.parameters().size(), 2u) << name;
    f({.block = {1}})(y, Triple{1, 2, 3});
    EXPECT_EQ(y.to_host()[0], 3);
    const std::string words =
        error_of(ErrorKind::kInvalidArgument, [&] { f({.block = {1}})(y, Pair{1, 2}); });
    EXPECT_TRUE(contains(words, "12 bytes") && contains(words, "8 bytes")) << words;
  }
}

TEST_F(SourceOnGpu, CompilesInHalfASecondAndLoadsInTenMilliseconds) {
  ::setenv("SYSTOLE_CACHE_DIR", folder_.c_str(), 1);
  ::setenv("SYSTOLE_CACHE", "1", 1);
  SourceModule(kGpu, "__global__ void warm(float* y) { y[0] = 1; }");  // the compiler's library is loaded
  const auto build = [](int i) {
    SourceModule(kGpu,
                 R"(
__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) c[i] = a[i] + b[i] + N;
}
__global__ void block_sum(const float* x, float* sums, int n) {
  __shared__ float part[256];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k /= 2) {
    if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
})",
                 {.defines = {{"N", std::to_string(i)}}})
        .function("vector_add");
  };
  std::vector<double> cold, cached;
  for (int i = 0; i < 5; ++i) cold.push_back(milliseconds_of([&] { build(i); }));
  for (int i = 0; i < 5; ++i) cached.push_back(milliseconds_of([&] { build(i); }));
  std::sort(cold.begin(), cold.end());
  std::sort(cached.begin(), cached.end());
  std::printf("a source of two kernels: cold %.1f ms (%.1f to %.1f), cached %.2f ms (%.2f to %.2f)\n",
              cold[2], cold[0], cold[4], cached[2], cached[0], cached[4]);
  EXPECT_LT(cold[2], 500);
  EXPECT_LT(cached[2], 10);
}

TEST_F(SourceOnGpu, LaunchesCostMicroseconds) {
  const SourceModule module(kGpu, "__global__ void nothing(float* y, int n) { if (n > 1) y[0] = n; }");
  const auto nothing = module.function<void(float*, int)>("nothing");
  DeviceArray<float> y(kGpu, {1});
  constexpr int kTimes = 2000;
  for (int i = 0; i < 100; ++i) nothing({.block = {1}})(y, 1);
  synchronize(kGpu);
  const double taken = milliseconds_of([&] {
    for (int i = 0; i < kTimes; ++i) nothing({.block = {1}})(y, 1);
    synchronize(kGpu);
  });
  std::printf("a launch: %.2f µs\n", 1000 * taken / kTimes);
  EXPECT_LT(1000 * taken / kTimes, 100);
}

// y = x / (1 + e⁻ˣ) with its own way back, in CUDA C++.
KernelOp swish() {
  const KernelOp back({.name = "swish_grad", .sources = {.cuda = R"(
__global__ void swish_grad(const float* x, const float* dy, float* dx) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= S_COUNT) return;
  const float s = 1 / (1 + expf(-x[i]));
  dx[i] = dy[i] * s * (1 + x[i] * (1 - s));
})"}});
  return KernelOp(
      {.name = "swish",
       .sources = {.cuda = R"(
__global__ void swish(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < S_COUNT) y[i] = x[i] / (1 + expf(-x[i]));
})"},
       .backward = [back](const KernelOp::Backward& b) { return back(b.inputs[0], b.gradients[0]); }});
}

TEST_F(SourceOnGpu, AKernelOpIsPartOfCompiledFunctionsAndTheirGraphs) {
  const DeviceScope scope(kGpu);
  const KernelOp op = swish();
  const auto f = compile([&](const Tensor& x) { return sum(op(x * 2)) + sum(op(x)); });
  const auto want = [](double x) { return 2 * x / (1 + std::exp(-2 * x)) + x / (1 + std::exp(-x)); };
  for (int round = 0; round < 4; ++round) {
    const double x = 0.25 * (round + 1);
    EXPECT_NEAR(f(full({1000}, x)).item<float>(), 1000 * want(x), 0.05) << round;
  }
  const auto slope = compile(grad([&](const Tensor& x) { return sum(op(x)); }));
  for (int round = 0; round < 3; ++round) EXPECT_NEAR(slope(zeros({100})).to_vector<float>()[99], 0.5, 1e-6);
}

TEST_F(SourceOnGpu, AKernelOpIsTrainedThrough) {
  const DeviceScope scope(kGpu);
  const KernelOp op = swish();
  Floats xs, ys;
  for (int i = -20; i <= 20; ++i) {
    const double x = 0.1 * i, z = 2 * x - 1;
    xs.push_back(static_cast<float>(x));
    ys.push_back(static_cast<float>(z / (1 + std::exp(-z))));
  }
  const Tensor x = tensor(xs), y = tensor(ys);
  Tensor w = full({}, 0.5), b = full({}, 0.0);
  const auto step = compile([&](const Tensor& w, const Tensor& b) {
    const auto loss = [&](const Tensor& w, const Tensor& b) { return mean(square(op(w * x + b) - y)); };
    const auto [value, grads] = value_and_grad<0, 1>(loss)(w, b);
    return std::tuple{value, w - 0.3 * std::get<0>(grads), b - 0.3 * std::get<1>(grads)};
  });
  for (int i = 0; i < 400; ++i) {
    const auto [value, new_w, new_b] = step(w, b);
    w = new_w;
    b = new_b;
  }
  EXPECT_NEAR(w.item<float>(), 2, 0.1);
  EXPECT_NEAR(b.item<float>(), -1, 0.1);
}

}  // namespace
}  // namespace systole
