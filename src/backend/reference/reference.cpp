// Buffers are literals and an executable is the graph itself. A graph with collectives runs once per device
// of its mesh, on a thread each; every other graph runs on the caller's thread.

#include "backend/reference/reference.h"

#include <fmt/format.h>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "backend/reference/rendezvous.h"
#include "eval/eval.h"

namespace systole::runtime {

namespace {

using ir::Graph;

constexpr std::string_view kName = "reference";
constexpr std::int64_t kMaxDevices = 256;  // a thread each
constexpr const char* kNoKernelSource = "needs a body graph: this backend runs no kernel source";

[[noreturn]] void refuse(ErrorKind kind, std::string message, std::string expected = {},
                         std::string got = {}) {
  throw Error(kind, std::string(kName), std::move(message), std::move(expected), std::move(got));
}

class HostBuffer : public Buffer {
 public:
  HostBuffer(Literal value, int ordinal)
      : type_(value.type()), device_{std::string(kName), {}, ordinal}, value_(std::move(value)) {}
  const Type& type() const override { return type_; }
  const DeviceName& device() const override { return device_; }
  Literal to_host() const override {
    if (!value_)
      refuse(ErrorKind::kInvalidArgument, "a buffer is used after it was donated", {}, type_.to_string());
    return *value_;
  }
  void discard() { value_.reset(); }

 private:
  const Type type_;
  const DeviceName device_;
  std::optional<Literal> value_;  // empty once donated
};

using DeviceLiterals = std::vector<std::vector<Literal>>;
using DeviceBuffers = std::vector<std::vector<BufferRef>>;

class HostSession : public Session {
 public:
  HostSession(std::shared_ptr<const Graph> graph, std::int64_t devices)
      : graph_(std::move(graph)), devices_(devices), collective_(eval::uses_collectives(*graph_)) {}

  DeviceBuffers run(const RunArguments& arguments) override {
    DeviceLiterals values = take(arguments);
    if (!collective_)
      values[0] = eval::evaluate(*graph_, std::move(values[0]));
    else
      run_together(values);
    DeviceBuffers results(values.size());
    for (std::size_t device = 0; device < values.size(); ++device)
      for (Literal& value : values[device])
        results[device].push_back(std::make_shared<HostBuffer>(std::move(value), static_cast<int>(device)));
    return results;
  }

 private:
  // The arguments' values, checked; donated buffers let go of theirs, so that the graph may write into them.
  DeviceLiterals take(const RunArguments& arguments) const {
    if (arguments.per_device.size() != static_cast<std::size_t>(devices_))
      refuse(ErrorKind::kInvalidArgument, "wrong number of argument lists",
             fmt::format("{}, one per device", devices_), std::to_string(arguments.per_device.size()));
    const std::size_t count = graph_->inputs().size();
    for (int i : arguments.donated)
      if (i < 0 || static_cast<std::size_t>(i) >= count)
        refuse(ErrorKind::kInvalidArgument, "donated argument out of range",
               fmt::format("an index below {}", count), std::to_string(i));
    DeviceLiterals values;
    for (const std::vector<BufferRef>& list : arguments.per_device) {
      if (list.size() != count)
        refuse(ErrorKind::kInvalidArgument, "wrong number of arguments", std::to_string(count),
               std::to_string(list.size()));
      values.emplace_back();
      for (std::size_t i = 0; i < count; ++i) values.back().push_back(value_of(list[i], i));
    }
    for (const std::vector<BufferRef>& list : arguments.per_device)
      for (int i : arguments.donated) dynamic_cast<HostBuffer&>(*list[static_cast<std::size_t>(i)]).discard();
    return values;
  }

  Literal value_of(const BufferRef& buffer, std::size_t i) const {
    const std::string what = fmt::format("argument {} ({})", i, graph_->input_name(i));
    if (dynamic_cast<const HostBuffer*>(buffer.get()) == nullptr)
      refuse(ErrorKind::kInvalidArgument, what, "a buffer of this backend",
             buffer ? buffer->device().to_string() : "none");
    const Type &wanted = graph_->input_type(i), &got = buffer->type();
    if (!(got == wanted))
      refuse(got.dtype == wanted.dtype ? ErrorKind::kShape : ErrorKind::kDType, what, wanted.to_string(),
             got.to_string());
    return buffer->to_host();
  }

