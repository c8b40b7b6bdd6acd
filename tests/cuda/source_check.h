#pragma once

// Tests of kernels that a program brings to CUDA, against the fake driver: NVRTC compiles them, what they do
// is written in the tests. Orders between streams are the driver's to watch.

#include <string>
#include <string_view>
#include <vector>

#include "fake_check.h"
#include "systole/systole.h"

namespace systole {

using cuda::FakeCuda;
using cuda::FakeDriver;
using cuda::FakeGpu;
using cuda::FakeLaunch;

using Floats = std::vector<float>;

// As long as the process, as its devices.
inline FakeDriver& fake() {
  static FakeDriver& only =
      *std::make_unique<FakeDriver>(std::vector<FakeGpu>{{.name = "Fake H200"}}).release();
  return only;
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline constexpr const char* kScale = R"(
__constant__ float taps[4];
__device__ int calls;
__global__ void scale(const float* __restrict__ x, float* y, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i] * taps[i % 4];
  if (i == 0) atomicAdd(&calls, 1);
}
)";
inline constexpr const char* kPlainScale = R"(
__global__ void scale(const float* x, float* y, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
})";

class CudaSource : public FakeCuda {
 protected:
  void SetUp() override {
    SYSTOLE_NEEDS_NVRTC();
    fake().clear_log();
    fake().recover();
    fake().set_kernel(4, [](FakeLaunch& launch) {
      const auto n = static_cast<std::size_t>(launch.number<int>(3));
      const float* const x = launch.read(0, n);
      float* const y = launch.write(1, n);
      for (std::size_t i = 0; i < n; ++i) y[i] = launch.number<float>(2) * x[i];
    });
  }
  void TearDown() override { EXPECT_EQ(fake().violations(), ""); }
  static DeviceArray<float> array(const Floats& values) { return {"cuda:0", values}; }
};

}  // namespace systole
