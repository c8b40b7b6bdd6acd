#include "backend/pjrt/pjrt.h"

#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/pjrt/array.h"
#include "backend/pjrt/client.h"
#include "backend/pjrt/executable.h"
#include "backend/pjrt/probe.h"
#include "base/log.h"
#include "eval/eval.h"

namespace systole::pjrt {

namespace {

using codegen::Partitioner;
using ir::Graph;
using runtime::Backend;
using runtime::BufferRef;
using runtime::CompileOptions;
using runtime::DeviceInfo;

constexpr const char* kNoKernelSource = "needs a body graph: StableHLO holds no kernel source";
// A TPU that is there is better than what the library brings itself; other plugins are used when named.
constexpr int kTpuRank = 10, kNamedRank = 200;
constexpr int kShardyMinor = 81;  // the oldest that was tried

// A plugin and its one client, made when first wanted.
class Slot {
 public:
  explicit Slot(PluginSpec spec) : spec_(std::move(spec)) {}

  const PluginSpec& spec() const { return spec_; }

  // Null when the plugin cannot be used; reason() says why.
  std::shared_ptr<const Client> client() {
    std::call_once(once_, [this] {
      try {
        if (spec_.name == "tpu" && !has_tpu())
          throw Error(ErrorKind::kUnsupported, label(spec_), "this machine has no TPU");
        probe(spec_, default_probe_options());
        client_ = std::make_shared<const Client>(spec_);
        if (client_->devices().empty()) reason_ = "the plugin found no device";
      } catch (const Error& error) {  // whoever reads the reason knows the plugin's name
        const std::string text = error.what(), own = label(spec_) + ": ";
        reason_ = text.starts_with(own) ? text.substr(own.size()) : text;
      }
    });
    return client_;
  }
  const std::string& reason() const { return reason_; }

 private:
  const PluginSpec spec_;
  std::once_flag once_;
  std::shared_ptr<const Client> client_;
  std::string reason_;
};

// Whether a value of the graph itself is sharded; the plugin splits the rest by that.
bool has_shardings(const Graph& graph) {
  for (const ir::Node& node : graph.nodes())
    for (const auto& sharding : node.shardings)
      if (sharding) return true;
  return false;
}

const ir::Sharding* sharding_of(const Graph& graph, ir::ValueId value) {
  const ir::Node& node = graph.node(value.node);
  if (node.shardings.empty()) return nullptr;
  const auto& sharding = node.shardings[static_cast<std::size_t>(value.index)];
  return sharding ? &*sharding : nullptr;
}

class PjrtBackend final : public Backend {
 public:
  PjrtBackend(std::shared_ptr<Slot> slot, DeviceName name) : slot_(std::move(slot)), name_(std::move(name)) {
    text_ = name_.backend_name();
  }
  std::string_view name() const override { return text_; }

  std::vector<DeviceInfo> devices() override {
    const std::shared_ptr<const Client> client = slot_->client();
    std::vector<DeviceInfo> infos;
    if (!client) return infos;
    const Api& api = client->api();
    for (const Device& device : client->devices())
      infos.push_back({named(static_cast<int>(infos.size())),
                       fmt::format("{} (XLA, {}, PJRT {}.{})", device.kind,
                                   slot_->spec().library.filename().string(), api.major(), api.minor()),
                       device.memory_bytes});
    return infos;
  }

  std::string unavailable_reason() override {
    (void)slot_->client();
    return slot_->reason();
  }

  BufferRef upload(const Literal& value, int ordinal) override {
    const std::shared_ptr<const Client> client = client_with(ordinal, 1);
    return std::make_shared<ArrayBuffer>(
        client, value.type(), named(ordinal),
        pjrt::upload(*client, value, on_one_device(value.type(), ordinal), named(ordinal)));
  }

  std::shared_ptr<const runtime::Executable> compile(const Graph& graph, int ordinal,
                                                     const CompileOptions& options) override {
    return compile(graph, ordinal, options, std::nullopt);
  }