  // Replaces each device's arguments by its results.
  void run_together(DeviceLiterals& values) const {
    Rendezvous rendezvous(*graph_->mesh());
    std::vector<std::thread> threads;
    try {
      threads.reserve(values.size());
      for (std::size_t device = 0; device < values.size(); ++device)
        threads.emplace_back([this, device, &rendezvous, &list = values[device]] {
          try {
            Member member(rendezvous, static_cast<std::int64_t>(device));
            list = eval::evaluate(*graph_, std::span<const Literal>(list), &member);
            rendezvous.finish(static_cast<std::int64_t>(device));
          } catch (...) {
            rendezvous.fail(std::current_exception());
          }
        });
    } catch (const std::system_error& e) {
      rendezvous.fail(
          std::make_exception_ptr(Error(ErrorKind::kOutOfMemory, std::string(kName),
                                        std::string("no thread for a simulated device: ") + e.what())));
    }
    for (std::thread& thread : threads) thread.join();
    rendezvous.rethrow_error();
  }

  const std::shared_ptr<const Graph> graph_;
  const std::int64_t devices_;
  const bool collective_;
};

class HostExecutable : public Executable {
 public:
  HostExecutable(const Graph& graph, std::int64_t devices)
      : graph_(std::make_shared<const Graph>(graph)), devices_(devices) {}
  std::unique_ptr<Session> new_session() const override {
    return std::make_unique<HostSession>(graph_, devices_);
  }
  std::int64_t device_count() const override { return devices_; }

 private:
  const std::shared_ptr<const Graph> graph_;
  const std::int64_t devices_;
};

void check_kernels(const Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::kernel_call && node.graphs.empty())
      throw Error(ErrorKind::kUnsupported, "kernel_call",
                  fmt::format("\"{}\" {}", node.as<ir::KernelAttrs>().name, kNoKernelSource));
    for (const ir::GraphRef& sub : node.graphs) check_kernels(*sub);
  }
}

// Sub-graphs run on the devices of the whole graph, so their collectives must mean the same mesh.
void check_meshes(const Graph& graph, const ir::Mesh& mesh) {
  if (!eval::uses_collectives(graph)) return;
  if (graph.mesh() != mesh)
    refuse(ErrorKind::kInvalidArgument,
           fmt::format("sub-graph @{} with collectives has another mesh than the whole graph", graph.name()));
  for (const ir::Node& node : graph.nodes())
    for (const ir::GraphRef& sub : node.graphs) check_meshes(*sub, mesh);
}

std::int64_t count_devices(const Graph& graph) {
  if (!eval::uses_collectives(graph)) return 1;
  if (!graph.mesh()) refuse(ErrorKind::kInvalidArgument, "a graph with collectives needs a mesh");
  std::int64_t devices = 1;
  for (const ir::Mesh::Axis& axis : graph.mesh()->axes) {
    if (axis.size < 1 || axis.size > kMaxDevices || (devices *= axis.size) > kMaxDevices)
      refuse(ErrorKind::kLimit, "size of the mesh", fmt::format("1 to {} simulated devices", kMaxDevices),
             fmt::format("{}={}", axis.name, axis.size));
  }
  check_meshes(graph, *graph.mesh());
  return devices;
}

class ReferenceBackend : public Backend {
 public:
  std::string_view name() const override { return kName; }

  std::vector<DeviceInfo> devices() override {
    return {{{std::string(kName), {}, 0}, "plain loops on the host, one thread, f64 accumulation", 0}};
  }

  // Ordinals other than 0 are the simulated devices of a mesh.
  BufferRef upload(const Literal& value, int ordinal) override {
    if (ordinal < 0 || ordinal >= kMaxDevices)
      refuse(ErrorKind::kNotFound, "no such device", {}, std::to_string(ordinal));
    return std::make_shared<HostBuffer>(value, ordinal);
  }

  std::shared_ptr<const Executable> compile(const Graph& graph, int ordinal, const CompileOptions&) override {
    if (ordinal != 0)
      refuse(ErrorKind::kNotFound, "no such device", "reference:0", fmt::format("reference:{}", ordinal));
    if (!graph.is_static()) refuse(ErrorKind::kShape, "a graph with symbols must be bound to numbers first");
    check_kernels(graph);
    return std::make_shared<HostExecutable>(graph, count_devices(graph));
  }

  std::string refusal(ir::Op op) const override {
    return op == ir::Op::kernel_call ? kNoKernelSource : std::string();
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace systole::runtime
