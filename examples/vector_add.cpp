// Article S2, section 3.3.1: a kernel of one's own, c = a + b. The source is written once in the words of
// docs/kernels.md and runs on any device that takes kernels; CUDA gets one of its own, in which every thread
// goes through the arrays in steps of the whole grid.
//
//   vector_add [DEVICE]     the first GPU, else an OpenCL device, else the processor

#include <systole/systole.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "first_device.h"
#include "options.h"

namespace {

using namespace systole;

constexpr int kCount = 1'000'003;  // no multiple of a block: the last group has threads too many

const std::string kInCuda = R"(
__global__ void add(const float* a, const float* b, float* c, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) c[i] = a[i] + b[i];
}
)";
const std::string kPortable = R"(
S_ENTRY add(S_GLOBAL const float* a, S_GLOBAL const float* b, S_GLOBAL float* c, int n) {
  const int i = S_THREAD;
  if (i < n) c[i] = a[i] + b[i];
}
)";

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[DEVICE]");
  const std::string device = argc > 1 ? argv[1] : first_device({"cuda", "opencl", "cpu"});
  std::vector<float> x(kCount), y(kCount);
  for (int i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(i);
    y[i] = static_cast<float>(2 * i) + 0.5f;
  }
  DeviceArray<float> a(device, x), b(device, y), c(device, {kCount});

  const SourceModule module(device, {.portable = kPortable, .cuda = kInCuda});
  const auto add = module.function<void(const float*, const float*, float*, int)>("add");
  add({.grid = {(kCount + 255) / 256}, .block = {256}})(a, b, c, kCount);

  int wrong = 0;
  const std::vector<float> sum = c.to_host();
  for (int i = 0; i < kCount; ++i) wrong += sum[i] != x[i] + y[i];
  std::printf("%d sums on %s: %d wrong\n", kCount, module.device().to_string().c_str(), wrong);

  // An array is a Tensor without a copy, and what Tensors compute goes to kernels.
  const DeviceArray<float> twice((c.tensor() * 2).eval());
  std::printf("2·c[3] = %g\n", twice.to_host()[3]);
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "vector_add: " << error.what() << "\n";
  return 1;
}
