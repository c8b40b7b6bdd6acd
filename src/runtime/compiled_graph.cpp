// CompiledGraph: arguments checked, symbols bound, sessions lent out, values moved to the device and back.

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/env.h"
#include "base/log.h"
#include "compile/flops.h"
#include "eval/eval.h"
#include "runtime/cache.h"
#include "runtime/registry.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"
#include "systole/runtime.h"

namespace systole {

namespace {

using runtime::Session;

constexpr std::size_t kMaxSpecialised = 64;  // sets of symbol values a CompiledGraph remembers

std::vector<Type> input_types(const ir::Graph& graph) {
  std::vector<Type> types;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) types.push_back(graph.input_type(i));
  return types;
}

std::vector<Type> output_types(const ir::Graph& graph) {
  std::vector<Type> types;
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) types.push_back(graph.output_type(i));
  return types;
}

// Of arguments and results together; throws kLimit when 64 bits do not hold it.
std::int64_t argument_bytes(const ir::Graph& graph) {
  std::int64_t bytes = 0;
  for (const std::vector<Type>& types : {input_types(graph), output_types(graph)})
    for (const Type& type : types)
      bytes = checked_add(bytes, type.bytes(), fmt::format("graph {}", graph.name()),
                          "the size of its inputs and outputs");
  return bytes;
}

// What a run moves and does at least, as the graph has it.
std::string run_details(const ir::Graph& graph, const DeviceName& device) {
  return timeline::details({{"device", device.to_string()},
                            {"dtype", name(passes::flops_dtype(graph))},
                            {"bytes", argument_bytes(graph)},
                            {"flops", static_cast<std::int64_t>(std::min(passes::flops(graph), 9e18))}});
}

// A session whose runs show in the timeline, whatever its backend.
class TimedSession final : public Session {
 public:
  TimedSession(std::unique_ptr<Session> session, std::string name, std::string details)
      : session_(std::move(session)), name_(std::move(name)), details_(std::move(details)) {}
  std::vector<std::vector<runtime::BufferRef>> run(const runtime::RunArguments& arguments) override {
    const timeline::Span span("run", name_, details_);
    return session_->run(arguments);
  }
  void run_into(const runtime::RunArguments& arguments,
                std::vector<std::vector<runtime::BufferRef>>& results) override {
    const timeline::Span span("run", name_, details_);
    session_->run_into(arguments, results);
  }
  runtime::BufferRef placed(const runtime::BufferRef& buffer, std::size_t input) override {
    return session_->placed(buffer, input);
  }

 private:
  const std::unique_ptr<Session> session_;
  const std::string name_, details_;
};

// One executable with its idle sessions. A run takes one, or makes one when all are busy, and brings it back
// unless it failed: after a failure its state is anyone's guess.
class Instance {
 public:
  Instance(runtime::ExecutableRef executable, const ir::Graph& bound, const DeviceName& device)
      : executable_(std::move(executable)),
        inputs_(input_types(bound)),
        outputs_(output_types(bound)),
        name_("run " + bound.name()),
        details_(run_details(bound, device)) {}

  const runtime::Executable& executable() const { return *executable_; }
  const std::vector<Type>& inputs() const { return inputs_; }    // static
  const std::vector<Type>& outputs() const { return outputs_; }  // static

  std::unique_ptr<Session> take() {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Session> session = std::move(idle_.back());
        idle_.pop_back();
        return session;
      }
    }
    return new_session();
  }
  std::unique_ptr<Session> new_session() const {
    return std::make_unique<TimedSession>(executable_->new_session(), name_, details_);
  }
  void bring_back(std::unique_ptr<Session> session) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(session));
  }

 private:
  const runtime::ExecutableRef executable_;
  const std::vector<Type> inputs_, outputs_;
  const std::string name_, details_;  // in the timeline
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;
};

std::vector<Type> types_of(std::span<const Literal> values) {
  std::vector<Type> types;
  for (const Literal& value : values) types.push_back(value.type());
  return types;
}

// Argument lists a run takes: a graph with collectives is what each device of its mesh runs.
std::int64_t list_count(const ir::Graph& graph) {
  return graph.mesh() && eval::uses_collectives(graph) ? graph.mesh()->size() : 1;
}

// Passes may find that no collective has an effect; then the graph stays as it is, for its number of devices
// to stay.
ir::Graph optimized(const ir::Graph& graph) {
  const timeline::Span span("compile", "passes");
  ir::Graph result = passes::run_passes(graph, passes::standard_passes());
  return list_count(result) == list_count(graph) ? result : graph;
}

// A dimension with a symbol takes any size here; match_symbols() decides.
bool fits(const Shape& wanted, const Shape& got) {
  if (wanted.rank() != got.rank()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i].is_static() && !(wanted[i] == got[i])) return false;
  return true;
}

}  // namespace

