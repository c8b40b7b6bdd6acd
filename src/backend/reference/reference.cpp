// Buffers are literals, and an executable is the graph with a plan of its evaluation. What can be checked at
// compile time is; a run checks its arguments and nothing else. A graph with collectives runs once per device
// of its mesh, on a thread each; every other graph runs on the caller's thread.

#include "backend/reference/reference.h"

#include <fmt/format.h>
#include <optional>
#include <system_error>
#include <thread>
#include <typeinfo>
#include <utility>

#include "backend/reference/rendezvous.h"
#include "eval/eval.h"
#include "eval/plan.h"
#include "runtime/host_memory.h"
#include "systole/compile/passes.h"

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

class HostBuffer final : public Buffer {
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
  bool is_donated() const { return !value_; }
  void discard() { value_.reset(); }
  void fill(Literal value) { value_ = std::move(value); }

 private:
  const Type type_;
  const DeviceName device_;
  std::optional<Literal> value_;  // empty once donated
};

using DeviceLiterals = std::vector<std::vector<Literal>>;
using DeviceBuffers = std::vector<std::vector<BufferRef>>;

// What a graph compiles to.
struct Program {
  Program(Graph g, std::int64_t device_count)
      : graph(std::move(g)), plan(graph), devices(device_count), collective(eval::uses_collectives(graph)) {
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      aliases.push_back(graph.node(graph.inputs()[i]).as<ir::InputAttrs>().alias);
  }
  const Graph graph;
  const eval::Plan plan;
  const std::int64_t devices;
  const bool collective;
  std::vector<std::int64_t> aliases;  // by input
};

