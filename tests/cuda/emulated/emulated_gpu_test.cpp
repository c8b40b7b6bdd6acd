// What the emulated GPU computes by hand-made kernels, and that it finds what it is there to find. It is
// found by this program's environment; a fault takes it away from the process, so each test has its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "../../error_check.h"
#include "../fake_driver.h"
#include "systole/systole.h"

namespace systole {

namespace {

constexpr const char* kDevice = "cuda:0";

std::vector<float> counted(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.f);
  return values;
}

class EmulatedGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::is_available()) GTEST_SKIP() << "no emulated GPU: " << cuda::unavailable_reason();
    ASSERT_EQ(device_properties(kDevice).name, "Emulated GPU");
  }
};

TEST_F(EmulatedGpu, RunsThreadsOfGroupsInThreeDimensions) {
  SourceModule module(kDevice, R"(
    extern "C" __global__ void places(int* y, int w, int h) {
      const int x = blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y * blockDim.y + threadIdx.y,
                z = blockIdx.z * blockDim.z + threadIdx.z;
      y[(z * h + v) * w + x] = 10000 * x + 100 * v + z;
    })");
  DeviceArray<int> y(kDevice, {4, 6, 8});
  module.get_function("places")({.grid = {4, 2, 2}, .block = {2, 3, 2}})(y, 8, 6);
  const std::vector<int> found = y.to_host();
  for (int z = 0; z < 4; ++z)
    for (int v = 0; v < 6; ++v)
      for (int x = 0; x < 8; ++x)
        EXPECT_EQ(found[static_cast<std::size_t>((z * 6 + v) * 8 + x)], 10000 * x + 100 * v + z);
}

TEST_F(EmulatedGpu, LanesOfAWarpExchangeValues) {
  SourceModule module(kDevice, R"(
    extern "C" __global__ void exchange(const double* x, double* y) {
      const int i = threadIdx.x;
      double sum = x[i];
      for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(0xffffffff, sum, by);
      y[i] = sum;
      y[64 + i] = __shfl_down_sync(0xffffffff, x[i], 1);
      y[128 + i] = __shfl_up_sync(0xffffffff, x[i], 2, 8);
      y[192 + i] = __shfl_sync(0xffffffff, x[i], 5);
      y[256 + i] = __ballot_sync(0xffffffff, i % 3 == 0);
    })");
  std::vector<double> x(64);
  std::iota(x.begin(), x.end(), 0.0);
  DeviceArray<double> in(kDevice, x), out(kDevice, {5, 64});
  module.get_function("exchange")({.grid = {1}, .block = {64}})(in, out);
  const std::vector<double> y = out.to_host();
  EXPECT_EQ(y[3], 31 * 32 / 2);             // 0 + … + 31
  EXPECT_EQ(y[40], 31 * 32 / 2 + 32 * 32);  // 32 + … + 63
  EXPECT_EQ(y[64 + 7], 8);
  EXPECT_EQ(y[64 + 31], 31);  // the last has no neighbour
  EXPECT_EQ(y[128 + 9], 9);   // the first of the second eight has none
  EXPECT_EQ(y[128 + 15], 13);
  EXPECT_EQ(y[192 + 50], 37);
  EXPECT_EQ(y[256], 0x49249249u);       // lanes 0, 3, … 30
  EXPECT_EQ(y[256 + 32], 0x92492492u);  // 33, 36, … 63
}

constexpr const char* kSum = R"(
  extern "C" __global__ void sum(const float* x, float* y) {
    __shared__ float all[96];
    extern __shared__ float more[];
    all[threadIdx.x] = x[threadIdx.x];
    more[threadIdx.x] = x[threadIdx.x];
    MEET;
    if (threadIdx.x == 0)
      for (int i = 0; i < 96; ++i) y[0] += all[i] + more[i];
  })";

TEST_F(EmulatedGpu, GroupsShareMemory) {
  SourceModule module(kDevice, kSum, {.defines = {{"MEET", "__syncthreads()"}}});
  DeviceArray<float> x(kDevice, counted(96)), y(kDevice, {1});
  module.get_function("sum")({.grid = {1}, .block = {96}, .shared_bytes = 96 * 4})(x, y);
  EXPECT_EQ(y.to_host()[0], 95 * 96);
}

// Each kernel runs twice here, to compare.
TEST_F(EmulatedGpu, LeavesVariablesAndWhatTablesLeadToAsOneRunDoes) {
  SourceModule module(kDevice, R"(
    __device__ int calls;
    extern "C" __global__ void count(float* const* table) {
      atomicAdd(&calls, 1);
      if (threadIdx.x == 0) table[0][0] += 1;
    })");
  DeviceArray<float> y(kDevice, {1});
  const DeviceArray<std::uint64_t> table(kDevice, std::vector<std::uint64_t>{y.address()});
  for (int i = 0; i < 3; ++i) module.get_function("count")({.grid = {1}, .block = {5}})(table);
  module.synchronize();
  EXPECT_EQ(module.global<int>("calls").to_host()[0], 15);
  EXPECT_EQ(y.to_host()[0], 3);
}

