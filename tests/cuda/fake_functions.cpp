#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "backend/cuda/cubin.h"
#include "base/lasting.h"
#include "fake_objects.h"

namespace systole::cuda {

using namespace fakes;

// The functions of the table, each under the lock.
struct FakeFunctions {
  class Lock {
   public:
    explicit Lock(std::recursive_mutex& of) : lock_((hesitate(), of)) {}

   private:
    static void hesitate() {
      if (is_hesitant) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    const std::lock_guard<std::recursive_mutex> lock_;
  };
  static FakeDriver& fake() { return *the_fake; }

  // A call that no test needs.
  template <class... Parameters>
  static Status unknown(Parameters...) {
    return kNotSupported;
  }

  static Status cuInit(unsigned) { return fake().init_status; }
  static Status cuDriverGetVersion(int* version) {
    *version = fake().version;
    return kSuccess;
  }
  static Status cuGetErrorName(Status status, const char** name) {
    switch (status) {
      case kErrorOutOfMemory: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
      case kErrorIllegalAddress: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
      case kInvalidValue: *name = "CUDA_ERROR_INVALID_VALUE"; break;
      default: return kInvalidValue;
    }
    return kSuccess;
  }
  static Status cuGetErrorString(Status, const char** words) {
    *words = "by the fake driver";
    return kSuccess;
  }

