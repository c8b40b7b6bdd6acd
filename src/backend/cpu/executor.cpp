#include "backend/cpu/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cpu/onednn.h"
#include "backend/cpu/source.h"
#include "backend/cpu/target.h"
#include "backend/cpu/tuned/tuned.h"
#include "backend/patterns/convolution.h"
#include "backend/patterns/product.h"
#include "backend/step_text.h"
#include "base/parallel.h"
#include "codegen/kernel.h"
#include "compile/links.h"
#include "eval/eval.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"
#include "systole/compile/passes.h"

namespace systole::cpu {

namespace {

using lower::BufferId;
using lower::BufferInfo;
using lower::Step;
using lower::StepKind;

constexpr double kWorthAThread = 8'000;  // nanoseconds: less is done before a thread has what it works on

class CpuTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "cpu"; }
  lower::KernelLimits limits() const override {
    return {.nodes = 400, .buffers = 4096, .cuts_rows = true, .has_cores = true};
  }
  std::vector<lower::Claim> offers(const lower::Region& region) const override {
    const ir::Op op = region.graph.node(region.anchor).op;
    if (op == ir::Op::composite) return tuned_offers(region);
    if (op != ir::Op::dot_general && op != ir::Op::convolution) return {};
    return onednn_offers(region);
  }
  ir::Graph adapted(const ir::Graph& graph) const override {
    if (!onednn_absence().empty()) return graph;
    return passes::run_passes(patterns::with_channels_last(graph, patterns::ChannelsLast::images),
                              passes::standard_passes());
  }
  bool reads_moved(const ir::Node& reader, std::size_t operand, const lower::Strided& view) const override {
    if (reader.op == ir::Op::composite) return false;
    if (reader.types[0].dtype != DType::f32 || !onednn_absence().empty()) return true;
    return reader.op != ir::Op::convolution && patterns::is_matrix(reader, operand, view);
  }
};

// Nanoseconds of one thread, roughly: instructions, and bytes as the memory gives them.
double time_of(const lower::Program& program, const Step& step) {
  constexpr double kOperation = 0.03, kByte = 0.05;
  const ir::Graph& graph = step.region.graph;
  double operations = 0, bytes = 0;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::input || node.op == ir::Op::constant) continue;
    double count = static_cast<double>(node.types[0].shape.count());
    if (node.op == ir::Op::reduce) count = static_cast<double>(graph.type(node.operands[0]).shape.count());
    double each = std::max(1, lower::element_cost(node));
    if (node.op == ir::Op::dot_general) {
      for (const std::int64_t axis : node.as<ir::DotAttrs>().a_contract)
        each *=
            static_cast<double>(graph.type(node.operands[0]).shape[static_cast<std::size_t>(axis)].value());
    } else if (node.op == ir::Op::convolution) {
      const Shape& kernel = graph.type(node.operands[1]).shape;
      each = static_cast<double>(kernel.count());
    }
    operations += count * each;
  }
  for (const std::vector<BufferId>* const buffers : {&step.inputs, &step.outputs})
    for (const BufferId b : *buffers)
      bytes += static_cast<double>(program.buffers[static_cast<std::size_t>(b)].bytes);
  return operations * kOperation + bytes * kByte;
}

// The kernels of a Program, and who calls which.
struct Kernels {
  codegen::KernelSet set;
  std::vector<std::pair<Compiled::Launch*, std::string>> wanted;
};

std::int64_t items_of(const Compiled::Call& call) {
  return call.launches.empty() ? 0 : call.launches[0].items;
}

int threads_for(double nanoseconds) {
  return static_cast<int>(std::clamp(nanoseconds / kWorthAThread, 1.0, 1024.0));
}

void add_launches(std::vector<codegen::Kernel> made, Compiled::Call& call, Kernels& kernels) {
  call.launches.resize(made.size());
  for (std::size_t k = 0; k < made.size(); ++k) {
    Compiled::Launch& launch = call.launches[k];
    launch.items = made[k].items;
    kernels.wanted.emplace_back(&launch, kernels.set.add(std::move(made[k])));
  }
}

void generate(const lower::Program& program, const std::string& prefix, Compiled& compiled,
              Kernels& kernels) {
  compiled.program = &program;
  compiled.calls.resize(program.steps.size());
  compiled.sub_programs.resize(program.steps.size());
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    const std::string name = fmt::format("{}{}", prefix, s);
    if (step.kind == StepKind::library && is_tuned(step.implementation)) {
      Tuned made = tuned_kernels(step.region, name);
      compiled.calls[s].threads = threads_for(made.nanoseconds);
      add_launches(std::move(made.kernels), compiled.calls[s], kernels);
    } else if (step.kind == StepKind::library) {
      compiled.calls[s].library = onednn_call(step.region);
    } else if (std::vector<codegen::Kernel> made = codegen::make_kernels(step, name, codegen::Dialect::c);
               !made.empty()) {
      compiled.calls[s].threads = threads_for(time_of(program, step));
      add_launches(std::move(made), compiled.calls[s], kernels);
    } else {
      compiled.calls[s].source = source_call(step);
    }
    compiled.calls[s].label = runtime::step_label(step, name);
    compiled.calls[s].details = runtime::step_details(program, step, items_of(compiled.calls[s]));
    compiled.sub_programs[s].resize(step.programs.size());
    for (std::size_t k = 0; k < step.programs.size(); ++k)
      generate(*step.programs[k], fmt::format("{}_{}_", name, k), compiled.sub_programs[s][k], kernels);
  }
}

