// NVIDIA GPUs, by kernels that NVRTC compiles and NVIDIA's libraries. Nothing of CUDA is needed to build; the
// driver and the libraries are looked for when the first device is.

#include "backend/cuda/cuda.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "backend/cuda/buffer.h"
#include "backend/cuda/device.h"
#include "backend/cuda/module.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/queues.h"
#include "backend/cuda/session.h"
#include "backend/cuda/source.h"
#include "backend/one_device.h"
#include "runtime/source_kernels.h"
#include "systole/backend/cuda.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

using runtime::BufferRef;

// Before a device is asked for: what has neither a source for it nor a body can never run.
void check_kernels(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::kernel_call && node.graphs.empty() && node.as<ir::KernelAttrs>().cuda.empty())
      throw Error(ErrorKind::kUnsupported, fmt::format("kernel_call {}", node.as<ir::KernelAttrs>().name),
                  "it has no source in this device's language and no body graph",
                  "a source in CUDA C++, or a portable one");
    const bool is_composite = node.op == ir::Op::composite;  // its way back is not run
    for (std::size_t i = 0; i < (is_composite ? 1 : node.graphs.size()); ++i) check_kernels(*node.graphs[i]);
  }
}

class CudaExecutable final : public runtime::Executable {
 public:
  explicit CudaExecutable(std::shared_ptr<const Module> module) : module_(std::move(module)) {}
  std::unique_ptr<runtime::Session> new_session() const override { return make_session(module_); }
  std::int64_t device_count() const override { return 1; }

 private:
  const std::shared_ptr<const Module> module_;
};

