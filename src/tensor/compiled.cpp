// Compiled functions. A specialisation is one trace: for argument types, structure and the types its
// Variables had. Variables it assigns are donated; what else holds their old value gets a copy before the
// launch.
//
// Calls of what is ready never wait for a trace or a compilation: the lock that they take is held only to
// look up and to list. Calls that need the same new trace or program wait for one thread that makes it, and
// all get its error when it fails; but those that find other switches or Variables than the failed trace did
// make one of their own.

#include "systole/tensor/compiled.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "runtime/timeline.h"
#include "systole/ir/composite.h"
#include "systole/ops.h"
#include "systole/tensor/control.h"
#include "tensor/bad_op.h"
#include "tensor/control_body.h"
#include "tensor/devices.h"
#include "tensor/evaluate.h"
#include "tensor/index_check.h"
#include "tensor/mesh.h"
#include "tensor/record.h"
#include "tensor/step_graphs.h"
#include "tensor/thread_state.h"
#include "tensor/trace.h"

namespace systole::recording {

namespace {

bool same(const std::vector<StandIn>& a, const std::vector<StandIn>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const StandIn& x, const StandIn& y) { return x.type == y.type && x.weak == y.weak; });
}

// What one thread makes and others may wait for.
template <class T>
using Coming = std::shared_future<std::shared_ptr<T>>;

struct Specialization {
  std::vector<StandIn> arguments;
  std::vector<std::int64_t> structure;
  std::vector<std::string> keys;
  std::type_index types = typeid(void);
  std::vector<Type> variables;  // types at the time of the trace
  Traced traced;
  std::map<std::vector<std::int64_t>, Coming<Program>> programs;  // by form of call and device
  // The last of a plain call, which is found without making a key.
  struct {
    std::shared_ptr<Program> program;
    std::uint8_t place = kAnyDevice;
    bool deterministic = false;
  } last;

  bool fits(const std::vector<StandIn>& given, const CompiledFunction::Call& call) const {
    return same(arguments, given) && fits_otherwise(call);
  }
  bool fits(const CompiledFunction::Call& call) const {
    const std::vector<Tensor>& given = call.arguments.tensors;
    return std::equal(arguments.begin(), arguments.end(), given.begin(), given.end(),
                      [](const StandIn& a, const Tensor& x) {
                        const Record& record = checked(x, "compiled function");
                        return a.type == record.type && a.weak == record.weak;
                      }) &&
           fits_otherwise(call);
  }
  // Whether it is of a call that looks like this one; switches and Variables are known after the trace.
  bool is_of(const std::vector<StandIn>& given, const CompiledFunction::Call& call) const {
    return same(arguments, given) && types == call.types && structure == call.arguments.structure &&
           keys == call.arguments.keys;
  }

 private:
  bool fits_otherwise(const CompiledFunction::Call& call) const {
    if (types != call.types) return false;
    if (structure != call.arguments.structure || keys != call.arguments.keys) return false;
    for (const auto& [cell, value] : traced.settings)
      if (cell->value != value) return false;
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (!(traced.bound[i].cell->type == variables[i])) return false;
    return true;
  }
};

// Makes the cell the only holder of its buffer.
void make_exclusive(Cell& cell) {
  Record& record = *cell.value.record();
  const Kind kind = record.kind.load(std::memory_order_acquire);
  if (kind == Kind::constant || kind == Kind::host) {
    cell.value = from_buffer(buffer_of(cell.value));
    return;
  }
  runtime::BufferRef mine;
  {
    std::lock_guard lock(record_mutex());
    const bool shared_record = record.references.load(std::memory_order_relaxed) > 1;
    const bool shared_buffer = record.buffer.use_count() > 1;
    if (!shared_record && !shared_buffer) return;
    const Literal old = record.buffer->to_host();
    // What lies in parts may be too large for one device.
    const bool spread = record.buffer->placement().devices.size() > 1;
    const runtime::ResolvedDevice& place =
        device(spread ? device_id("reference") : device_id(record.buffer->device()));
    runtime::BufferRef copy =
        place.backend->upload(Literal::copy_of(old.type(), old.as_bytes()), place.name.ordinal);
    mine = shared_buffer ? std::move(copy) : std::exchange(record.buffer, std::move(copy));
  }
  cell.value = from_buffer(std::move(mine));
}

