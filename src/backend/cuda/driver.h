#pragma once

// The functions of the CUDA driver that the backend calls, from the driver of this machine. Their names,
// types and numbers are NVIDIA's binary interface, written down here so that no header of CUDA is needed to
// build; where there is one, tests/cuda compares. Every status is checked: what fails is an Error with its
// name.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace systole::cuda {

using Status = int;  // CUresult
using Address = std::uint64_t;
using Context = struct ContextObject*;
using Stream = struct StreamObject*;
using Event = struct EventObject*;
using LoadedModule = struct ModuleObject*;
using Function = struct FunctionObject*;
using Graph = struct GraphObject*;
using GraphExec = struct GraphExecObject*;
using MemoryPool = struct MemoryPoolObject*;

enum DriverConstant : int {
  kStreamNonBlocking = 1,     // CU_STREAM_NON_BLOCKING
  kEventDisableTiming = 2,    // CU_EVENT_DISABLE_TIMING
  kCaptureThreadLocal = 1,    // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
  kPoolReleaseThreshold = 4,  // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
  kMaxThreadsPerBlock = 1,    // CU_DEVICE_ATTRIBUTE_…
  kMultiprocessors = 16,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kMemoryPoolsSupported = 115,
};

enum DriverStatus : Status {
  kSuccess = 0,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorNoDevice = 100,
  kErrorNotReady = 600,
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
  X(cuCtxSetCurrent, cuCtxSetCurrent, (Context))                                                     \
  X(cuCtxGetCurrent, cuCtxGetCurrent, (Context*))                                                    \
  X(cuCtxSynchronize, cuCtxSynchronize, ())                                                          \
  X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, (Context, unsigned))                               \
  X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (MemoryPool*, int))                        \
  X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, (MemoryPool, int, void*))                          \
  X(cuMemPoolTrimTo, cuMemPoolTrimTo, (MemoryPool, std::size_t))                                     \
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
  X(cuStreamCreate, cuStreamCreate, (Stream*, unsigned))                                             \
  X(cuStreamDestroy, cuStreamDestroy_v2, (Stream))                                                   \
  X(cuStreamSynchronize, cuStreamSynchronize, (Stream))                                              \
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
  X(cuFuncSetAttribute, cuFuncSetAttribute, (Function, int, int))                                    \
  X(cuFuncGetAttribute, cuFuncGetAttribute, (int*, int, Function))                                   \
  X(cuLaunchKernel, cuLaunchKernel,                                                                  \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, \
     void**))

struct Driver {
#define SYSTOLE_CUDA_MEMBER(name, symbol, parameters) Status(*name) parameters = nullptr;
  SYSTOLE_CUDA_FUNCTIONS(SYSTOLE_CUDA_MEMBER)
#undef SYSTOLE_CUDA_MEMBER
};

// The driver of this machine, initialised; null, and the reason, when there is none.
const Driver* find_driver(std::string& reason);
const Driver& driver();  // throws kUnsupported with that reason

// Puts another in its place, before anything else asks for it: a recording one, in tests.
void set_driver(const Driver* driver);

std::string status_name(Status status);  // "CUDA_ERROR_INVALID_VALUE"
void check(Status status, std::string_view call);

}  // namespace systole::cuda
