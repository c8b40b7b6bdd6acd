// Article S2, section 3.3.2: the taps of a filter in constant memory, which all threads read at once. In CUDA
// it is a variable of the module, which the host sets by its name; in OpenCL a parameter in the __constant
// space, and on the processor an array like any other. The filtered signal is compared with a loop on the
// host.
//
//   constant_memory [DEVICE]     the first GPU, else an OpenCL device, else the processor

#include <systole/systole.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "first_device.h"
#include "options.h"

namespace {

using namespace systole;

constexpr int kCount = 100'003, kTaps = 7;

const std::string kInCuda = R"(
__constant__ float taps[TAPS];
__global__ void filter(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < TAPS; ++k) {
    const int at = i + k - TAPS / 2;
    if (at >= 0 && at < n) sum += taps[k] * x[at];
  }
  y[i] = sum;
}
)";
const std::string kInOpenCl = R"(
__kernel void filter(__global const float* x, __global float* y, int n, __constant float* taps) {
  const int i = get_global_id(0);
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < TAPS; ++k) {
    const int at = i + k - TAPS / 2;
    if (at >= 0 && at < n) sum += taps[k] * x[at];
  }
  y[i] = sum;
}
)";
const std::string kInC = R"(
void filter(const float* x, float* y, int n, const float* taps, long long begin, long long end) {
  for (long long i = begin; i < end; ++i) {
    float sum = 0;
    for (int k = 0; k < TAPS; ++k) {
      const long long at = i + k - TAPS / 2;
      if (at >= 0 && at < n) sum += taps[k] * x[at];
    }
    y[i] = sum;
  }
}
)";

// The largest difference to the same filter on the host.
double error_of(const std::vector<float>& x, const std::vector<float>& taps, const std::vector<float>& y) {
  double most = 0;
  for (int i = 0; i < kCount; ++i) {
    double sum = 0;
    for (int k = 0; k < kTaps; ++k)
      if (const int at = i + k - kTaps / 2; at >= 0 && at < kCount) sum += double{taps[k]} * x[at];
    most = std::max(most, std::abs(sum - y[i]));
  }
  return most;
}

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[DEVICE]");
  const std::string device = argc > 1 ? argv[1] : first_device({"cuda", "opencl", "cpu"});
  std::vector<float> signal(kCount);
  for (int i = 0; i < kCount; ++i) signal[i] = static_cast<float>(std::sin(0.01 * i) + (i % 10) * 0.1);
  const std::vector<float> smooth = {0.05f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.05f},
                           sharp = {0, -0.1f, -0.3f, 1.8f, -0.3f, -0.1f, 0};

  const SourceModule module(device, {.opencl = kInOpenCl, .cuda = kInCuda, .c = kInC},
                            {.defines = {{"TAPS", std::to_string(kTaps)}}});
  const SourceFunction filter = module.function("filter");
  const DeviceArray<float> x(device, signal);
  DeviceArray<float> y(device, {kCount});
  double most = 0;
  for (const std::vector<float>& taps : {smooth, sharp}) {
    if (module.device().backend == "cuda") {
      module.constant<float>("taps").copy_from(taps);  // after launches that read the old ones
      filter(Launch::over(kCount))(x, y, kCount);
    } else {
      filter(Launch::over(kCount))(x, y, kCount, DeviceArray<float>(device, taps));
    }
    most = std::max(most, error_of(signal, taps, y.to_host()));
  }
  std::printf("two filters of %d taps over %d numbers on %s: largest error %.1e\n", kTaps, kCount,
              module.device().to_string().c_str(), most);
  return most < 1e-5 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "constant_memory: " << error.what() << "\n";
  return 1;
}
