// OpenCL devices, by kernels that are generated as text and compiled by its driver.

#include "backend/opencl/opencl.h"

#include <fmt/format.h>

#include <utility>

#include "backend/arguments.h"
#include "backend/one_device.h"
#include "backend/opencl/executor.h"
#include "backend/opencl/source.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"

namespace systole::opencl {

namespace {

using runtime::BufferRef;

constexpr const char* kName = "opencl";

[[noreturn]] void refuse(ErrorKind kind, std::string message) {
  throw Error(kind, kName, std::move(message));
}

const Device& device_of(int ordinal) { return *devices().at(static_cast<std::size_t>(ordinal)); }

class DeviceBuffer final : public runtime::Buffer {
 public:
  DeviceBuffer(Type type, int ordinal)
      : type_(std::move(type)),
        name_{kName, {}, ordinal},
        device_(device_of(ordinal)),
        memory_(device_.allocate(type_.bytes())) {}
  const Type& type() const override { return type_; }
  const DeviceName& device() const override { return name_; }
  Literal to_host() const override {
    if (donated_)
      throw Error(ErrorKind::kInvalidArgument, kName, "a buffer is used after it was donated", {},
                  type_.to_string());
    Literal value(type_);
    device_.read(place(), value.mutable_bytes(), value.byte_size());
    return value;
  }
  Place place() const { return {memory_.get(), 0}; }
  std::size_t bytes() const { return static_cast<std::size_t>(type_.bytes()); }
  bool is_donated() const { return donated_; }
  void set_donated(bool donated) { donated_ = donated; }

 private:
  const Type type_;
  const DeviceName name_;
  const Device& device_;
  const Memory memory_;
  bool donated_ = false;
};

DeviceBuffer& own(const BufferRef& buffer) { return static_cast<DeviceBuffer&>(*buffer); }

class OpenClSession final : public runtime::Session {
 public:
  OpenClSession(std::shared_ptr<const Module> module, int ordinal)
      : module_(std::move(module)),
        ordinal_(ordinal),
        executor_(*module_, module_->compiled),
        arena_(module_->device->allocate(module_->program.arena_bytes)),
        shared_(runtime::shared_inputs(module_->program)) {}

  std::vector<std::vector<BufferRef>> run(const runtime::RunArguments& arguments) override {
    const lower::Program& program = module_->program;
    runtime::check_arguments(kName, program, arguments, [&](const runtime::Buffer& buffer) {
      const auto* const mine = dynamic_cast<const DeviceBuffer*>(&buffer);
      if (mine == nullptr || mine->device().ordinal != ordinal_) return runtime::BufferState::foreign;
      return mine->is_donated() ? runtime::BufferState::donated : runtime::BufferState::usable;
    });
    const std::vector<BufferRef>& given = arguments.per_device[0];
    inputs_.clear();
    outputs_.clear();
    for (const BufferRef& buffer : given) inputs_.push_back(own(buffer).place());
    takeable_.look_at(arguments);
    std::vector<std::vector<BufferRef>> results(1);
    for (std::size_t o = 0; o < program.outputs.size(); ++o) {
      const auto input = static_cast<std::size_t>(shared_[o]);
      if (shared_[o] >= 0 && takeable_[input]) {
        results[0].push_back(given[input]);
      } else {
        const Type& type = program.buffers[static_cast<std::size_t>(program.outputs[o])].type;
        results[0].push_back(std::make_shared<DeviceBuffer>(type, ordinal_));
        // The program works in the input's memory: in a copy when it is not ours to change.
        if (shared_[o] >= 0) {
          const DeviceBuffer& copy = own(results[0].back());
          const timeline::Copy timed(timeline::kOnDevice, module_->device->where(), copy.bytes());
          module_->device->copy(inputs_[input], copy.place(), copy.bytes());
          inputs_[input] = copy.place();
        }
      }
      outputs_.push_back(own(results[0].back()).place());
    }
    executor_.run(inputs_, outputs_, {arena_.get(), 0});
    module_->device->flush();
    for (const int i : arguments.donated) own(given[static_cast<std::size_t>(i)]).set_donated(true);
    for (const BufferRef& result : results[0]) own(result).set_donated(false);
    return results;
  }

 private:
  const std::shared_ptr<const Module> module_;
  const int ordinal_;
  Executor executor_;
  const Memory arena_;
  const std::vector<std::int32_t> shared_;  // by output: the input whose memory it is, or -1
  runtime::Takeable takeable_;
  std::vector<Place> inputs_, outputs_;
};

class OpenClExecutable final : public runtime::Executable {
 public:
  OpenClExecutable(std::shared_ptr<const Module> module, int ordinal)
      : module_(std::move(module)), ordinal_(ordinal) {}
  std::unique_ptr<runtime::Session> new_session() const override {
    return std::make_unique<OpenClSession>(module_, ordinal_);
  }
  std::int64_t device_count() const override { return 1; }

