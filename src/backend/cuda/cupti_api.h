#pragma once

// cupti.h, as far as it is used. tests/cuda compares the numbers and layouts with the header where there is
// one. Records only ever grow at their end: what stands here is the beginning that CUDA 12 and 13 share.

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cuda/driver.h"

namespace systole::cuda::cupti {

using Subscriber = Opaque<struct SubscriberObject>;
using Node = Opaque<struct NodeObject>;  // of a graph

enum : int {
  kCopies = 1,  // CUPTI_ACTIVITY_KIND_MEMCPY
  kMemsets = 2,
  kKernels = 10,  // CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: at the same time, as without CUPTI
  kPeerCopies = 22,
  kHostToDevice = 1,  // CUPTI_ACTIVITY_MEMCPY_KIND_…
  kDeviceToHost = 2,
  kDeviceToDevice = 8,
  kFlushForced = 1,
  kOfDriver = 1,  // CUPTI_CB_DOMAIN_…
  kOfRuntime = 2,
  kOfResources = 3,
  kOnEntry = 0,       // CUPTI_API_ENTER
  kNodeCreated = 13,  // CUPTI_CBID_RESOURCE_GRAPHNODE_…
  kNodeCloned = 20,
  kDriverMemset8 = 216,  // CUPTI_DRIVER_TRACE_CBID_…
  kDriverMemset32 = 220,
  kDriverCopy = 281,  // cuMemcpyDtoDAsync_v2
  kDriverLaunch = 307,
  kDriverLaunchCooperative = 477,
  kDriverLaunchEx = 652,
  kRuntimeCopy = 41,  // CUPTI_RUNTIME_TRACE_CBID_…
  kRuntimeMemset = 51,
  kRuntimeLaunch = 211,
  kRuntimeLaunchEx = 430,
  kRuntimeLaunch13 = 505,  // __cudaLaunchKernel_v13000, from CUDA 13 on
};

// Times are in nanoseconds of CUPTI's clock, 0 where they are not known. Launches and copies have the number
// of the call that made them, and those of a graph the number of their node, else 0.
struct Activity {
  int kind;
};
struct KernelRecord {
  int kind;
  std::uint8_t cache, shared_banks;
  std::uint16_t registers;
  int cache_wanted, cache_got;
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid_x, grid_y, grid_z, block_x, block_y, block_z;
  std::int32_t static_shared, dynamic_shared;
  std::uint32_t local_per_thread, local_total;
  std::uint32_t call;
  std::int64_t grid_id;
  const char* name;
  void* reserved;
  std::uint64_t queued, submitted;
  std::uint8_t launch_type, carveout_wanted, carveout, padding;
  std::uint32_t shared_executed;
  std::uint64_t node;
};
struct CopyRecord {
  int kind;
  std::uint8_t copy_kind, from_kind, to_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream;
  std::uint32_t call, runtime_call, padding;
  void* reserved;
  std::uint64_t node;
};
struct PeerCopyRecord {
  int kind;
  std::uint8_t copy_kind, from_kind, to_kind, flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream;
  std::uint32_t from_device, from_context, to_device, to_context;
  std::uint32_t call;
  void* reserved;
  std::uint64_t node;
};
struct MemsetRecord {
  int kind;
  std::uint32_t value;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream;
  std::uint32_t call;
  std::uint16_t flags, memory_kind;
  std::uint32_t padding;
  void* reserved;
  std::uint64_t node;
};

// What callbacks are given: of a call, and of a graph's node, which is behind `what`.
struct CallData {
  int site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;
  Context context;
  std::uint32_t context_id;
  std::uint64_t* own;
  std::uint32_t call;
};
struct ResourceData {
  Context context;
  Stream stream;
  void* what;
};
struct NodeData {
  Graph graph, original_graph;
  Node node, original_node;
  int type;
  Node dependency;
  GraphExec exec;
};

using Callback = void (*)(void*, int, std::uint32_t, const void*);
using Request = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using Complete = void (*)(Context, std::uint32_t, std::uint8_t*, std::size_t, std::size_t);

#define SYSTOLE_CUPTI_FUNCTIONS(X)                                             \
  X(cuptiGetResultString, (int, const char**))                                 \
  X(cuptiSubscribe, (Subscriber*, Callback, void*))                            \
  X(cuptiUnsubscribe, (Subscriber))                                            \
  X(cuptiEnableCallback, (std::uint32_t, Subscriber, int, std::uint32_t))      \
  X(cuptiActivityRegisterCallbacks, (Request, Complete))                       \
  X(cuptiActivityEnable, (int))                                                \
  X(cuptiActivityDisable, (int))                                               \
  X(cuptiActivityFlushAll, (std::uint32_t))                                    \
  X(cuptiActivityGetNextRecord, (std::uint8_t*, std::size_t, Activity**))      \
  X(cuptiActivityGetNumDroppedRecords, (Context, std::uint32_t, std::size_t*)) \
  X(cuptiGetTimestamp, (std::uint64_t*))                                       \
  X(cuptiGetGraphNodeId, (Node, std::uint64_t*))

struct Api {
#define SYSTOLE_CUPTI_MEMBER(name, parameters) int(*name) parameters = nullptr;
  SYSTOLE_CUPTI_FUNCTIONS(SYSTOLE_CUPTI_MEMBER)
#undef SYSTOLE_CUPTI_MEMBER
};

// The library of this machine, looked for once; null, and why, when there is none.
const Api* find_library(std::string& absence);

}  // namespace systole::cuda::cupti
