#pragma once

// The functions of the CUDA driver that the backend calls, from the driver of this machine. Their names,
// types and numbers are NVIDIA's binary interface, written down here so that no header of CUDA is needed to
// build; where there is one, tests/cuda compares. Every status is checked: what fails is an Error with its
// name. A fault that a context does not survive is remembered, so that nobody asks the driver in vain.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace systole::cuda {

using Status = int;  // CUresult
using Address = std::uint64_t;
// A handle of NVIDIA's.
template <class Object>
using Opaque = Object*;
using Context = Opaque<struct ContextObject>;
using Stream = Opaque<struct StreamObject>;
using Event = Opaque<struct EventObject>;
using LoadedModule = Opaque<struct ModuleObject>;
using Function = Opaque<struct FunctionObject>;
using Graph = Opaque<struct GraphObject>;
using GraphExec = Opaque<struct GraphExecObject>;
using MemoryPool = Opaque<struct MemoryPoolObject>;

enum DriverConstant : int {
  kStreamNonBlocking = 1,     // CU_STREAM_NON_BLOCKING
  kEventDisableTiming = 2,    // CU_EVENT_DISABLE_TIMING
  kCaptureThreadLocal = 1,    // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
  kPoolWaitsForMemory = 3,    // CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES
  kPoolReleaseThreshold = 4,  // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
  kPoolReserved = 5,          // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
  kPoolUsed = 7,              // CU_MEMPOOL_ATTR_USED_MEM_CURRENT
  kHostPortable = 1,          // CU_MEMHOSTALLOC_PORTABLE
  kMaxThreadsPerBlock = 1,    // CU_DEVICE_ATTRIBUTE_…
  kMaxBlockX = 2,             // y and z follow
  kMaxGridX = 5,              // y and z follow
  kSharedPerBlock = 8,
  kConstantBytes = 9,
  kWarpSize = 10,
  kClockRate = 13,
  kMultiprocessors = 16,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kSharedPerBlockOptIn = 97,
  kBlocksPerMultiprocessor = 106,
  kReservedSharedPerBlock = 111,
  kMemoryPoolsSupported = 115,
  kFunctionMaxThreads = 0,  // CU_FUNC_ATTRIBUTE_…
  kFunctionShared = 1,
  kFunctionRegisters = 4,
  kFunctionMaxShared = 8,
  kOnDevice = 1,     // CU_MEM_LOCATION_TYPE_DEVICE
  kReadWrite = 3,    // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
  kLaunchEarly = 6,  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
};

struct PoolAccess {  // CUmemAccessDesc
  int location_type, device, flags;
};

struct LaunchAttribute {  // CUlaunchAttribute
  int id = 0, padding = 0;
  union {
    int is_allowed;
    char room[64] = {};
  };
};
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

enum DriverStatus : Status {
  kSuccess = 0,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorNoDevice = 100,
  kErrorNotFound = 500,
  kErrorNotReady = 600,
  kErrorIllegalAddress = 700,
};