class HostSession : public Session {
 public:
  explicit HostSession(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  DeviceBuffers run(const RunArguments& arguments) override {
    DeviceLiterals values = take(arguments);
    if (!program_->collective)
      values[0] = program_->plan.run(std::move(values[0]), nullptr, arguments.donated);
    else
      run_together(values, arguments.donated);
    DeviceBuffers results(values.size());
    for (std::size_t device = 0; device < values.size(); ++device) {
      std::vector<BufferRef>& buffers = results[device];
      buffers.resize(values[device].size());
      give_back(arguments.per_device[device], arguments.donated, values[device], buffers);
      for (std::size_t i = 0; i < buffers.size(); ++i)
        if (!buffers[i])
          buffers[i] = std::make_shared<HostBuffer>(std::move(values[device][i]), static_cast<int>(device));
    }
    return results;
  }

 private:
  // The arguments' values, checked; donated buffers let go of theirs, so that the graph may write into them.
  DeviceLiterals take(const RunArguments& arguments) const {
    if (arguments.per_device.size() != static_cast<std::size_t>(program_->devices))
      refuse(ErrorKind::kInvalidArgument, "wrong number of argument lists",
             fmt::format("{}, one per device", program_->devices),
             std::to_string(arguments.per_device.size()));
    const std::size_t count = program_->aliases.size();
    for (int i : arguments.donated)
      if (i < 0 || static_cast<std::size_t>(i) >= count)
        refuse(ErrorKind::kInvalidArgument, "donated argument out of range",
               fmt::format("an index below {}", count), std::to_string(i));
    DeviceLiterals values(arguments.per_device.size());
    for (std::size_t device = 0; device < values.size(); ++device) {
      const std::vector<BufferRef>& list = arguments.per_device[device];
      if (list.size() != count)
        refuse(ErrorKind::kInvalidArgument, "wrong number of arguments", std::to_string(count),
               std::to_string(list.size()));
      values[device].reserve(count);
      for (std::size_t i = 0; i < count; ++i) values[device].push_back(value_of(list[i], i));
    }
    for (const std::vector<BufferRef>& list : arguments.per_device)
      for (int i : arguments.donated) static_cast<HostBuffer&>(*list[static_cast<std::size_t>(i)]).discard();
    return values;
  }

  Literal value_of(const BufferRef& buffer, std::size_t i) const {
    const auto what = [&] { return fmt::format("argument {} ({})", i, program_->graph.input_name(i)); };
    const Buffer* given = buffer.get();
    if (given == nullptr || typeid(*given) != typeid(HostBuffer))
      refuse(ErrorKind::kInvalidArgument, what(), "a buffer of this backend",
             given != nullptr ? given->device().to_string() : "none");
    const Type &wanted = program_->graph.input_type(i), &got = given->type();
    if (!(got == wanted))
      refuse(got.dtype == wanted.dtype ? ErrorKind::kShape : ErrorKind::kDType, what(), wanted.to_string(),
             got.to_string());
    return given->to_host();
  }

  // The result that a donated argument's input aliases goes back into the argument's buffer. A buffer that
  // was donated twice takes one result.
  void give_back(const std::vector<BufferRef>& arguments, const std::vector<int>& donated,
                 std::vector<Literal>& values, std::vector<BufferRef>& results) const {
    for (int i : donated) {
      const auto at = static_cast<std::size_t>(i);
      if (program_->aliases[at] < 0) continue;
      const auto output = static_cast<std::size_t>(program_->aliases[at]);
      auto& buffer = static_cast<HostBuffer&>(*arguments[at]);
      if (results[output] || !buffer.is_donated()) continue;
      buffer.fill(std::move(values[output]));
      results[output] = arguments[at];
    }
  }

  // Replaces each device's arguments by its results.
  void run_together(DeviceLiterals& values, std::span<const int> donated) const {
    Rendezvous rendezvous(*program_->graph.mesh());
    std::vector<std::thread> threads;
    try {
      threads.reserve(values.size());
      for (std::size_t device = 0; device < values.size(); ++device)
        threads.emplace_back([this, device, donated, &rendezvous, &list = values[device]] {
          try {
            Member member(rendezvous, static_cast<std::int64_t>(device));
            list = program_->plan.run(std::move(list), &member, donated);
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

  const std::shared_ptr<const Program> program_;
};

class HostExecutable : public Executable {
 public:
  HostExecutable(Graph graph, std::int64_t devices)
      : program_(std::make_shared<const Program>(std::move(graph), devices)) {}
  std::unique_ptr<Session> new_session() const override { return std::make_unique<HostSession>(program_); }
  std::int64_t device_count() const override { return program_->devices; }

 private:
  const std::shared_ptr<const Program> program_;
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

// No composite is claimed, so all are inlined; their insides meet the passes then. A graph must keep its
// collectives, even those without effect, to run on as many devices as it says.
Graph ready(const Graph& graph, const CompileOptions& options) {
  Graph inlined = passes::inline_composites(graph);
  if (!options.optimize) return inlined;
  Graph optimized = passes::run_passes(inlined, passes::standard_passes());
  return eval::uses_collectives(optimized) == eval::uses_collectives(graph) ? optimized : inlined;
}

class ReferenceBackend : public Backend, public HostMemoryBackend {
 public:
  std::string_view name() const override { return kName; }

  std::vector<DeviceInfo> devices() override {
    return {{{std::string(kName), {}, 0}, "plain loops on the host, one thread, f64 accumulation", 0}};
  }

  // Ordinals other than 0 are the simulated devices of a mesh.
  BufferRef borrow(const Literal& value, int ordinal) override { return upload(value, ordinal); }
  BufferRef upload(const Literal& value, int ordinal) override {
    if (ordinal < 0 || ordinal >= kMaxDevices)
      refuse(ErrorKind::kNotFound, "no such device", {}, std::to_string(ordinal));
    return std::make_shared<HostBuffer>(value, ordinal);
  }

  std::shared_ptr<const Executable> compile(const Graph& graph, int ordinal,
                                            const CompileOptions& options) override {
    if (ordinal != 0)
      refuse(ErrorKind::kNotFound, "no such device", "reference:0", fmt::format("reference:{}", ordinal));
    if (!graph.is_static()) refuse(ErrorKind::kShape, "a graph with symbols must be bound to numbers first");
    check_kernels(graph);
    return std::make_shared<HostExecutable>(ready(graph, options), count_devices(graph));
  }

  std::string refusal(ir::Op op) const override {
    return op == ir::Op::kernel_call ? kNoKernelSource : std::string();
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace systole::runtime