  std::shared_ptr<const runtime::Executable> compile(const Graph& graph, int ordinal,
                                                     const CompileOptions& options,
                                                     std::optional<Partitioner> only) {
    if (!graph.is_static())
      throw Error(ErrorKind::kShape, text_, "a graph with symbols must be bound to numbers first");
    const bool collective = eval::uses_collectives(graph), sharded = !collective && has_shardings(graph);
    if ((collective || sharded) && !graph.mesh())
      throw Error(ErrorKind::kInvalidArgument, text_, "a graph with collectives or shardings needs a mesh");
    Program program;
    program.label = "run " + graph.name();
    program.devices = static_cast<std::size_t>(collective || sharded ? graph.mesh()->size() : 1);
    program.lists = collective ? program.devices : 1;
    program.client = client_with(ordinal, program.devices);
    program.first = named(ordinal);
    const auto place = [&](const Type& type, ir::ValueId value, int at) {
      return sharded ? on_mesh(type, *graph.mesh(), sharding_of(graph, value), ordinal)
                     : on_one_device(type, at);
    };
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      program.names.push_back(graph.input_name(i));
      program.inputs.push_back(graph.input_type(i));
      program.aliases.push_back(graph.node(graph.inputs()[i]).as<ir::InputAttrs>().alias);
    }
    for (std::size_t i = 0; i < graph.outputs().size(); ++i) program.outputs.push_back(graph.output_type(i));
    for (std::size_t list = 0; list < program.lists; ++list) {
      const int at = ordinal + static_cast<int>(list);
      std::vector<PlacementRef>&arguments = program.arguments.emplace_back(),
      &results = program.results.emplace_back();
      for (std::size_t i = 0; i < program.inputs.size(); ++i)
        arguments.push_back(place(program.inputs[i], {graph.inputs()[i], 0}, at));
      for (std::size_t i = 0; i < program.outputs.size(); ++i)
        results.push_back(place(program.outputs[i], graph.outputs()[i].value, at));
    }
    const auto compile_by = [&](Partitioner partitioner) {
      Layout over = layout(*program.client, ordinal, program.devices, sharded);
      over.shardy = sharded && partitioner == Partitioner::shardy;
      codegen::StableHloOptions emit;
      emit.reduced_precision = options.math == runtime::Math::tf32;
      emit.partitioner = partitioner;
      return program.client->compile(codegen::stablehlo(graph, emit), over);
    };
    // XLA is leaving GSPMD; an old plugin has nothing else.
    const bool shardy = sharded && program.client->api().minor() >= kShardyMinor;
    const Partitioner first = only.value_or(shardy ? Partitioner::shardy : Partitioner::gspmd);
    try {
      program.executable = compile_by(first);
    } catch (const Error& error) {
      if (only || first == Partitioner::gspmd || error.kind() == ErrorKind::kOutOfMemory) throw;
      log(LogLevel::info,
          fmt::format("{}: Shardy is refused, GSPMD is tried: {}", program.first.to_string(), error.what()));
      if (std::optional<LoadedExecutable> second = compiled([&] { return compile_by(Partitioner::gspmd); }))
        program.executable = std::move(*second);
      else
        throw;  // what is wrong is not Shardy
    }
    return make_executable(std::move(program));
  }

  std::string refusal(ir::Op op) const override {
    return op == ir::Op::kernel_call ? kNoKernelSource : std::string();
  }

  std::shared_ptr<const runtime::Executable> compile(TextProgram text, int ordinal) {
    Program program;
    program.devices = program.lists = static_cast<std::size_t>(text.replicas);
    program.client = client_with(ordinal, program.devices);
    program.first = named(ordinal);
    for (std::size_t i = 0; i < text.inputs.size(); ++i) program.names.push_back(std::to_string(i));
    for (std::size_t list = 0; list < program.lists; ++list) {
      const auto place = [&](const std::vector<Type>& types) {
        std::vector<PlacementRef> places;
        for (const Type& type : types)
          places.push_back(on_one_device(type, ordinal + static_cast<int>(list)));
        return places;
      };
      program.arguments.push_back(place(text.inputs));
      program.results.push_back(place(text.outputs));
    }
    program.inputs = std::move(text.inputs);
    program.outputs = std::move(text.outputs);
    program.aliases = std::move(text.aliases);
    program.aliases.resize(program.inputs.size(), -1);
    program.executable =
        program.client->compile(text.text, layout(*program.client, ordinal, program.devices, false));
    return make_executable(std::move(program));
  }