  static Status cuDeviceGetCount(int* count) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(-1, "cuDeviceGetCount")) return s;
    *count = static_cast<int>(fake().gpus_.size());
    return kSuccess;
  }
  static Status cuDeviceGet(int* device, int ordinal) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(-1, "cuDeviceGet")) return s;
    if (ordinal < 0 || ordinal >= static_cast<int>(fake().gpus_.size())) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  }
  static FakeGpu& gpu(int device) { return fake().gpus_[static_cast<std::size_t>(device)]; }
  static Status cuDeviceGetName(char* name, int size, int device) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(device, "cuDeviceGetName")) return s;
    fmt::format_to_n(name, size - 1, "{}", gpu(device).name).out[0] = '\0';
    return kSuccess;
  }
  static Status cuDeviceTotalMem(std::size_t* bytes, int device) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(device, "cuDeviceTotalMem")) return s;
    *bytes = gpu(device).bytes;
    return kSuccess;
  }
  static Status cuDeviceGetAttribute(int* value, int which, int device) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(device, "cuDeviceGetAttribute")) return s;
    switch (which) {
      case kComputeMajor: *value = gpu(device).major; return kSuccess;
      case kComputeMinor: *value = gpu(device).minor; return kSuccess;
      case kMemoryPoolsSupported: *value = gpu(device).has_pools ? 1 : 0; return kSuccess;
      case kMultiprocessors: *value = 132; return kSuccess;
      case kMaxThreadsPerBlock:
      case kMaxBlockX:
      case kMaxBlockX + 1: *value = 1024; return kSuccess;
      case kMaxBlockX + 2: *value = 64; return kSuccess;
      case kMaxGridX: *value = 2147483647; return kSuccess;
      case kMaxGridX + 1:
      case kMaxGridX + 2: *value = 65535; return kSuccess;
      case kSharedPerBlock: *value = 49152; return kSuccess;
      case kSharedPerBlockOptIn: *value = 232448; return kSuccess;
      case kSharedPerMultiprocessor: *value = 233472; return kSuccess;
      case kConstantBytes:
      case kRegistersPerMultiprocessor: *value = 65536; return kSuccess;
      case kWarpSize: *value = 32; return kSuccess;
      case kThreadsPerMultiprocessor: *value = 2048; return kSuccess;
      case kL2Bytes: *value = 62914560; return kSuccess;
      case kClockRate: *value = 1980000; return kSuccess;
      case kBlocksPerMultiprocessor: *value = 32; return kSuccess;
      case kReservedSharedPerBlock: *value = 1024; return kSuccess;
      default: return kInvalidValue;
    }
  }
  static Status cuDeviceCanAccessPeer(int* can, int device, int) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(device, "cuDeviceCanAccessPeer")) return s;
    *can = gpu(device).reads_peers ? 1 : 0;
    return kSuccess;
  }

  // One context per GPU, never freed: what a program keeps to its end is destroyed in it.
  static Context context_of(int device) {
    static auto& contexts = lasting<std::map<int, ContextObject>>();
    return &contexts.try_emplace(device, ContextObject{device}).first->second;
  }
  static Status cuDevicePrimaryCtxRetain(Context* context, int device) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(device, "cuDevicePrimaryCtxRetain")) return s;
    ++fake().contexts_[device];
    *context = context_of(device);
    return kSuccess;
  }
  static Status cuDevicePrimaryCtxRelease(int device) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(device, "cuDevicePrimaryCtxRelease", true)) return s;
    --fake().contexts_[device];
    return kSuccess;
  }
  static Status cuCtxSetCurrent(Context context) {
    const Lock lock(mutex);
    current = context;
    return context == nullptr ? kSuccess : fake().begin_of(context->gpu, "cuCtxSetCurrent");
  }
  static Status cuCtxGetCurrent(Context* context) {
    *context = current;
    return kSuccess;
  }
  static Status in_context(const char* name, Stream stream = nullptr, std::size_t bytes = 0,
                           bool destroys = false) {
    if (const Status s = fake().begin(name, stream, bytes, destroys)) return s;
    if (current == nullptr) {
      fake().complain(fmt::format("{} without a context", name));
      return kInvalidContext;
    }
    return kSuccess;
  }

  static Status destroyed(void* object) {
    if (fake().objects_.erase(object) == 1) return kSuccess;
    fake().complain("something is destroyed that is not there");
    return kInvalidHandle;
  }

  static Status cuDeviceGetDefaultMemPool(MemoryPool* pool, int device) {
    const Lock lock(mutex);
    if (const Status s = fake().begin_of(device, "cuDeviceGetDefaultMemPool")) return s;
    *pool = reinterpret_cast<MemoryPool>(static_cast<std::uintptr_t>(device) + 1);
    return kSuccess;
  }
  static Status cuMemPoolSetAttribute(MemoryPool, int, void*) {
    const Lock lock(mutex);
    return fake().begin("cuMemPoolSetAttribute");
  }
  // A pool of 1 MB, of which half is used.
  static Status cuMemPoolGetAttribute(MemoryPool, int which, void* value) {
    const Lock lock(mutex);
    if (const Status s = fake().begin("cuMemPoolGetAttribute")) return s;
    const std::uint64_t bytes = which == kPoolReserved ? 1'000'000 : 500'000;
    std::memcpy(value, &bytes, sizeof bytes);
    return kSuccess;
  }
  static Status cuMemPoolTrimTo(MemoryPool, std::size_t) {
    const Lock lock(mutex);
    return fake().begin("cuMemPoolTrimTo");
  }
  static Status cuMemPoolSetAccess(MemoryPool, const PoolAccess* access, std::size_t) {
    const Lock lock(mutex);
    if (access->location_type != kOnDevice || access->flags != kReadWrite) return kInvalidValue;
    return fake().begin("cuMemPoolSetAccess");
  }
  static Status cuMemGetInfo(std::size_t* free, std::size_t* total) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemGetInfo")) return s;
    *total = gpu(current->gpu).bytes;
    *free = *total - fake().used_[static_cast<std::size_t>(current->gpu)];
    return kSuccess;
  }

  static Status cuMemAllocAsync(Address* address, std::size_t bytes, Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemAllocAsync", stream, bytes)) return s;
    if (stream->gpu != current->gpu) return kInvalidHandle;
    if (stream->capture != nullptr) return kCaptureUnsupported;
    std::size_t& used = fake().used_[static_cast<std::size_t>(current->gpu)];
    if (used + bytes > gpu(current->gpu).bytes) return kErrorOutOfMemory;
    used += bytes;
    *address = fake().allocate(bytes, current->gpu);
    return fake().put(stream,
                      [address = *address, bytes](Stream s) { fake().touch(address, bytes, s, true); });
  }
  static Status cuMemFreeAsync(Address address, Stream stream) {
    const Lock lock(mutex);
    if (const Status s = fake().begin("cuMemFreeAsync", stream, 0, true)) return s;
    if (stream != nullptr && stream->capture != nullptr) {
      stream->capture->is_spoilt = true;
      fake().complain("memory is freed on a stream that captures");
      return kCaptureUnsupported;
    }
    const auto found = fake().memory_.find(address);
    if (found == fake().memory_.end()) {
      fake().complain("memory is freed that is not allocated");
      return kInvalidValue;
    }
    fake().touch(address, found->second->size, stream, true, true);
    fake().used_[static_cast<std::size_t>(found->second->gpu)] -= found->second->size;
    fake().memory_.erase(found);
    return kSuccess;
  }
  static Status cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemHostAlloc", nullptr, bytes)) return s;
    std::shared_ptr<void> made(::operator new(bytes), [](void* p) { ::operator delete(p); });
    *memory = made.get();
    fake().objects_[*memory] = {"pinned memory", std::move(made)};
    return kSuccess;
  }
  static Status cuMemFreeHost(void* memory) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemFreeHost", nullptr, 0, true)) return s;
    return destroyed(memory);
  }

  static void* pointer(Address address) { return reinterpret_cast<void*>(address); }
  static Status cuMemcpyHtoDAsync(Address to, const void* from, std::size_t bytes, Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemcpyHtoDAsync", stream, bytes)) return s;
    return fake().put(stream, [=](Stream s) {
      if (fake().touch(to, bytes, s, true)) std::memcpy(pointer(to), from, bytes);
    });
  }
  static Status cuMemcpyDtoHAsync(void* to, Address from, std::size_t bytes, Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemcpyDtoHAsync", stream, bytes)) return s;
    return fake().put(stream, [=](Stream s) {
      if (fake().touch(from, bytes, s, false)) std::memcpy(to, pointer(from), bytes);
    });
  }
  static Status copy(Address to, Address from, std::size_t bytes, Stream stream) {
    return fake().put(stream, [=](Stream s) {
      if (fake().touch(from, bytes, s, false) && fake().touch(to, bytes, s, true))
        std::memmove(pointer(to), pointer(from), bytes);
    });
  }
  static Status cuMemcpyDtoDAsync(Address to, Address from, std::size_t bytes, Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemcpyDtoDAsync", stream, bytes)) return s;
    return copy(to, from, bytes, stream);
  }
  static Status cuMemcpyPeerAsync(Address to, Context, Address from, Context, std::size_t bytes,
                                  Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemcpyPeerAsync", stream, bytes)) return s;
    return copy(to, from, bytes, stream);
  }
  static Status cuMemsetD8Async(Address to, unsigned char value, std::size_t bytes, Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuMemsetD8Async", stream, bytes)) return s;
    return fake().put(stream, [=](Stream s) {
      if (fake().touch(to, bytes, s, true)) std::memset(pointer(to), value, bytes);
    });
  }

  template <class T>
  static Status set_all(const char* name, Address to, std::size_t pitch, T value, std::size_t count,
                        Stream stream) {
    const std::size_t bytes = count == 0 ? 0 : (count - 1) * pitch + sizeof value;
    if (const Status s = in_context(name, stream, bytes)) return s;
    return fake().put(stream, [=](Stream s) {
      if (!fake().touch(to, bytes, s, true)) return;
      for (std::size_t i = 0; i < count; ++i) std::memcpy(pointer(to + i * pitch), &value, sizeof value);
    });
  }
  static Status cuMemsetD16Async(Address to, unsigned short value, std::size_t count, Stream stream) {
    const Lock lock(mutex);
    return set_all("cuMemsetD16Async", to, sizeof value, value, count, stream);
  }
  static Status cuMemsetD32Async(Address to, unsigned value, std::size_t count, Stream stream) {
    const Lock lock(mutex);
    return set_all("cuMemsetD32Async", to, sizeof value, value, count, stream);
  }
  static Status cuMemsetD2D32Async(Address to, std::size_t pitch, unsigned value, std::size_t width,
                                   std::size_t height, Stream stream) {
    const Lock lock(mutex);
    if (width != 1) return kNotSupported;
    return set_all("cuMemsetD2D32Async", to, pitch, value, height, stream);
  }

  static Status cuStreamCreate(Stream* stream, unsigned) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuStreamCreate")) return s;
    *stream = fake().keep("stream", StreamObject{++fake().next_stream_, current->gpu, {}});
    fake().streams_.push_back(*stream);
    return kSuccess;
  }
  static Status cuStreamDestroy(Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuStreamDestroy", nullptr, 0, true)) return s;
    std::erase(fake().streams_, stream);
    return destroyed(stream);
  }
  static Status cuStreamSynchronize(Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuStreamSynchronize", stream)) return s;
    if (stream->capture != nullptr) {
      stream->capture->is_spoilt = true;
      return kCaptureUnsupported;
    }
    merge(fake().host_, stream->clock);
    return kSuccess;
  }
  static Status cuStreamQuery(Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuStreamQuery", stream)) return s;
    merge(fake().host_, stream->clock);
    return kSuccess;
  }
  static Status cuStreamWaitEvent(Stream stream, Event event, unsigned) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuStreamWaitEvent", stream)) return s;
    stream->ends_in_kernel = false;
    Capture* const capture = event->capture.get();
    if (stream->capture != nullptr && stream->capture.get() != capture) {
      stream->capture->is_spoilt = true;
      fake().complain("a captured stream waits for what is not captured with it");
      return kCaptureUnsupported;
    }
    if (capture == nullptr) {
      merge(stream->clock, event->clock);
      return kSuccess;
    }
    if (capture->streams.empty()) {
      fake().complain("a stream waits for an event of a capture that has ended");
      return kCaptureUnsupported;
    }
    capture->join(stream);
    const std::size_t lane = capture->lane_of(stream);
    for (const auto& [other, count] : event->seen)
      capture->seen[lane][other] = std::max(capture->seen[lane][other], count);
    capture->add({Captured::Kind::wait, lane, {}, event->number});
    return kSuccess;
  }
  static Status cuStreamBeginCapture(Stream stream, int) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuStreamBeginCapture", stream)) return s;
    if (stream->capture != nullptr) return kInvalidHandle;
    const auto capture = std::make_shared<Capture>();
    capture->join(stream);
    stream->capture = capture;
    return kSuccess;
  }
  static Status cuStreamEndCapture(Stream stream, Graph* graph) {
    const Lock lock(mutex);
    *graph = nullptr;
    const Status status = in_context("cuStreamEndCapture", stream);
    const std::shared_ptr<Capture> capture = stream->capture;
    if (capture == nullptr || capture->streams[0] != stream) return kInvalidHandle;
    bool is_joined = true;
    for (std::size_t lane = 1; lane < capture->lanes; ++lane)
      is_joined = is_joined && capture->seen[0][lane] >= capture->seen[lane][lane];
    for (const Stream each : capture->streams) each->capture = nullptr;
    capture->streams.clear();
    if (status != kSuccess) return status;
    if (capture->is_spoilt) return kCaptureInvalidated;
    if (!is_joined) return kCaptureUnjoined;
    *graph = fake().keep("graph", GraphObject{std::move(*capture)});
    return kSuccess;
  }

  static Status cuEventCreate(Event* event, unsigned) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuEventCreate")) return s;
    *event = fake().keep("event", EventObject{current->gpu, {}});
    return kSuccess;
  }
  static Status cuEventDestroy(Event event) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuEventDestroy", nullptr, 0, true)) return s;
    return destroyed(event);
  }
  static Status cuEventRecord(Event event, Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuEventRecord", stream)) return s;
    if (event->gpu != stream->gpu) return kInvalidHandle;
    event->capture = stream->capture;
    if (Capture* const capture = stream->capture.get(); capture != nullptr) {
      const std::size_t lane = capture->lane_of(stream);
      event->number = capture->events++;
      capture->add({Captured::Kind::record, lane, {}, event->number});
      event->seen = capture->seen[lane];
      return kSuccess;
    }
    merge(stream->clock, fake().host_);
    event->clock = stream->clock;
    event->time = std::chrono::steady_clock::now();
    return kSuccess;
  }
  static Status cuEventQuery(Event) {
    const Lock lock(mutex);
    return in_context("cuEventQuery");
  }
  static Status cuEventSynchronize(Event event) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuEventSynchronize")) return s;
    merge(fake().host_, event->clock);
    return kSuccess;
  }
  static Status cuEventElapsedTime(float* milliseconds, Event from, Event to) {
    const Lock lock(mutex);
    *milliseconds = 1;
    if (fake().loader_)
      *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
    return kSuccess;
  }

  static Status cuGraphInstantiate(GraphExec* made, Graph graph, unsigned long long) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuGraphInstantiate")) return s;
    *made = fake().keep("executable graph", GraphExecObject{graph->captured});
    return kSuccess;
  }
  // Any that the lanes' waits allow.
  static std::vector<std::size_t> order_of(const Captured& captured) {
    std::vector<std::size_t> order;
    if (fake().checks_.seed == 0) {
      order.resize(captured.nodes.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      return order;
    }
    std::vector<std::vector<std::size_t>> lanes(captured.lanes);
    for (std::size_t i = 0; i < captured.nodes.size(); ++i) lanes[captured.nodes[i].lane].push_back(i);
    std::vector<std::size_t> next(lanes.size());
    std::vector<bool> is_recorded(captured.events);
    std::minstd_rand random(static_cast<unsigned>(++fake().checks_.seed));
    while (order.size() < captured.nodes.size()) {
      const std::size_t lane = random() % lanes.size();
      if (next[lane] == lanes[lane].size()) continue;
      const std::size_t i = lanes[lane][next[lane]];
      const Captured::Node& node = captured.nodes[i];
      if (node.kind == Captured::Kind::wait && !is_recorded[node.event]) continue;
      if (node.kind == Captured::Kind::record) is_recorded[node.event] = true;
      order.push_back(i);
      ++next[lane];
    }
    return order;
  }
  static Status cuGraphLaunch(GraphExec graph, Stream stream) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuGraphLaunch", stream)) return s;
    if (stream->capture != nullptr) return kCaptureUnsupported;
    const Captured& captured = graph->captured;
    std::vector<StreamObject> others;  // as if each lane were a stream of its own
    for (std::size_t lane = 1; lane < captured.lanes; ++lane)
      others.push_back({++fake().next_stream_, stream->gpu, {}});
    std::vector<std::map<int, std::uint64_t>> events(captured.events);
    for (const std::size_t i : order_of(captured)) {
      const Captured::Node& node = captured.nodes[i];
      const Stream lane = node.lane == 0 ? stream : &others[node.lane - 1];
      switch (node.kind) {
        case Captured::Kind::work: fake().put(lane, node.work); break;
        case Captured::Kind::record: events[node.event] = lane->clock; break;
        case Captured::Kind::wait: merge(lane->clock, events[node.event]); break;
      }
    }
    for (const StreamObject& lane : others) merge(stream->clock, lane.clock);
    return kSuccess;
  }
  static Status cuGraphDestroy(Graph graph) {
    const Lock lock(mutex);
    if (const Status s = fake().begin("cuGraphDestroy", nullptr, 0, true)) return s;
    return destroyed(graph);
  }
  static Status cuGraphExecDestroy(GraphExec graph) {
    const Lock lock(mutex);
    if (const Status s = fake().begin("cuGraphExecDestroy", nullptr, 0, true)) return s;
    return destroyed(graph);
  }

  // The whole of an ELF file that begins here.
  static std::string_view elf_at(const void* code) {
    const auto* const bytes = static_cast<const char*>(code);
    if (std::memcmp(bytes, "\177ELF", 4) != 0) return {};
    std::uint64_t sections = 0, end = 0;
    std::uint16_t count = 0;
    std::memcpy(&sections, bytes + 40, sizeof sections);
    std::memcpy(&count, bytes + 60, sizeof count);
    end = sections + std::uint64_t{64} * count;
    for (std::uint16_t i = 0; i < count; ++i) {
      std::uint32_t type = 0;
      std::uint64_t offset = 0, size = 0;
      std::memcpy(&type, bytes + sections + 64 * i + 4, sizeof type);
      std::memcpy(&offset, bytes + sections + 64 * i + 24, sizeof offset);
      std::memcpy(&size, bytes + sections + 64 * i + 32, sizeof size);
      if (type != 8) end = std::max(end, offset + size);  // 8: it has no bytes in the file
    }
    return {bytes, end};
  }
  static Status cuModuleLoadData(LoadedModule* module, const void* code) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuModuleLoadData")) return s;
    *module = fake().keep("module", ModuleObject{current->gpu, {}, {}});
    const std::string_view elf = elf_at(code);
    if (elf.empty()) return kSuccess;
    if (fake().loader_) return load_code(**module, elf);
    for (const Cubin::Variable& variable : read_cubin(elf).variables) {
      const Address address = fake().allocate(variable.bytes, current->gpu);
      std::memset(pointer(address), 0, variable.bytes);
      fake().variables_[variable.symbol] = address;
      (*module)->variables[variable.symbol] = {address, variable.bytes};
    }
    return kSuccess;
  }
  static Status load_code(ModuleObject& module, std::string_view elf) {
    module.code = fake().loader_(elf);
    for (const FakeCode::Variable& variable : module.code->variables()) {
      auto made = std::make_unique<FakeDriver::Allocation>();
      made->bytes = {module.code, static_cast<std::byte*>(variable.place)};
      made->gpu = module.gpu;
      made->size = variable.bytes;
      const auto address = reinterpret_cast<Address>(variable.place);
      fake().memory_[address] = std::move(made);
      module.variables[variable.symbol] = {address, variable.bytes};
    }
    return kSuccess;
  }
  static Status cuModuleUnload(LoadedModule module) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuModuleUnload", nullptr, 0, true)) return s;
    for (const auto& [symbol, place] : module->variables) {
      if (const auto last = fake().variables_.find(symbol);
          last != fake().variables_.end() && last->second == place.first)
        fake().variables_.erase(last);
      fake().memory_.erase(place.first);
    }
    return destroyed(module);
  }
  static Status cuModuleGetGlobal(Address* address, std::size_t* bytes, LoadedModule module,
                                  const char* name) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuModuleGetGlobal")) return s;
    const auto found = module->variables.find(name);
    if (found == module->variables.end()) return kErrorNotFound;
    *address = found->second.first;
    *bytes = found->second.second;
    return kSuccess;
  }
  static Status cuModuleGetFunction(Function* function, LoadedModule module, const char* name) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuModuleGetFunction")) return s;
    auto& all = module->functions;
    auto found = std::find_if(all.begin(), all.end(), [&](const auto& known) { return known->name == name; });
    if (found == all.end()) {
      FunctionObject made{name, module->gpu};
      if (module->code != nullptr && (made.kernel = module->code->kernel(name)) == nullptr)
        return kErrorNotFound;
      found = all.insert(found, std::make_shared<FunctionObject>(std::move(made)));
    }
    *function = found->get();
    return kSuccess;
  }
  static Status cuFuncSetAttribute(Function function, int which, int value) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuFuncSetAttribute")) return s;
    if (which == kFunctionMaxShared) function->most_shared = static_cast<unsigned>(value);
    return kSuccess;
  }
  static Status cuFuncGetAttribute(int* value, int which, Function function) {
    const Lock lock(mutex);
    switch (which) {
      case kFunctionMaxThreads:
        *value = function->kernel == nullptr ? 1024 : static_cast<int>(function->kernel->most_threads());
        return kSuccess;
      case kFunctionShared: *value = 0; return kSuccess;
      case kFunctionMaxShared: *value = static_cast<int>(function->most_shared); return kSuccess;
      case kFunctionRegisters: *value = 32; return kSuccess;
      default: return kInvalidValue;
    }
  }
  static Status cuLaunchKernel(Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, Stream stream, void** parameters,
                               void**) {
    const Lock lock(mutex);
    if (const Status s = in_context("cuLaunchKernel", stream)) return s;
    if (function->gpu != stream->gpu) return kInvalidHandle;
    std::vector<Address> values(function->kernel == nullptr ? fake().parameters_ : 0);
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], parameters[i], sizeof(Address));
    if (gx == 0 || gy == 0 || gz == 0 || bx * by * bz > 1024 || shared > function->most_shared)
      return kInvalidValue;
    const FakeLaunch::Sizes sizes{{gx, gy, gz}, {bx, by, bz}, shared};
    if (FakeKernel* const kernel = function->kernel; kernel != nullptr) {
      std::vector<std::vector<std::byte>> copies;
      for (const std::size_t size : kernel->sizes()) {
        const auto* const from = static_cast<const std::byte*>(parameters[copies.size()]);
        copies.emplace_back(from, from + size);
      }
      const Status status =
          fake().put(stream, [kernel, name = function->name, sizes, copies = std::move(copies)](Stream s) {
            fake().run(*kernel, name, sizes, copies, s->gpu);
          });
      stream->ends_in_kernel = true;
      return status;
    }
    const Status status = fake().put(stream, [name = function->name, sizes, values](Stream s) {
      FakeLaunch launch(name, sizes, values, s);
      if (fake().kernel_) fake().kernel_(launch);
    });
    stream->ends_in_kernel = true;
    return status;
  }
  static Status cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters,
                                 void** more) {
    {
      const Lock lock(mutex);
      if (const Status s = in_context("cuLaunchKernelEx", config->stream)) return s;
      if (config->stream->capture == nullptr || !config->stream->ends_in_kernel)
        fake().complain("a kernel is launched early after what is no kernel");
    }
    if (config->attribute_count != 1 || config->attributes[0].id != kLaunchEarly) return kInvalidValue;
    const auto& [x, y, z] = config->grid;
    const auto& [a, b, c] = config->block;
    return cuLaunchKernel(function, x, y, z, a, b, c, config->shared_bytes, config->stream, parameters, more);
  }
};

namespace {

template <class Functions>
void fill_table(Driver& table) {
#define SYSTOLE_FAKE(name, symbol, parameters)  \
  if constexpr (requires { &Functions::name; }) \
    table.name = &Functions::name;              \
  else                                          \
    table.name = &Functions::unknown;
  SYSTOLE_CUDA_FUNCTIONS(SYSTOLE_FAKE)
#undef SYSTOLE_FAKE
}

}  // namespace

void fakes::fill(Driver& table) { fill_table<FakeFunctions>(table); }

}  // namespace systole::cuda