// A run that failed may have used up what was donated to it; reading the Variable then says why.
void poison_if_lost(Cell& cell, std::exception_ptr error) {
  try {
    buffer_of(cell.value)->to_host();
  } catch (const Error&) {
    cell.value = failed(cell.type, std::move(error));
  }
}

// The options of the function that is being traced.
class OptionsScope {
 public:
  explicit OptionsScope(const FunctionOptions& options)
      : mesh_(std::exchange(thread_state().mesh, options.mesh ? &*options.mesh : nullptr)),
        check_indices_(std::exchange(thread_state().check_indices, options.check_indices)) {}
  ~OptionsScope() {
    thread_state().mesh = mesh_;
    thread_state().check_indices = check_indices_;
  }
  OptionsScope(const OptionsScope&) = delete;
  OptionsScope& operator=(const OptionsScope&) = delete;

 private:
  const DeviceMesh* const mesh_;
  const std::optional<bool> check_indices_;
};

// The value of an argument or capture lies elsewhere now, and stays there.
void settle(const Tensor& x, const runtime::BufferRef& from, const runtime::BufferRef& to) {
  std::lock_guard lock(record_mutex());
  if (Record& record = *x.record(); record.buffer == from) record.buffer = to;
}

}  // namespace

struct CompiledFunction::State {
  FunctionOptions options;
  std::mutex mutex;  // of the lists below; never held while anything is traced or compiled
  std::vector<std::shared_ptr<Specialization>> specializations;
  std::uint64_t forgotten = 0;  // how often the list was emptied
  struct Trace {
    std::shared_ptr<Specialization> made;  // of which the call's side is known
    Coming<Specialization> coming;
  };
  std::vector<Trace> under_way;
  std::mutex tracing;  // held while the function runs, which need not be made for several threads
  std::atomic<std::int64_t> traces = 0;

  // Null when there is none yet; nothing is listed to find it.
  std::shared_ptr<Specialization> known(const CompiledFunction::Call& call) {
    std::lock_guard lock(mutex);
    for (const auto& s : specializations)
      if (s->fits(call)) return s;
    return nullptr;
  }

  std::shared_ptr<Specialization> find(const CompiledFunction::Call& call,
                                       const std::vector<StandIn>& arguments) {
    for (;;) {
      std::promise<std::shared_ptr<Specialization>> promise;
      const auto mine = std::make_shared<Specialization>();
      Coming<Specialization> coming;
      std::shared_ptr<Specialization> others;
      std::uint64_t forgotten_before = 0;
      {
        std::lock_guard lock(mutex);
        for (const auto& s : specializations)
          if (s->fits(arguments, call)) return s;
        for (const Trace& other : under_way)
          if (other.made->is_of(arguments, call)) {
            coming = other.coming;
            others = other.made;
          }
        if (!coming.valid()) {
          mine->arguments = arguments;
          mine->types = call.types;
          mine->structure = call.arguments.structure;
          mine->keys = call.arguments.keys;
          under_way.push_back({mine, promise.get_future().share()});
          forgotten_before = forgotten;
        }
      }
      if (coming.valid()) {
        // Of a switch or a Variable that changed meanwhile, the list may have another one, or need it.
        try {
          coming.get();
        } catch (...) {
          if (others->fits(arguments, call)) throw;
          continue;
        }
        if (others->fits(arguments, call)) return others;
        continue;
      }
      const auto end = [&] { std::erase_if(under_way, [&](const Trace& one) { return one.made == mine; }); };
      try {
        make_trace(*mine, call);
      } catch (...) {
        {
          std::lock_guard lock(mutex);
          end();
        }
        promise.set_exception(std::current_exception());
        throw;
      }
      {
        std::lock_guard lock(mutex);
        end();
        if (forgotten == forgotten_before) specializations.push_back(mine);
      }
      promise.set_value(mine);
      return mine;
    }
  }