 private:
  template <class F>
  static std::optional<LoadedExecutable> compiled(F&& compile) try {
    return compile();
  } catch (const Error& error) {
    log(LogLevel::debug, error.what());
    return std::nullopt;
  }

  DeviceName named(int ordinal) const { return {name_.backend, name_.plugin, ordinal}; }

  // The client, which has the devices from `ordinal` on.
  std::shared_ptr<const Client> client_with(int ordinal, std::size_t count) {
    std::shared_ptr<const Client> client = slot_->client();
    if (!client) throw Error(ErrorKind::kUnsupported, text_, "not available: " + slot_->reason());
    const std::size_t have = client->devices().size();
    if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= have)
      throw Error(ErrorKind::kNotFound, text_, "no such device", fmt::format("a number below {}", have),
                  std::to_string(ordinal));
    if (static_cast<std::size_t>(ordinal) + count > have)
      throw Error(ErrorKind::kUnsupported, text_, "not enough devices for the graph's mesh",
                  fmt::format("{} from number {} on", count, ordinal), std::to_string(have));
    return client;
  }

  static Layout layout(const Client& client, int ordinal, std::size_t devices, bool sharded) {
    Layout layout;
    (sharded ? layout.partitions : layout.replicas) = static_cast<std::int64_t>(devices);
    layout.spmd = sharded;
    // On its CPU, XLA's maximum of a number and a NaN is the number unless told otherwise.
    if (client.platform() == "cpu") layout.flags = {{"xla_cpu_enable_fast_min_max", false}};
    if (client.platform() == "cuda")
      if (const auto toolkit = cuda_toolkit(client.plugin().spec().library); !toolkit.empty())
        layout.flags = {{"xla_gpu_cuda_data_dir", toolkit.string()}};
    for (std::size_t d = 0; d < devices; ++d)
      layout.device_ids.push_back(client.devices()[static_cast<std::size_t>(ordinal) + d].id);
    return layout;
  }

  const std::shared_ptr<Slot> slot_;
  const DeviceName name_;
  std::string text_;
};

}  // namespace

void register_backends() {
  const auto add = [](const std::shared_ptr<Slot>& slot, const DeviceName& name, std::string_view text,
                      int rank) {
    runtime::register_backend(text, rank, [slot, name] { return std::make_unique<PjrtBackend>(slot, name); });
  };
  for (PluginSpec& spec : discover()) {
    const std::string name = spec.name;
    const auto slot = std::make_shared<Slot>(std::move(spec));
    add(slot, {"pjrt", name, 0}, "pjrt:" + name, kNamedRank);
    if (name == "tpu") add(slot, {"tpu", {}, 0}, "tpu", has_tpu() ? kTpuRank : kNamedRank);
  }
}

std::unique_ptr<Backend> make_backend(const PluginSpec& spec) {
  return std::make_unique<PjrtBackend>(std::make_shared<Slot>(spec), DeviceName{"pjrt", spec.name, 0});
}

std::shared_ptr<const runtime::Executable> compile_text(Backend& backend, TextProgram program, int ordinal) {
  return dynamic_cast<PjrtBackend&>(backend).compile(std::move(program), ordinal);
}

std::shared_ptr<const runtime::Executable> compile_graph(Backend& backend, const Graph& graph,
                                                         Partitioner partitioner) {
  return dynamic_cast<PjrtBackend&>(backend).compile(graph, 0, {}, partitioner);
}

}  // namespace systole::pjrt