 private:
  const std::shared_ptr<const Module> module_;
  const int ordinal_;
};

class OpenClBackend final : public runtime::Backend,
                            public runtime::SourceBackend,
                            public runtime::OneDevice {
 public:
  std::string_view name() const override { return kName; }
  std::vector<runtime::DeviceInfo> devices() override {
    std::string reason;
    if (find_api(reason) == nullptr) return {};
    std::vector<runtime::DeviceInfo> found;
    for (const auto& device : opencl::devices())
      found.push_back({{kName, {}, static_cast<int>(found.size())}, device->name(), device->memory_bytes()});
    return found;
  }
  std::string unavailable_reason() override {
    std::string reason;
    if (find_api(reason) == nullptr) return reason;
    const Devices& all = all_devices();
    return all.usable.empty() && all.left_out.empty() ? "no OpenCL device on this machine" : all.left_out;
  }
  BufferRef upload(const Literal& value, int ordinal) override {
    auto buffer = std::make_shared<DeviceBuffer>(value.type(), ordinal);
    device_of(ordinal).write(buffer->place(), value.bytes(), value.byte_size());
    return buffer;
  }
  std::shared_ptr<const runtime::Executable> compile(const ir::Graph& graph, int ordinal,
                                                     const runtime::CompileOptions& options) override {
    if (!graph.is_static()) refuse(ErrorKind::kShape, "a graph with symbols must be bound to numbers first");
    runtime::refuse_mesh(kName, graph);
    return std::make_shared<OpenClExecutable>(make_module(device_of(ordinal), graph, options.optimize),
                                              ordinal);
  }
  std::string refusal(ir::Op op) const override {
    if (ir::info(op).op_class == ir::OpClass::collective) return runtime::kNoCollectives;
    return {};
  }

  codegen::Dialect dialect() const override { return codegen::Dialect::opencl; }
  std::shared_ptr<const runtime::SourceProgram> build_source(const std::string& source, bool is_portable,
                                                             const SourceOptions& options,
                                                             int ordinal) override {
    return opencl::build_source(source, is_portable, options, ordinal);
  }
  BufferRef make_buffer(const Type& type, int ordinal, bool is_zero) override {
    auto made = std::make_shared<DeviceBuffer>(type, ordinal);
    const std::byte zero{0};
    if (is_zero) device_of(ordinal).fill(made->place(), {&zero, 1}, made->bytes());
    return made;
  }
  void write(const runtime::BufferPart& to, std::span<const std::byte> from) override {
    device_with(to).write(place_of(to), from.data(), from.size());
  }
  void read(const runtime::BufferPart& from, std::span<std::byte> to) override {
    device_with(from).read(place_of(from), to.data(), to.size());
  }
  void copy(const runtime::BufferPart& from, const runtime::BufferPart& to) override {
    const Device& device = device_with(from);
    const timeline::Copy timed(timeline::kOnDevice, device.where(), from.bytes);
    device.copy(place_of(from), place_of(to), from.bytes);
  }
  void fill(const runtime::BufferPart& to, std::span<const std::byte> element,
            const runtime::WorkQueue*) override {
    device_with(to).fill(place_of(to), element, to.bytes);
  }
  void synchronize(int ordinal) override { device_of(ordinal).finish(); }
  void add_properties(DeviceProperties& known, int ordinal) override {
    const auto number = [&]<class T>(T value, cl_device_info what) {
      check(api().clGetDeviceInfo(device_of(ordinal).id(), what, sizeof value, &value, nullptr),
            "clGetDeviceInfo");
      return static_cast<std::int64_t>(value);
    };
    known.multiprocessors = static_cast<int>(number(cl_uint{}, CL_DEVICE_MAX_COMPUTE_UNITS));
    known.max_threads_per_block = number(std::size_t{}, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    known.shared_bytes_per_block = number(cl_ulong{}, CL_DEVICE_LOCAL_MEM_SIZE);
    known.max_shared_bytes_per_block = known.shared_bytes_per_block;
    known.constant_bytes = number(cl_ulong{}, CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE);
    known.clock_khz = static_cast<int>(1000 * number(cl_uint{}, CL_DEVICE_MAX_CLOCK_FREQUENCY));
  }

 private:
  static const Device& device_with(const runtime::BufferPart& part) {
    return device_of(part.buffer->device().ordinal);
  }
};

}  // namespace

Place place_of(const runtime::BufferPart& part) {
  const auto& own = dynamic_cast<const DeviceBuffer&>(*part.buffer);
  if (own.is_donated()) refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated");
  return {own.place().memory, part.offset};
}

std::unique_ptr<runtime::Backend> make_backend() { return std::make_unique<OpenClBackend>(); }

}  // namespace systole::opencl