  void make_trace(Specialization& made, const CompiledFunction::Call& call) {
    std::lock_guard turn(tracing);
    const OptionsScope scope(options);
    const auto note_types = [&] {
      for (const Frame::Binding& b : made.traced.bound) made.variables.push_back(b.cell->type);
    };
    try {
      const timeline::Span span("compile", "trace");
      made.traced = trace(call.fn, made.arguments, call.arguments,
                          {.variables = Frame::Variables::bind,
                           .purpose = Frame::Purpose::compile,
                           .unfinished = &made.traced});
    } catch (...) {
      note_types();
      throw;
    }
    note_types();
    if (options.mesh) check_mesh(made, made.arguments);
    if (*options.check_indices) check_indices(made.traced, made.arguments.size());
    if (options.check_finite) check_finite(made.traced);
    made.traced.graph = named(made.traced.graph, made.traced, made.arguments.size(), options, Form::once);
    for (const Frame::Binding& b : made.traced.bound) b.cell->compiled = true;
    for (Tensor& x : made.traced.results.tensors) x = Tensor();
    run_pending(made.traced.captures, "compile");
    for (auto* list : {&made.traced.bound, &made.traced.assigned})
      for (Frame::Binding& b : *list) b.placeholder = b.current = Tensor();
    ++traces;
  }

  void forget() {
    std::vector<std::shared_ptr<Specialization>> old;  // destroyed after the lock is released
    std::lock_guard lock(mutex);
    old.swap(specializations);
    under_way.clear();  // of captured values that are old now: calls from here on do not wait for them
    ++forgotten;
  }