runtime::Math runtime::default_math() { return env::word("SYSTOLE_MATH") == "tf32" ? Math::tf32 : Math::f32; }

namespace {
std::atomic<int> deterministic = -1;  // not set
}

bool runtime::is_deterministic() {
  const int set = deterministic.load(std::memory_order_relaxed);
  return set >= 0 ? set == 1 : env::flag("SYSTOLE_DETERMINISTIC");
}

void set_deterministic(bool on) { deterministic.store(on ? 1 : 0, std::memory_order_relaxed); }

struct CompiledGraph::State {
  ir::Graph graph;
  runtime::ResolvedDevice device;
  runtime::CompileOptions options;
  std::vector<Io> inputs, outputs;
  std::shared_ptr<Instance> fixed;  // null when the graph has symbols

  // Most recent first; the shapes of the arguments stand for the values of the symbols.
  mutable std::mutex mutex;
  mutable std::list<std::shared_ptr<Instance>> specialised;

  std::shared_ptr<Instance> compiled(const ir::Graph& bound) const;
  std::shared_ptr<Instance> find(std::span<const Type> arguments) const;
  std::shared_ptr<Instance> instance_for(std::span<const Type> arguments) const;
  void check(std::span<const Type> arguments, std::span<const Type> wanted, const std::string& place) const;
  void check_results(std::span<const std::vector<Literal>> results, std::size_t devices,
                     std::span<const Type> wanted) const;
};

// Compiles a graph without symbols, or finds it compiled.
std::shared_ptr<Instance> CompiledGraph::State::compiled(const ir::Graph& bound) const {
  const auto compile_now = [&] {
    const std::string where = device.name.to_string();
    log(LogLevel::info, fmt::format("compiling graph {} for {}", bound.name(), where));
    const std::string name = "compile " + bound.name(), details = timeline::details({{"device", where}});
    const timeline::Span span("compile", name, details);
    ir::verify(bound);
    (void)argument_bytes(bound);  // throws where sums of sizes would wrap
    const ir::Graph ready = options.optimize ? optimized(bound) : bound;
    return device.backend->compile(ready, device.name.ordinal, options);
  };
  return std::make_shared<Instance>(
      runtime::executable_cache().find_or_compile(bound, device.name, options, compile_now), bound,
      device.name);
}

std::shared_ptr<Instance> CompiledGraph::State::find(std::span<const Type> arguments) const {
  std::lock_guard lock(mutex);
  for (auto it = specialised.begin(); it != specialised.end(); ++it) {
    if (!std::equal(arguments.begin(), arguments.end(), (*it)->inputs().begin(), (*it)->inputs().end()))
      continue;
    specialised.splice(specialised.begin(), specialised, it);
    return specialised.front();
  }
  return nullptr;
}

std::shared_ptr<Instance> CompiledGraph::State::instance_for(std::span<const Type> arguments) const {
  if (fixed) return fixed;
  if (std::shared_ptr<Instance> known = find(arguments)) return known;
  std::shared_ptr<Instance> made = compiled(ir::bind_symbols(graph, ir::match_symbols(graph, arguments)));
  if (std::shared_ptr<Instance> known = find(arguments)) return known;  // another thread was faster
  std::lock_guard lock(mutex);
  specialised.push_front(made);
  if (specialised.size() > kMaxSpecialised) specialised.pop_back();
  return made;
}

void CompiledGraph::State::check(std::span<const Type> arguments, std::span<const Type> wanted,
                                 const std::string& place) const {
  if (arguments.size() != wanted.size()) {
    std::string names;
    for (const Io& io : inputs) names += (names.empty() ? "" : ", ") + io.name;
    throw Error(ErrorKind::kInvalidArgument, fmt::format("graph {}", graph.name()),
                place + "wrong number of arguments",
                names.empty() ? std::to_string(wanted.size()) : fmt::format("{} ({})", wanted.size(), names),
                std::to_string(arguments.size()));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool same_dtype = arguments[i].dtype == wanted[i].dtype;
    if (same_dtype && fits(wanted[i].shape, arguments[i].shape)) continue;
    throw Error(same_dtype ? ErrorKind::kShape : ErrorKind::kDType, fmt::format("graph {}", graph.name()),
                fmt::format("{}argument {} ({}) has the wrong {}", place, i, inputs[i].name,
                            same_dtype ? "shape" : "dtype"),
                wanted[i].to_string(), arguments[i].to_string());
  }
}

