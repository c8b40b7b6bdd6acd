// Article S2, section 3.3.2: the sum of a million numbers by groups of threads that share memory: every
// thread adds up its numbers, every group the sums of its threads, a second launch those of the groups. The
// article's kernel, which is found in many places, has room for 32 floats and 256 threads that write to it,
// and leaves out elements 64 to 255; here the memory has a place for each thread. The processor has no such
// groups and gets a source of its own in C. The result is compared with a sum in double.
//
//   block_reduce [DEVICE]     the first GPU, else an OpenCL device, else the processor

#include <systole/systole.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "first_device.h"
#include "options.h"

namespace {

using namespace systole;

constexpr int kCount = 1 << 20, kGroups = 64;

// Group g of the launch takes the g-th part of the numbers.
const std::string kByGroups = R"(
S_KERNEL(THREADS) block_sum(S_GLOBAL const float* x, S_GLOBAL float* sums, int n, int groups) {
  S_LOCAL float part[THREADS];
  const s_i64 begin = S_GROUP * n / groups, end = (S_GROUP + 1) * n / groups;
  float sum = 0;
  for (s_i64 i = begin + S_LANE; i < end; i += THREADS) sum += x[i];
  part[S_LANE] = sum;
  S_BARRIER;
  for (int k = THREADS / 2; k > 0; k /= 2) {
    if (S_LANE < k) part[S_LANE] += part[S_LANE + k];
    S_BARRIER;
  }
  if (S_LANE == 0) sums[S_GROUP] = part[0];
}
)";

// In C a kernel gets a range of the launch's threads; here a group is one thread.
const std::string kInC = R"(
void block_sum(const float* x, float* sums, int n, int groups, long long begin, long long end) {
  for (long long g = begin; g < end; ++g) {
    float part[16] = {0}, sum = 0;
    for (long long i = g * n / groups; i < (g + 1) * n / groups; ++i) part[i % 16] += x[i];
    for (int k = 0; k < 16; ++k) sum += part[k];
    sums[g] = sum;
  }
}
)";

}  // namespace

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[DEVICE]");
  const std::string device = argc > 1 ? argv[1] : first_device({"cuda", "opencl", "cpu"});
  std::vector<float> values(kCount);
  std::uint32_t state = 1;
  double expected = 0;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / (1 << 24);  // from 0 to 1
    expected += v;
  }

  const int threads = DeviceName::parse(device).backend == "cpu" ? 1 : 256;
  const SourceModule module(device, {.portable = kByGroups, .c = kInC},
                            {.defines = {{"THREADS", std::to_string(threads)}}});
  const auto block_sum = module.function<void(const float*, float*, int, int)>("block_sum");
  const DeviceArray<float> x(device, values);
  DeviceArray<float> sums(device, {kGroups}), total(device, {1});
  block_sum({.grid = {kGroups}, .block = {threads}})(x, sums, kCount, kGroups);
  block_sum({.grid = {1}, .block = {threads}})(sums, total, kGroups, 1);

  const double got = total.to_host()[0], error = std::abs(got - expected) / expected;
  std::printf("sum of %d numbers on %s: %.6g, in double: %.6g, relative error %.1e\n", kCount,
              module.device().to_string().c_str(), got, expected, error);
  return error < 1e-5 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "block_reduce: " << error.what() << "\n";
  return 1;
}
