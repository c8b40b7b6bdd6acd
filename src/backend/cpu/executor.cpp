#include "backend/cpu/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cpu/cost.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/source.h"
#include "backend/cpu/target.h"
#include "backend/cpu/tuned/attention.h"
#include "backend/cpu/tuned/recurrence.h"
#include "backend/cpu/tuned/tuned.h"
#include "backend/patterns/attention.h"
#include "backend/patterns/convolution.h"
#include "backend/patterns/layers.h"
#include "backend/patterns/product.h"
#include "backend/step_text.h"
#include "base/lasting.h"
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

class CpuTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "cpu"; }
  lower::KernelLimits limits() const override {
    // What clang takes for a loop grows with the square of the arrays in it: 1,000 take 6 s, 4 times 250
    // take 2.
    return {.nodes = 400, .buffers = 256, .cuts_rows = true, .has_cores = true};
  }
  std::vector<lower::Claim> offers(const lower::Region& region) const override {
    const ir::Op op = region.graph.node(region.anchor).op;
    if (op == ir::Op::composite) {
      std::vector<lower::Claim> claims = tuned_offers(region);
      if (!claims.empty() || !patterns::is_layer(region.graph.node(region.anchor))) return claims;
      return onednn_offers(region);
    }
    if (op != ir::Op::dot_general && op != ir::Op::convolution) return {};
    return onednn_offers(region);
  }
  ir::Graph restated(const ir::Graph& graph) const override { return with_lstm_loops(graph); }
  ir::Graph adapted(const ir::Graph& graph) const override {
    if (!onednn_absence().empty()) return graph;
    const ir::Graph images =
        patterns::with_channels_last(patterns::with_images(graph), patterns::ChannelsLast::images);
    return passes::run_passes(patterns::with_gradients_in_order(images), passes::standard_passes());
  }
  bool reads_moved(const ir::Node& reader, std::size_t operand, const lower::Strided& view) const override {
    if (reader.op == ir::Op::composite)
      return patterns::is_attention(reader) &&
             patterns::reads_attention_operand(reader, operand, view, attention_rules());
    const DType dtype = reader.types[0].dtype;
    if ((dtype != DType::f32 && dtype != DType::i32) || !onednn_absence().empty()) return true;
    return reader.op != ir::Op::convolution && patterns::is_matrix(reader, operand, view);
  }
};

// The kernels of a Program, and who calls which.
struct Kernels {
  codegen::KernelSet set;
  std::vector<std::pair<Compiled::Launch*, std::string>> wanted;
};

std::int64_t items_of(const Compiled::Call& call) {
  return call.launches.empty() ? 0 : call.launches[0].items;
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
      compiled.calls[s].threads = threads_for_kernel(made.nanoseconds);
      add_launches(std::move(made.kernels), compiled.calls[s], kernels);
    } else if (step.kind == StepKind::library) {
      compiled.calls[s].library = onednn_call(step.region);
    } else if (std::vector<codegen::Kernel> made = codegen::make_kernels(step, name, codegen::Dialect::c);
               !made.empty()) {
      compiled.calls[s].threads = threads_for_kernel(estimated_nanoseconds(step.region));
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

}  // namespace

const lower::Target& target() {
  static const CpuTarget& only = lasting<CpuTarget>();
  return only;
}

std::shared_ptr<const Module> make_module(const ir::Graph& graph, bool optimize,
                                          const KernelOptions& options) {
  auto module = std::make_shared<Module>();
  {
    const timeline::Span span("compile", "lower");
    module->program = lower::make_program(
        lower::prepared(runtime::with_bodies(graph, codegen::Dialect::c), target(), optimize), target());
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
    const Compiled::Call& call = compiled.calls[s];
    for (const Compiled::Launch& launch : call.launches)
      arguments_[s].runs.push_back({launch.function, arguments_[s].all.data(), launch.items, &call.label});
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

void Machine::KernelRun::run(const void* context, std::int64_t begin, std::int64_t end) {
  const auto& run = *static_cast<const KernelRun*>(context);
  std::optional<timeline::Span> span;
  if (end - begin < run.items) span.emplace("part", *run.label);  // others have the rest
  run.function(run.buffers, begin, end);
}

void Machine::run(std::size_t s, const runtime::Walker<Machine>& walker) {
  const Step& step = compiled_->program->steps[s];
  const Compiled::Call& call = compiled_->calls[s];
  if (!call.launches.empty() && call.launches[0].function != nullptr) {
    std::vector<void*>& all = arguments_[s].all;
    std::size_t next = 0;
    const auto set = [&](void* place) {
      if (all[next] != place) all[next] = place;
      ++next;
    };
    for (const BufferId b : step.inputs) set(walker.place(b));
    for (const BufferId b : step.outputs) set(walker.place(b));
    set(walker.workspace(step));
    for (const KernelRun& run : arguments_[s].runs)
      parallel_for(run.items, std::min(call.threads, thread_count()), KernelRun::run, &run);
    return;
  }
  if (call.source || call.library) {
    Arguments& own = arguments_[s];
    for (std::size_t i = 0; i < step.inputs.size(); ++i) own.inputs[i] = walker.place(step.inputs[i]);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) own.outputs[i] = walker.place(step.outputs[i]);
    if (call.library) {
      for (std::size_t i = 0; i < step.inputs.size(); ++i) {
        const BufferInfo& info = walker.info(step.inputs[i]);
        own.is_same[i] = info.role == BufferInfo::Role::constant ||
                         (!is_same_.empty() && info.role == BufferInfo::Role::input && info.shares < 0 &&
                          is_same_[static_cast<std::size_t>(info.position)] != 0);
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