#define SYSTOLE_CUDA_FUNCTIONS(X)                                                                    \
  X(cuInit, cuInit, (unsigned))                                                                      \
  X(cuDriverGetVersion, cuDriverGetVersion, (int*))                                                  \
  X(cuGetErrorName, cuGetErrorName, (Status, const char**))                                          \
  X(cuGetErrorString, cuGetErrorString, (Status, const char**))                                      \
  X(cuDeviceGetCount, cuDeviceGetCount, (int*))                                                      \
  X(cuDeviceGet, cuDeviceGet, (int*, int))                                                           \
  X(cuDeviceGetName, cuDeviceGetName, (char*, int, int))                                             \
  X(cuDeviceTotalMem, cuDeviceTotalMem_v2, (std::size_t*, int))                                      \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int*, int, int))                                    \
  X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int*, int, int))                                  \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (Context*, int))                             \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (int))                                  \
  X(cuCtxSetCurrent, cuCtxSetCurrent, (Context))                                                     \
  X(cuCtxGetCurrent, cuCtxGetCurrent, (Context*))                                                    \
  X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (MemoryPool*, int))                        \
  X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, (MemoryPool, int, void*))                          \
  X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, (MemoryPool, int, void*))                          \
  X(cuMemPoolTrimTo, cuMemPoolTrimTo, (MemoryPool, std::size_t))                                     \
  X(cuMemPoolSetAccess, cuMemPoolSetAccess, (MemoryPool, const PoolAccess*, std::size_t))            \
  X(cuMemGetInfo, cuMemGetInfo_v2, (std::size_t*, std::size_t*))                                     \
  X(cuMemAllocAsync, cuMemAllocAsync, (Address*, std::size_t, Stream))                               \
  X(cuMemFreeAsync, cuMemFreeAsync, (Address, Stream))                                               \
  X(cuMemAlloc, cuMemAlloc_v2, (Address*, std::size_t))                                              \
  X(cuMemFree, cuMemFree_v2, (Address))                                                              \
  X(cuMemHostAlloc, cuMemHostAlloc, (void**, std::size_t, unsigned))                                 \
  X(cuMemFreeHost, cuMemFreeHost, (void*))                                                           \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (Address, const void*, std::size_t, Stream))            \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void*, Address, std::size_t, Stream))                  \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (Address, Address, std::size_t, Stream))                \
  X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, (Address, Context, Address, Context, std::size_t, Stream)) \
  X(cuMemsetD8Async, cuMemsetD8Async, (Address, unsigned char, std::size_t, Stream))                 \
  X(cuMemsetD16Async, cuMemsetD16Async, (Address, unsigned short, std::size_t, Stream))              \
  X(cuMemsetD32Async, cuMemsetD32Async, (Address, unsigned, std::size_t, Stream))                    \
  X(cuMemsetD2D32Async, cuMemsetD2D32Async,                                                          \
    (Address, std::size_t, unsigned, std::size_t, std::size_t, Stream))                              \
  X(cuStreamCreate, cuStreamCreate, (Stream*, unsigned))                                             \
  X(cuStreamDestroy, cuStreamDestroy_v2, (Stream))                                                   \
  X(cuStreamSynchronize, cuStreamSynchronize, (Stream))                                              \
  X(cuStreamQuery, cuStreamQuery, (Stream))                                                          \
  X(cuStreamWaitEvent, cuStreamWaitEvent, (Stream, Event, unsigned))                                 \
  X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (Stream, int))                                    \
  X(cuStreamEndCapture, cuStreamEndCapture, (Stream, Graph*))                                        \
  X(cuEventCreate, cuEventCreate, (Event*, unsigned))                                                \
  X(cuEventDestroy, cuEventDestroy_v2, (Event))                                                      \
  X(cuEventRecord, cuEventRecord, (Event, Stream))                                                   \
  X(cuEventQuery, cuEventQuery, (Event))                                                             \
  X(cuEventSynchronize, cuEventSynchronize, (Event))                                                 \
  X(cuEventElapsedTime, cuEventElapsedTime, (float*, Event, Event))                                  \
  X(cuGraphInstantiate, cuGraphInstantiateWithFlags, (GraphExec*, Graph, unsigned long long))        \
  X(cuGraphLaunch, cuGraphLaunch, (GraphExec, Stream))                                               \
  X(cuGraphUpload, cuGraphUpload, (GraphExec, Stream))                                               \
  X(cuGraphDestroy, cuGraphDestroy, (Graph))                                                         \
  X(cuGraphExecDestroy, cuGraphExecDestroy, (GraphExec))                                             \
  X(cuGraphGetNodes, cuGraphGetNodes, (Graph, void**, std::size_t*))                                 \
  X(cuModuleLoadData, cuModuleLoadData, (LoadedModule*, const void*))                                \
  X(cuModuleUnload, cuModuleUnload, (LoadedModule))                                                  \
  X(cuModuleGetFunction, cuModuleGetFunction, (Function*, LoadedModule, const char*))                \
  X(cuModuleGetGlobal, cuModuleGetGlobal_v2, (Address*, std::size_t*, LoadedModule, const char*))    \
  X(cuFuncSetAttribute, cuFuncSetAttribute, (Function, int, int))                                    \
  X(cuFuncGetAttribute, cuFuncGetAttribute, (int*, int, Function))                                   \
  X(cuLaunchKernel, cuLaunchKernel,                                                                  \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, \
     void**))                                                                                        \
  X(cuLaunchKernelEx, cuLaunchKernelEx, (const LaunchConfig*, Function, void**, void**))

struct Driver {
#define SYSTOLE_CUDA_MEMBER(name, symbol, parameters) Status(*name) parameters = nullptr;
  SYSTOLE_CUDA_FUNCTIONS(SYSTOLE_CUDA_MEMBER)
#undef SYSTOLE_CUDA_MEMBER
};

// Empty when the driver can be used, and now is initialised; else why not.
std::string start_driver(const Driver& driver);

// The driver of this machine, initialised; null, and the reason, when there is none.
const Driver* find_driver(std::string& reason);
const Driver& driver();  // throws kUnsupported with that reason

// Puts another in its place, before anything else asks for it: a recording one, in tests.
void set_driver(const Driver* driver);

// Whether a context still works. A kernel that went wrong leaves one in which nothing does any more.
class Health {
 public:
  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  void lose(std::string why);  // the first reason stays
  std::string why() const;

 private:
  std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;
  std::string why_;
};

// Of the context that the calling thread works in: what check() marks when a status says that it is lost.
void set_current_health(Health* health);

std::string status_name(Status status);  // "CUDA_ERROR_INVALID_VALUE"
void check(Status status, std::string_view call);
bool succeeded(Status status, std::string_view call) noexcept;  // for destructors

}  // namespace systole::cuda