struct KernelRun {
  KernelFunction function;
  void* const* buffers;
  std::int64_t items;
  const std::string& label;
};

void run_kernel(const void* context, std::int64_t begin, std::int64_t end) {
  const auto& run = *static_cast<const KernelRun*>(context);
  std::optional<timeline::Span> span;
  if (end - begin < run.items) span.emplace("part", run.label);  // others have the rest
  run.function(run.buffers, begin, end);
}

}  // namespace

const lower::Target& target() {
  static const CpuTarget only;
  return only;
}

std::shared_ptr<const Module> make_module(const ir::Graph& graph, bool optimize,
                                          const KernelOptions& options) {
  auto module = std::make_shared<Module>();
  {
    const timeline::Span span("compile", "lower");
    module->program = lower::make_program(lower::prepared(graph, target(), optimize), target());
  }
  std::string source;
  Kernels kernels;
  {
    const timeline::Span span("compile", "codegen");
    generate(module->program, "k", module->compiled, kernels);
    const std::vector<codegen::Kernel>& distinct = kernels.set.distinct();
    if (!distinct.empty()) source = codegen::source_file(distinct, codegen::Dialect::c);
  }
  if (!source.empty()) {
    const timeline::Span span("compile", "jit");
    module->library = compile_kernels(source, options);
  }
  if (module->library)
    for (auto& [launch, name] : kernels.wanted) launch->function = module->library->find(name);
  return module;
}

bool Module::keeps_inputs() const {
  return std::any_of(compiled.calls.begin(), compiled.calls.end(),
                     [](const Compiled::Call& call) { return call.library && call.library->keeps_inputs(); });
}

Machine::Machine(Context, const Compiled& compiled)
    : compiled_(&compiled), arguments_(compiled.program->steps.size()) {
  for (std::size_t s = 0; s < arguments_.size(); ++s) {
    const Step& step = compiled.program->steps[s];
    arguments_[s].all.resize(step.inputs.size() + step.outputs.size() + 1);  // and the workspace
    if (compiled.calls[s].library) {
      arguments_[s].library = compiled.calls[s].library->new_run();
      arguments_[s].is_same.resize(step.inputs.size());
    }
    if (compiled.calls[s].source || compiled.calls[s].library) {
      arguments_[s].inputs.resize(step.inputs.size());
      arguments_[s].outputs.resize(step.outputs.size());
    }
  }
}

Machine::Place Machine::constant(BufferId b) const {
  return const_cast<std::byte*>(compiled_->program->buffers[static_cast<std::size_t>(b)].value->bytes());
}

void Machine::copy(Place from, Place to, std::size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

void Machine::run(std::size_t s, const runtime::Walker<Machine>& walker) {
  const Step& step = compiled_->program->steps[s];
  const Compiled::Call& call = compiled_->calls[s];
  if (!call.launches.empty() && call.launches[0].function != nullptr) {
    std::vector<void*>& all = arguments_[s].all;
    std::size_t next = 0;
    for (const BufferId b : step.inputs) all[next++] = walker.place(b);
    for (const BufferId b : step.outputs) all[next++] = walker.place(b);
    all[next] = walker.workspace(step);
    for (const Compiled::Launch& launch : call.launches) {
      const KernelRun run{launch.function, all.data(), launch.items, call.label};
      parallel_for(launch.items, std::min(call.threads, thread_count()), run_kernel, &run);
    }
    return;
  }
  if (call.source || call.library) {
    Arguments& own = arguments_[s];
    for (std::size_t i = 0; i < step.inputs.size(); ++i) own.inputs[i] = walker.place(step.inputs[i]);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) own.outputs[i] = walker.place(step.outputs[i]);
    if (call.library) {
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        const BufferInfo& info = walker.info(step.inputs[i]);
        own.is_same[i] = !is_same_.empty() && info.role == BufferInfo::Role::input && info.shares < 0 &&
                         is_same_[static_cast<std::size_t>(info.position)] != 0;
      }
      own.library->run({own.inputs, own.outputs, walker.workspace(step), own.is_same});
    } else {
      cpu::run(*call.source, own.inputs, own.outputs);
    }
    return;
  }
  std::vector<Literal> arguments;
  for (const BufferId b : step.inputs) {
    const BufferInfo& info = walker.info(b);
    arguments.push_back(Literal::copy_of(info.type, {walker.place(b), static_cast<std::size_t>(info.bytes)}));
  }
  const std::vector<Literal> results = eval::evaluate(step.region.graph, arguments);
  for (std::size_t i = 0; i < results.size(); ++i)
    copy(const_cast<std::byte*>(results[i].bytes()), walker.place(step.outputs[i]), results[i].byte_size());
}

}  // namespace systole::cpu
