// Article S2, section 3.2: memory of a device. An array is allocated, filled, copied on the device and back,
// and freed; then copies go on while the program does something else. The article copies a `pycuda.array`,
// which does not exist; here the array is a DeviceArray.
//
//   device_memory [DEVICE]     the first GPU, else an OpenCL device, else the processor

#include <systole/systole.h>

#include <cstdio>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "first_device.h"
#include "options.h"

int main(int argc, char** argv) try {
  answer_help(argc, argv, "[DEVICE]");
  using namespace systole;
  const std::string device = argc > 1 ? argv[1] : first_device({"cuda", "opencl", "cpu"});
  const DeviceProperties known = device_properties(device);
  std::printf("%s: %s, %.1f GB\n", known.device.to_string().c_str(), known.name.c_str(),
              static_cast<double>(known.total_memory) / 1e9);

  // Allocate and fill: zeros, undefined values, and values of the host's.
  constexpr int kCount = 1 << 20;
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 0.0f);
  DeviceArray<float> zeros(device, {kCount}), copy = DeviceArray<float>::empty(device, {1024, 1024});
  DeviceArray<float> there(device, values);

  // Copy on the device, and back; the shapes may differ, the counts may not.
  copy.copy_from(there);
  const std::vector<float> back = copy.to_host();
  int wrong = 0;
  for (const float zero : zeros.to_host()) wrong += zero != 0;
  for (int i = 0; i < kCount; ++i) wrong += back[i] != values[i];

  // An array is a value: `same` shares the memory until one of the two is written to.
  const DeviceArray<float> same = there;
  there.copy_from(std::vector<float>(kCount, -1.0f));
  wrong += same.to_host()[5] != 5 || there.to_host()[5] != -1;

  // Copies that are not waited for, from and to memory that the device reads by itself. Reading `host` waits.
  const Stream stream(device);
  HostArray<float> host(device, values);
  there.copy_from_async(host, stream);
  there.copy_to_async(host, stream);
  wrong += host[kCount - 1] != kCount - 1;

  // Free: by the end of the block, or now. The memory goes when kernels and copies are done with it.
  const MemoryInfo before = memory_info(device);
  copy.free();
  zeros.free();
  synchronize(device);
  std::printf("%d numbers there and back: %d wrong\n", kCount, wrong);
  if (before.free > 0)  // not every driver says
    std::printf("free of %.1f GB: %.3f GB before, %.3f GB after\n", static_cast<double>(before.total) / 1e9,
                static_cast<double>(before.free) / 1e9, static_cast<double>(memory_info(device).free) / 1e9);
  return wrong == 0 && !copy.defined() ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << "device_memory: " << error.what() << "\n";
  return 1;
}