TEST_F(EmulatedGpu, FindsThatABarrierIsMissing) {
  SourceModule module(kDevice, kSum, {.defines = {{"MEET", ""}}});
  DeviceArray<float> x(kDevice, counted(96)), y(kDevice, {1});
  error_of(ErrorKind::kContextLost, [&] {
    module.get_function("sum")({.grid = {1}, .block = {96}, .shared_bytes = 96 * 4})(x, y);
    y.to_host();
  });
}

TEST_F(EmulatedGpu, FindsWhatIsWrittenBesideAnArray) {
  SourceModule module(kDevice, "extern \"C\" __global__ void fill(float* y) { y[threadIdx.x] = 1; }");
  DeviceArray<float> y(kDevice, {64});
  const auto fill = module.get_function("fill");
  fill({.grid = {1}, .block = {64}})(y);
  EXPECT_EQ(y.to_host()[63], 1);
  error_of(ErrorKind::kContextLost, [&] {
    fill({.grid = {1}, .block = {65}})(y);
    y.to_host();
  });
}

TEST_F(EmulatedGpu, FindsThreadsThatWaitForever) {
  SourceModule module(kDevice, R"(
    extern "C" __global__ void part(float* y) {
      if (threadIdx.x < 7) y[0] = __shfl_xor_sync(0xffffffff, y[0], 1);
    })");
  DeviceArray<float> y(kDevice, {1});
  error_of(ErrorKind::kContextLost, [&] {
    module.get_function("part")({.grid = {1}, .block = {32}})(y);
    y.to_host();
  });
}

// Of what a group shares the sanitizer knows; run with it.
TEST_F(EmulatedGpu, DISABLED_ReadsBesideWhatAGroupShares) {
  SourceModule module(kDevice, R"(
    extern "C" __global__ void read(float* y, int n) {
      __shared__ float all[8];
      all[threadIdx.x] = 1;
      __syncthreads();
      y[0] = all[n];
    })");
  DeviceArray<float> y(kDevice, {1});
  module.get_function("read")({.grid = {1}, .block = {8}})(y, 8);
  y.to_host();
}

}  // namespace

namespace cuda {
namespace {

class Named final : public FakeKernel {
 public:
  Named(std::string name, std::string& log) : name_(std::move(name)), log_(log) {}
  const std::vector<std::size_t>& sizes() const override { return sizes_; }
  unsigned most_threads() const override { return 1024; }
  std::string run(const FakeLaunch::Sizes&, std::uint64_t, void**) override {
    log_ += name_;
    return {};
  }

 private:
  const std::string name_;
  std::string& log_;
  const std::vector<std::size_t> sizes_;
};

class NamedKernels final : public FakeCode {
 public:
  explicit NamedKernels(std::string& log) : log_(log) {}
  FakeKernel* kernel(std::string_view symbol) override {
    return kernels_.emplace_back(std::make_unique<Named>(std::string(symbol), log_)).get();
  }
  const std::vector<Variable>& variables() const override { return variables_; }

 private:
  std::string& log_;
  std::vector<std::unique_ptr<Named>> kernels_;
  const std::vector<Variable> variables_;
};

// A file of no sections.
std::vector<char> empty_code() {
  std::vector<char> bytes(64);
  std::copy_n("\177ELF", 4, bytes.begin());
  bytes[40] = 64;
  return bytes;
}

// a, then b and c beside each other, then d.
TEST(EmulatedGraphs, AreRunInEveryOrderThatTheirWaitsAllow) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    std::string log;
    FakeDriver fake;
    fake.run_code([&](std::string_view) { return std::make_shared<NamedKernels>(log); }, {.seed = seed});
    const Driver& cu = fake.table();
    Context context = nullptr;
    Stream first = nullptr, second = nullptr;
    Event begin = nullptr, end = nullptr;
    LoadedModule module = nullptr;
    const std::vector<char> code = empty_code();
    check(cu.cuDevicePrimaryCtxRetain(&context, 0), "retain");
    check(cu.cuCtxSetCurrent(context), "set");
    for (Stream* stream : {&first, &second}) check(cu.cuStreamCreate(stream, 0), "stream");
    for (Event* event : {&begin, &end}) check(cu.cuEventCreate(event, 0), "event");
    check(cu.cuModuleLoadData(&module, code.data()), "load");
    const auto launch = [&](const char* name, Stream stream) {
      Function function = nullptr;
      check(cu.cuModuleGetFunction(&function, module, name), "function");
      check(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr), "launch");
    };
    check(cu.cuStreamBeginCapture(first, kCaptureThreadLocal), "capture");
    launch("a", first);
    check(cu.cuEventRecord(begin, first), "record");
    check(cu.cuStreamWaitEvent(second, begin, 0), "wait");
    launch("b", first);
    launch("c", second);
    check(cu.cuEventRecord(end, second), "record");
    check(cu.cuStreamWaitEvent(first, end, 0), "wait");
    launch("d", first);
    Graph graph = nullptr;
    GraphExec exec = nullptr;
    check(cu.cuStreamEndCapture(first, &graph), "capture");
    check(cu.cuGraphInstantiate(&exec, graph, 0), "instantiate");
    check(cu.cuGraphLaunch(exec, first), "launch");
    orders.insert(log);
  }
  EXPECT_EQ(orders, (std::set<std::string>{"abcd", "acbd"}));
}

}  // namespace
}  // namespace cuda

}  // namespace systole