  // Of the inputs, for messages.
  static std::vector<std::string> input_names(const Traced& traced, std::size_t arguments) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < arguments; ++i) names.push_back(fmt::format("argument {}", i));
    for (const Frame::Binding& b : traced.bound) names.push_back(b.cell->name);
    names.resize(traced.graph.inputs().size(), "a Tensor of the program");
    return names;
  }

  static void check_finite(Traced& traced) {
    const std::size_t results = traced.results.tensors.size(), own = results - traced.reports();
    ir::Graph graph(traced.graph.name());
    ir::Values inputs, flags;
    for (std::size_t i = 0; i < traced.graph.inputs().size(); ++i)
      inputs.push_back(graph.input(traced.graph.input_name(i), traced.graph.input_type(i)));
    const ir::Values outputs = ir::inline_graph(graph, traced.graph, inputs);
    std::vector<std::string> names;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if ((k >= own && k < results) || !is_float(outputs[k].type().dtype)) continue;
      Ints axes(outputs[k].shape().size());
      std::iota(axes.begin(), axes.end(), 0);
      const ir::Value bad = ops::convert(ops::bitwise_not(ops::is_finite(outputs[k])), DType::i32);
      flags.push_back(ops::reshape(axes.empty() ? bad : ops::reduce(bad, ir::Combine::max, axes), {1}));
      names.push_back(k < own
                          ? fmt::format("result {}", k)
                          : fmt::format("the new value of \"{}\"", traced.assigned[k - results].cell->name));
    }
    if (flags.empty()) return;
    for (std::size_t k = 0; k <= outputs.size(); ++k) {
      if (k == results) graph.output(flags.size() == 1 ? flags[0] : ops::concat(flags, 0));
      if (k < outputs.size()) graph.output(outputs[k]);
    }
    traced.graph = std::move(graph);
    traced.finite_outputs = std::move(names);
    traced.results.tensors.emplace_back();
  }

  // `inputs` are the values of the traced graph's inputs; empty after a launch of many steps.
  void refuse_bad(const Traced& traced, const Literal& report, std::size_t arguments,
                  const std::function<std::vector<Literal>()>& inputs) const {
    const std::span<const std::int32_t> flags = report.values<std::int32_t>();
    const auto found = std::find(flags.begin(), flags.end(), 1);
    if (found == flags.end()) return;
    const auto at = static_cast<std::size_t>(found - flags.begin());
    const std::string& output = traced.finite_outputs[at % traced.finite_outputs.size()];
    std::string text = fmt::format("numbers are not finite: {}", output);
    if (report.rank() > 1) {  // of a launch of many steps
      text += fmt::format(" in step {} of the launch; a call of that step alone names the op",
                          at / traced.finite_outputs.size());
    } else {
      const std::string op =
          first_bad_op(traced.graph, inputs(), input_names(traced, arguments), place_name(traced));
      text += op.empty() ? "; no op gives such a number on the host, where it is computed in f64" : "; " + op;
    }
    throw Error(ErrorKind::kInvalidArgument, options.name, text);
  }

  // Where kernels of the program's own are run again.
  std::string place_name(const Traced& traced) const {
    if (options.mesh) return options.mesh->device;
    if (!options.device.empty()) return options.device;
    for (const Frame::Binding& b : traced.bound)
      if (const std::uint8_t own = b.cell->value.record()->device; own != kAnyDevice)
        return device(own).name.to_string();
    return device(current_device_id()).name.to_string();
  }

  static void check_indices(Traced& traced, std::size_t arguments) {
    std::vector<std::string> names = input_names(traced, arguments);
    IndexChecked checked = with_index_counts(traced.graph, std::move(names), traced.results.tensors.size());
    if (checked.sites.empty()) return;
    traced.graph = std::move(checked.graph);
    traced.index_sites = std::move(checked.sites);
    traced.results.tensors.emplace_back();
  }

  // The rows that many_at takes of data; the steps' own indices are counted in the program.
  void check_rows(const Tensor& indices, std::span<const Tensor> data) const {
    if (!*options.check_indices) return;
    const std::vector<std::int64_t> rows = indices.to(DType::i64).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::int64_t count = data[i].size(0);
      const auto bad =
          std::find_if(rows.begin(), rows.end(), [&](std::int64_t row) { return row < 0 || row >= count; });
      if (bad == rows.end()) continue;
      throw Error(ErrorKind::kInvalidArgument, options.name,
                  fmt::format("many_at: an index is outside the rows of {} (argument {})",
                              data[i].type().to_string(), i),
                  fmt::format("0 to {}", count - 1),
                  fmt::format("{} at {}", *bad, place_text(indices.shape(), bad - rows.begin())));
    }
  }

  void check_mesh(const Specialization& s, const std::vector<StandIn>& arguments) const {
    MeshUse use;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      use.arguments.push_back({fmt::format("arg{}", i), arguments[i].type});
    for (const Frame::Binding& b : s.traced.bound) use.variables.push_back({b.cell->name, b.cell->type});
    for (std::size_t i = 0; i < s.traced.results.tensors.size(); ++i)
      use.results.push_back({fmt::format("result{}", i), s.traced.graph.output_type(i)});
    check_use(*options.mesh, use);
  }

  std::shared_ptr<Program> program(Specialization& s, std::vector<std::int64_t> form, std::uint8_t place,
                                   const std::function<ir::Graph()>& make) {
    const bool deterministic = options.deterministic ? *options.deterministic : runtime::is_deterministic();
    const bool is_plain = form.empty();
    std::unique_lock lock(mutex);
    if (is_plain && s.last.program && s.last.place == place && s.last.deterministic == deterministic)
      return s.last.program;
    form.push_back(place);
    form.push_back(deterministic);
    std::promise<std::shared_ptr<Program>> promise;
    const auto [at, is_new] = s.programs.try_emplace(form);
    if (is_new) at->second = promise.get_future().share();
    const Coming<Program> coming = at->second;
    lock.unlock();
    if (is_new) try {
        promise.set_value(std::make_shared<Program>(
            make(), place,
            runtime::CompileOptions{.math = options.math ? *options.math : runtime::default_math(),
                                    .deterministic = deterministic}));
      } catch (...) {
        lock.lock();
        s.programs.erase(form);
        lock.unlock();
        promise.set_exception(std::current_exception());
        throw;
      }
    std::shared_ptr<Program> made = coming.get();
    if (is_plain) {
      lock.lock();
      s.last = {made, place, deterministic};
    }
    return made;
  }

  // Where the values lie that say where a call runs: look(device id, words), which are made when called.
  template <class Look>
  static void each_place(const Specialization& s, std::span<const Tensor> arguments, const Look& look) {
    for (const Frame::Binding& b : s.traced.bound)
      if (!b.cell->roams)
        look(b.cell->value.record()->device, [&] { return fmt::format("Variable \"{}\"", b.cell->name); });
    for (std::size_t i = 0; i < arguments.size(); ++i)
      look(arguments[i].record()->device, [&] { return fmt::format("argument {}", i); });
  }

  [[noreturn]] void refuse_devices(const Specialization& s, std::span<const Tensor> arguments,
                                   std::uint8_t expected, std::string got) const {
    std::string first;
    each_place(s, arguments, [&](std::uint8_t own, const auto& words) {
      if (first.empty() && own == expected) first = words();
    });
    throw Error(ErrorKind::kInvalidArgument, options.name,
                "Variables and arguments lie on different devices; move them, or name one with "
                "FunctionOptions::device",
                fmt::format("all on {}, as {} is", device(expected).name.to_string(), first), std::move(got));
  }

  std::uint8_t place(const Specialization& s, std::span<const Tensor> arguments) const {
    if (options.mesh) return device_id(options.mesh->device);
    if (!options.device.empty()) return device_id(options.device);
    std::uint8_t found = kAnyDevice;
    each_place(s, arguments, [&](std::uint8_t own, const auto& words) {
      if (own == kAnyDevice || own == found) return;
      if (found != kAnyDevice)
        refuse_devices(s, arguments, found, fmt::format("{} on {}", words(), device(own).name.to_string()));
      found = own;
    });
    if (found != kAnyDevice) return found;
    for (const Tensor& x : s.traced.captures)
      if (found == kAnyDevice) found = x.record()->device;
    return found == kAnyDevice ? current_device_id() : found;
  }

  static void evaluate_all(const Specialization& s, std::span<const Tensor> arguments, const Tensor* last) {
    std::vector<Tensor> pending;
    const auto look = [&](const Tensor& x) {
      if (x.record()->kind.load(std::memory_order_acquire) != Kind::value) pending.push_back(x);
    };
    for (const Tensor& x : arguments) look(x);
    for (const Frame::Binding& b : s.traced.bound) look(b.cell->value);
    if (last != nullptr) look(*last);
    if (!pending.empty()) run_pending(pending, "compiled function");
  }

  // Inputs: the arguments, Variables, captures, then `last`.
  Flat run(const Specialization& s, Program& program, std::span<const Tensor> arguments, const Tensor* last) {
    evaluate_all(s, arguments, last);
    std::vector<int> donated;
    donated.reserve(s.traced.assigned.size());
    const std::size_t reports = s.traced.reports();
    for (std::size_t i = 0; i < s.traced.bound.size(); ++i) {
      // What is refused after the run must find the old values, so nothing is donated.
      if (!s.traced.bound[i].assigned || reports > 0) continue;
      make_exclusive(*s.traced.bound[i].cell);
      donated.push_back(static_cast<int>(arguments.size() + i));
    }
    std::vector<const Tensor*> values;
    values.reserve(arguments.size() + s.traced.bound.size() + s.traced.captures.size() + 1);
    for (const Tensor& x : arguments) values.push_back(&x);
    for (const Frame::Binding& b : s.traced.bound) values.push_back(&b.cell->value);
    for (const Tensor& x : s.traced.captures) values.push_back(&x);
    if (last != nullptr) values.push_back(last);
    std::vector<runtime::BufferRef> buffers = buffers_of(values);
    for (runtime::BufferRef& buffer : buffers)
      if (!options.mesh && !program.holds(*buffer)) buffer = on_device(buffer, program.device());
    std::vector<runtime::BufferRef> results;
    try {
      results = options.mesh ? program.run_placed(std::move(buffers), std::move(donated),
                                                  [&](std::size_t i, const runtime::BufferRef& from,
                                                      const runtime::BufferRef& to) {
                                                    const std::size_t v = i - arguments.size();
                                                    if (i >= arguments.size() && v < s.traced.bound.size())
                                                      s.traced.bound[v].cell->value = from_buffer(to);
                                                    else
                                                      settle(*values[i], from, to);
                                                  })
                             : program.run(std::move(buffers), std::move(donated));
    } catch (const Error&) {
      for (const Frame::Binding& b : s.traced.assigned) poison_if_lost(*b.cell, std::current_exception());
      throw;
    }
    Flat out{{}, s.traced.results.structure, s.traced.results.keys};
    const std::size_t count = s.traced.results.tensors.size();
    if (!s.traced.index_sites.empty())
      refuse_outside(options.name, s.traced.index_sites, results[count - reports]->to_host());
    if (!s.traced.finite_outputs.empty())
      refuse_bad(s.traced, results[count - 1]->to_host(), arguments.size(), [&] {
        std::vector<Literal> given;
        for (const Tensor* x : values) given.push_back(x->literal());
        return given;
      });
    out.tensors.reserve(count);
    for (std::size_t i = 0; i < count - reports; ++i) out.tensors.push_back(from_buffer(results[i]));
    // A donated Variable's result is in its own Buffer, which only its record holds: nothing changes hands.
    for (std::size_t i = 0; i < s.traced.assigned.size(); ++i) {
      Tensor& value = s.traced.assigned[i].cell->value;
      if (value.record()->buffer != results[count + i]) value = from_buffer(std::move(results[count + i]));
    }
    return out;
  }
};

