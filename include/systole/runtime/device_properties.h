#pragma once

// What a device is and can do, for programs that choose their launches by it.
//
//   const DeviceProperties gpu = device_properties("cuda:0");
//   const int blocks = 4 * gpu.multiprocessors;
//   const MemoryInfo memory = memory_info("cuda:0");

#include <cstddef>
#include <cstdint>
#include <string>

#include "systole/base/export.h"
#include "systole/runtime/device_spec.h"
#include "systole/runtime/launch.h"

namespace systole {

// 0, or empty, is what the device does not say.
struct DeviceProperties {
  DeviceName device{};
  std::string name{};                        // "NVIDIA H200"
  std::int64_t total_memory = 0;             // bytes
  int compute_major = 0, compute_minor = 0;  // compute capability: 9.0
  int multiprocessors = 0;                   // OpenCL's compute units; threads of a processor
  int warp_size = 0;                         // threads that go together
  std::int64_t max_threads_per_block = 0;
  Size3 max_block{0, 0, 0}, max_grid{0, 0, 0};
  std::int64_t shared_bytes_per_block = 0;      // that a kernel has without more ado
  std::int64_t max_shared_bytes_per_block = 0;  // that a Launch may ask for
  std::int64_t shared_bytes_per_multiprocessor = 0;
  std::int64_t constant_bytes = 0;
  std::int64_t max_threads_per_multiprocessor = 0;
  std::int64_t registers_per_multiprocessor = 0;
  std::int64_t l2_bytes = 0;
  int clock_khz = 0;
  int driver_version = 0;  // 13000: CUDA 13.0
};
SYSTOLE_API DeviceProperties device_properties(const DeviceSpec& device);

// Bytes. `free` is what this process could still take: what the driver has, and what was freed and is kept
// for the next array. Zeros where the device does not say.
struct MemoryInfo {
  std::int64_t free = 0, total = 0;
};
SYSTOLE_API MemoryInfo memory_info(const DeviceSpec& device);

}  // namespace systole