class CudaBackend final : public runtime::Backend, public runtime::SourceBackend, public runtime::OneDevice {
 public:
  std::string_view name() const override { return "cuda"; }
  std::vector<runtime::DeviceInfo> devices() override {
    std::vector<runtime::DeviceInfo> found;
    if (all_devices().usable.empty() || !nvrtc_absence().empty()) return found;
    for (const auto& device : all_devices().usable)
      found.push_back({{"cuda", {}, device->ordinal()},
                       fmt::format("{}, {}", device->name(), device->architecture()),
                       device->memory_bytes()});
    return found;
  }
  std::string unavailable_reason() override {
    const Devices& all = all_devices();
    if (all.usable.empty()) return all.left_out;
    const std::string no_compiler = nvrtc_absence();
    return no_compiler.empty() ? all.left_out : no_compiler;
  }
  BufferRef upload(const Literal& value, int ordinal) override { return uploaded(value, device_of(ordinal)); }
  BufferRef copy_from(const runtime::Buffer& buffer, int ordinal) override {
    return copied(buffer, device_of(ordinal));
  }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int ordinal,
                                                     const runtime::CompileOptions& options) override {
    if (!graph.is_static())
      throw Error(ErrorKind::kShape, "cuda", "a graph with symbols must be bound to numbers first");
    runtime::refuse_mesh("cuda", graph);
    check_kernels(graph);
    return std::make_shared<CudaExecutable>(make_module(device_of(ordinal), graph, options));
  }
  std::string refusal(ir::Op op) const override {
    return ir::info(op).op_class == ir::OpClass::collective ? runtime::kNoCollectives : "";
  }

  codegen::Dialect dialect() const override { return codegen::Dialect::cuda; }
  std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                             const SourceOptions& options,
                                                             int ordinal) override {
    return cuda::build_source(source, is_portable, options, ordinal);
  }
  BufferRef make_buffer(const Type& type, int ordinal, bool is_zero) override {
    const Device& device = device_of(ordinal);
    device.activate();
    const Stream stream = device.kernels();
    auto made = DeviceBuffer::make(device, type, stream);
    Memory& memory = made->memory();
    if (memory.bytes() == 0) return made;
    if (is_zero)
      cuda::fill(memory, std::array<std::byte, 1>{}, stream);
    else
      memory.was_written(std::make_shared<const Moment>(device, stream));  // others wait for its allocation
    return made;
  }
  void write(const runtime::BufferPart& to, std::span<const std::byte> from) override {
    device_with(to).upload(from.data(), part_of(to));
  }
  void read(const runtime::BufferPart& from, std::span<std::byte> to) override {
    device_with(from).download(part_of(from), to.data());
  }
  void copy(const runtime::BufferPart& from, const runtime::BufferPart& to) override {
    device_with(to).copy(part_of(from), part_of(to));
  }
  void fill(const runtime::BufferPart& to, std::span<const std::byte> element,
            const runtime::WorkQueue* queue) override {
    const Device& device = device_with(to);
    device.activate();
    cuda::fill(part_of(to), element, stream_of(device, queue));
  }
  std::uint64_t address(const runtime::Buffer& buffer) override {
    const Memory& memory = memory_of(buffer);
    memory.device().activate();
    memory.wait_until_unused();
    return memory.address();
  }
  void synchronize(int ordinal) override { device_of(ordinal).synchronize(); }
  long idle_references(const runtime::Buffer& buffer) const override {
    return dynamic_cast<const DeviceBuffer&>(buffer).is_kept() ? 1 : 0;
  }

  std::shared_ptr<const runtime::WorkQueue> make_queue(int ordinal) override {
    return std::make_shared<const Queue>(device_of(ordinal));
  }
  std::shared_ptr<const runtime::WorkMark> mark(const runtime::WorkQueue* queue, int ordinal) override {
    const Device& device = device_of(ordinal);
    device.activate();
    const Stream stream = stream_of(device, queue);
    if (queue == nullptr) device.join(stream);
    return std::make_shared<const Mark>(device, stream);
  }
  std::shared_ptr<runtime::HostMemory> make_host_memory(std::size_t bytes, const DeviceName& name) override {
    return std::make_shared<PinnedMemory>(device_of(name.ordinal), bytes, name);
  }
  void begin_write(const runtime::BufferPart& to, runtime::HostMemory& from,
                   const runtime::WorkQueue* queue) override {
    const Device& device = device_with(to);
    device.activate();
    if (auto* const pinned = dynamic_cast<PinnedMemory*>(&from))
      pinned->begin_copy_to(part_of(to), stream_of(device, queue));
    else
      write(to, {from.data(), from.size()});
  }
  void begin_read(const runtime::BufferPart& from, runtime::HostMemory& to,
                  const runtime::WorkQueue* queue) override {
    const Device& device = device_with(from);
    device.activate();
    if (auto* const pinned = dynamic_cast<PinnedMemory*>(&to))
      pinned->begin_copy_from(part_of(from), stream_of(device, queue));
    else
      read(from, {to.data(), to.size()});
  }

  void add_properties(DeviceProperties& known, int ordinal) override {
    const Device& device = device_of(ordinal);
    const auto sizes = [&](int first) {
      return Size3(device.attribute(first), device.attribute(first + 1), device.attribute(first + 2));
    };
    known.name = device.name();
    known.total_memory = device.memory_bytes();
    known.compute_major = device.capability() / 10;
    known.compute_minor = device.capability() % 10;
    known.multiprocessors = device.multiprocessors();
    known.warp_size = device.attribute(kWarpSize);
    known.max_threads_per_block = device.attribute(kMaxThreadsPerBlock);
    known.max_block = sizes(kMaxBlockX);
    known.max_grid = sizes(kMaxGridX);
    known.shared_bytes_per_block = device.attribute(kSharedPerBlock);
    known.max_shared_bytes_per_block = device.attribute(kSharedPerBlockOptIn);
    known.shared_bytes_per_multiprocessor = device.attribute(kSharedPerMultiprocessor);
    known.constant_bytes = device.attribute(kConstantBytes);
    known.max_threads_per_multiprocessor = device.attribute(kThreadsPerMultiprocessor);
    known.registers_per_multiprocessor = device.attribute(kRegistersPerMultiprocessor);
    known.l2_bytes = device.attribute(kL2Bytes);
    known.clock_khz = device.attribute(kClockRate);
    check(driver().cuDriverGetVersion(&known.driver_version), "cuDriverGetVersion");
  }
  MemoryInfo memory(int ordinal) override {
    const Device& device = device_of(ordinal);
    return {device.free_bytes(), device.memory_bytes()};
  }

 private:
  static Memory& memory_of(const runtime::Buffer& buffer) {
    const auto& own = dynamic_cast<const DeviceBuffer&>(buffer);
    if (own.is_donated())
      throw Error(ErrorKind::kInvalidArgument, "cuda", "a buffer is used after it was donated", {},
                  own.type().to_string());
    return own.memory();
  }
  static const Device& device_with(const runtime::BufferPart& part) {
    return memory_of(*part.buffer).device();
  }
  static MemoryPart part_of(const runtime::BufferPart& part) {
    return {memory_of(*part.buffer), part.offset, part.bytes};
  }
};

}  // namespace

std::unique_ptr<runtime::Backend> make_backend() { return std::make_unique<CudaBackend>(); }

bool is_available() { return device_count() > 0; }
int device_count() { return static_cast<int>(runtime::backend("cuda").devices().size()); }
std::string unavailable_reason() { return runtime::backend("cuda").unavailable_reason(); }

}  // namespace systole::cuda