CompiledFunction::CompiledFunction(FunctionOptions options) : state_(std::make_shared<State>()) {
  if (options.mesh) {
    options.mesh = checked(*std::move(options.mesh));
    if (!options.device.empty() &&
        !(DeviceName::parse(options.device) == DeviceName::parse(options.mesh->device)))
      throw Error(ErrorKind::kInvalidArgument, "compile", "a device beside the mesh's", options.mesh->device,
                  options.device);
  }
  options.check_indices = checks_indices(options.check_indices);
  state_->options = std::move(options);
}

void check_one_mesh(const FunctionOptions& options) {
  if (options.mesh)
    throw Error(ErrorKind::kInvalidArgument, "compile", "a mesh beside the one in the options");
}

std::int64_t CompiledFunction::traces() const { return state_->traces; }

namespace {

// Steps inside another trace: a scan that carries nothing but Variables.
Flat scan_steps(const tree::FlatFunction& fn, const Flat& xs, std::int64_t length) {
  return scan([&](const Flat& step) { return std::pair{Flat{}, fn(step)}; }, {}, xs, length, {});
}

std::vector<StandIn> stand_ins(const Flat& arguments) {
  std::vector<StandIn> types;
  for (const Tensor& x : arguments.tensors) {
    const Record& record = checked(x, "compiled function");
    types.push_back({record.type, record.weak});
  }
  return types;
}

}  // namespace