// What a backend returns is what the graph says, whatever its passes and kernels did.
void CompiledGraph::State::check_results(std::span<const std::vector<Literal>> results, std::size_t devices,
                                         std::span<const Type> wanted) const {
  const auto fail = [&](std::string message, std::string expected, std::string got) {
    throw Error(ErrorKind::kInternal, fmt::format("graph {} on {}", graph.name(), device.name.to_string()),
                std::move(message), std::move(expected), std::move(got));
  };
  if (results.size() != devices)
    fail("wrong number of result lists", std::to_string(devices), std::to_string(results.size()));
  for (std::size_t d = 0; d < devices; ++d) {
    const std::string place = devices == 1 ? "" : fmt::format("device {}: ", d);
    if (results[d].size() != wanted.size())
      fail(place + "wrong number of results", std::to_string(wanted.size()),
           std::to_string(results[d].size()));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (const Type& got = results[d][i].type(); !(got == wanted[i]))
        fail(fmt::format("{}output {} ({}) has the wrong type", place, i, outputs[i].name),
             wanted[i].to_string(), got.to_string());
  }
}

const CompiledGraph::State& CompiledGraph::state() const {
  if (!state_)
    throw Error(ErrorKind::kInvalidArgument, "CompiledGraph", "it is empty; make one with compile()");
  return *state_;
}

std::span<const CompiledGraph::Io> CompiledGraph::inputs() const { return state().inputs; }
std::span<const CompiledGraph::Io> CompiledGraph::outputs() const { return state().outputs; }
const DeviceName& CompiledGraph::device() const { return state().device.name; }

std::int64_t CompiledGraph::device_count() const {
  return state().fixed ? state().fixed->executable().device_count() : list_count(state().graph);
}

std::vector<Literal> CompiledGraph::run(std::span<const Literal> arguments) const {
  if (device_count() != 1)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("graph {}", state().graph.name()),
                "a graph over a mesh takes a list of arguments per device: use run_devices", "1 device",
                std::to_string(device_count()));
  const std::vector<Literal> list(arguments.begin(), arguments.end());
  return std::move(run_devices({&list, 1})[0]);
}

std::vector<Literal> CompiledGraph::run(std::initializer_list<Literal> arguments) const {
  return run(std::span<const Literal>(arguments.begin(), arguments.size()));
}

std::vector<std::vector<Literal>> CompiledGraph::run_devices(
    std::span<const std::vector<Literal>> arguments) const {
  const State& s = state();
  if (static_cast<std::int64_t>(arguments.size()) != device_count())
    throw Error(ErrorKind::kInvalidArgument, fmt::format("graph {}", s.graph.name()),
                "one list of arguments per device", std::to_string(device_count()),
                std::to_string(arguments.size()));
  const auto place = [&](std::size_t d) {
    return arguments.size() == 1 ? std::string() : fmt::format("device {}: ", d);
  };
  // The first device's shapes bind the symbols; every device must then have the same.
  const std::vector<Type> first = types_of(arguments[0]);
  s.check(first, input_types(s.graph), place(0));
  const std::shared_ptr<Instance> instance = s.instance_for(first);

  runtime::RunArguments call;
  for (std::size_t d = 0; d < arguments.size(); ++d) {
    if (d > 0) s.check(types_of(arguments[d]), instance->inputs(), place(d));
    std::vector<runtime::BufferRef>& buffers = call.per_device.emplace_back();
    for (const Literal& value : arguments[d])
      buffers.push_back(s.device.backend->upload(value, s.device.name.ordinal + static_cast<int>(d)));
  }

  std::unique_ptr<Session> session = instance->take();
  std::vector<std::vector<Literal>> results;
  for (const std::vector<runtime::BufferRef>& buffers : session->run(call)) {
    std::vector<Literal>& values = results.emplace_back();
    for (const runtime::BufferRef& buffer : buffers) values.push_back(buffer->to_host());
  }
  s.check_results(results, arguments.size(), instance->outputs());
  instance->bring_back(std::move(session));
  return results;
}

std::unique_ptr<Session> CompiledGraph::new_session() const {
  if (!state().fixed)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("graph {}", state().graph.name()),
                "a session needs sizes: bind the graph's symbols with ir::bind_symbols, then compile it");
  return state().fixed->new_session();
}

CompiledGraph compile(const ir::Graph& graph, std::string_view device,
                      const runtime::CompileOptions& options) {
  auto state = std::make_shared<CompiledGraph::State>();
  state->device = runtime::resolve(DeviceName::parse(device));
  state->graph = graph;
  state->options = options;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    state->inputs.push_back({graph.input_name(i), graph.input_type(i)});
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    state->outputs.push_back({graph.outputs()[i].name, graph.output_type(i)});
  if (graph.is_static())
    state->fixed = state->compiled(graph);
  else
    ir::verify(graph);
  CompiledGraph result;
  result.state_ = std::move(state);
  return result;
}

}  // namespace systole