// Inside another trace the function joins that one, which must be of the same mesh.
void CompiledFunction::check_joins() const {
  if (!state_->options.mesh) return;
  const DeviceMesh* const outer = thread_state().mesh;
  if (outer == nullptr || !(*outer == *state_->options.mesh))
    throw Error(ErrorKind::kInvalidArgument, state_->options.name,
                "a function of a mesh is called inside a function that is traced without it",
                "the outer function compiled for the mesh");
}

Flat CompiledFunction::call(const Call& call) const {
  if (tracing()) {
    check_joins();
    return call.fn(call.arguments);
  }
  std::shared_ptr<Specialization> s = state_->known(call);
  if (!s) s = state_->find(call, stand_ins(call.arguments));
  const std::uint8_t place = state_->place(*s, call.arguments.tensors);
  const auto program = state_->program(*s, {}, place, [&] { return s->traced.graph; });
  return state_->run(*s, *program, call.arguments.tensors, nullptr);
}

ir::Graph CompiledFunction::graph(const Call& call) const {
  if (tracing())
    throw Error(ErrorKind::kInvalidArgument, "graph", "asked for inside a function that is being traced");
  return state_->find(call, stand_ins(call.arguments))->traced.graph;
}

void CompiledFunction::forget() const { state_->forget(); }

Flat CompiledFunction::many(const Call& call) const {
  const std::vector<Tensor>& arguments = call.arguments.tensors;
  if (arguments.empty())
    throw Error(ErrorKind::kInvalidArgument, "many", "without arguments there is no number of steps",
                "repeat(steps)");
  std::vector<StandIn> entries;
  std::vector<Type> types;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    types.push_back(checked(arguments[i], "many").type);
    const Shape& shape = types.back().shape;
    if (shape.rank() == 0)
      throw Error(ErrorKind::kShape, "many", fmt::format("argument {} has no axis of steps", i),
                  "at least 1 axis; capture what is the same in every step", types.back().to_string());
    if (!(shape[0] == types[0].shape[0]))
      throw Error(ErrorKind::kShape, "many", fmt::format("argument {} has another number of steps", i),
                  types[0].shape[0].to_string() + " entries along axis 0", types.back().to_string());
    entries.push_back({entry_type(types.back())});
  }
  if (tracing()) {
    check_joins();
    return scan_steps(call.fn, call.arguments, -1);
  }
  const std::shared_ptr<Specialization> s = state_->find(call, entries);
  const std::uint8_t place = state_->place(*s, arguments);
  const Dim steps = types[0].shape[0];
  const auto program = state_->program(*s, {1, steps.value()}, place, [&] {
    return named(looped(s->traced, types, steps, Form::entries), s->traced, types.size(), state_->options,
                 Form::entries);
  });
  return state_->run(*s, *program, arguments, nullptr);
}

Flat CompiledFunction::repeat(const Call& call, std::int64_t steps) const {
  if (steps < 0)
    throw Error(ErrorKind::kInvalidArgument, "repeat", "a negative number of steps", "at least 0",
                std::to_string(steps));
  if (tracing()) {
    check_joins();
    return scan_steps([&](const Flat&) { return call.fn(call.arguments); }, {}, steps);
  }
  const std::shared_ptr<Specialization> s = state_->find(call, stand_ins(call.arguments));
  const std::uint8_t place = state_->place(*s, call.arguments.tensors);
  const auto program = state_->program(*s, {3, steps}, place, [&] {
    std::vector<Type> types;
    for (const Tensor& x : call.arguments.tensors) types.push_back(x.type());
    return named(looped(s->traced, types, steps, Form::all), s->traced, types.size(), state_->options,
                 Form::all);
  });
  return state_->run(*s, *program, call.arguments.tensors, nullptr);
}

Flat CompiledFunction::many_at(const Call& call, const Tensor& indices) const {
  const Type& index = checked(indices, "many_at").type;
  const Flat& data = call.arguments;
  if (!is_integer(index.dtype) || index.shape.rank() < 1)
    throw Error(ErrorKind::kShape, "many_at", "the indices have an entry of rows for each step",
                "integers [steps, rows…]", index.to_string());
  std::vector<StandIn> rows;
  std::vector<Type> types;
  std::vector<std::int64_t> form{2};
  for (const Dim& d : index.shape) form.push_back(d.value());
  form.push_back(static_cast<std::int64_t>(index.dtype));
  for (const Tensor& x : data.tensors) {
    types.push_back(checked(x, "many_at").type);
    if (types.back().shape.rank() == 0)
      throw Error(ErrorKind::kShape, "many_at", "data without rows", "at least 1 axis",
                  types.back().to_string());
    form.push_back(types.back().shape[0].value());
    Type row{types.back().dtype, {}};
    for (std::size_t i = 1; i < index.shape.size(); ++i) row.shape.push_back(index.shape[i]);
    for (std::size_t i = 1; i < types.back().shape.size(); ++i) row.shape.push_back(types.back().shape[i]);
    rows.push_back({row});
  }
  if (tracing()) {
    check_joins();
    return scan_steps(
        [&](const Flat& step) {
          Flat taken{{}, data.structure, data.keys};
          for (const Tensor& x : data.tensors)
            taken.tensors.push_back(
                built({x, step.tensors[0]}, [](const ir::Values& v) { return ops::take(v[0], v[1], 0); }));
          return call.fn(taken);
        },
        tree::flat(indices), -1);
  }
  const std::shared_ptr<Specialization> s = state_->find(call, rows);
  if (state_->options.mesh) refuse_argument_rules(*state_->options.mesh);
  state_->check_rows(indices, data.tensors);
  const std::uint8_t place = state_->place(*s, data.tensors);
  const auto program = state_->program(*s, form, place, [&] {
    return named(looped(s->traced, types, index.shape[0], Form::rows, &index, !state_->options.mesh),
                 s->traced, types.size(), state_->options, Form::rows);
  });
  return state_->run(*s, *program, data.tensors, &indices);
}

}  // namespace systole::recording
