#include "backend/cpu/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cpu/onednn.h"
#include "backend/cpu/source.h"
#include "backend/cpu/target.h"
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

constexpr double kWorthAThread = 50'000;  // elementary operations: less is done before a thread wakes

class CpuTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "cpu"; }
  lower::KernelLimits limits() const override { return {.nodes = 400, .buffers = 4096}; }
  std::vector<lower::Claim> offers(const lower::Region& region) const override {
    const ir::Op op = region.graph.node(region.anchor).op;
    if (op != ir::Op::dot_general && op != ir::Op::convolution) return {};
    return {onednn_offer(region)};
  }
  ir::Graph adapted(const ir::Graph& graph) const override {
    if (!onednn_absence().empty()) return graph;
    return passes::run_passes(patterns::with_channels_last(graph), passes::standard_passes());
  }
  bool reads_moved(const ir::Node& reader, std::size_t operand, const lower::Strided& view) const override {
    if (reader.op == ir::Op::composite) return false;
    if (reader.types[0].dtype != DType::f32 || !onednn_absence().empty()) return true;
    return reader.op != ir::Op::convolution && patterns::is_matrix(reader, operand, view);
  }
};

// Roughly the additions that a step makes.
double work_of(const Step& step) {
  const ir::Graph& graph = step.region.graph;
  double work = 0;
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
    work += count * each;
  }
  return work;
}

// The kernels of a Program, and who calls which.
struct Kernels {
  codegen::KernelSet set;
  std::vector<std::pair<Compiled::Call*, std::string>> wanted;
};

void generate(const lower::Program& program, const std::string& prefix, Compiled& compiled,
              Kernels& kernels) {
  compiled.program = &program;
  compiled.calls.resize(program.steps.size());
  compiled.sub_programs.resize(program.steps.size());
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    const std::string name = fmt::format("{}{}", prefix, s);
    if (step.kind == StepKind::library) {
      compiled.calls[s].library = onednn_call(step.region);
    } else if (std::optional<codegen::Kernel> kernel =
                   codegen::make_kernel(step, name, codegen::Dialect::c)) {
      compiled.calls[s].items = kernel->items;
      const double threads = work_of(step) / kWorthAThread;
      compiled.calls[s].threads = static_cast<int>(std::clamp(threads, 1.0, 1024.0));
      kernels.wanted.emplace_back(&compiled.calls[s], kernels.set.add(*std::move(kernel)));
    } else {
      compiled.calls[s].source = source_call(step);
    }
    compiled.calls[s].label = runtime::step_label(step, name);
    compiled.calls[s].details = runtime::step_details(program, step, compiled.calls[s].items);
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
    for (auto& [call, name] : kernels.wanted) call->function = module->library->find(name);
  return module;
}

Machine::Machine(Context, const Compiled& compiled)
    : compiled_(&compiled), arguments_(compiled.program->steps.size()) {
  for (std::size_t s = 0; s < arguments_.size(); ++s) {
    const Step& step = compiled.program->steps[s];
    arguments_[s].all.resize(step.inputs.size() + step.outputs.size() + 1);  // and the workspace
    if (compiled.calls[s].library) arguments_[s].library = compiled.calls[s].library->new_run();
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
  if (call.function != nullptr) {
    std::vector<void*>& all = arguments_[s].all;
    std::size_t next = 0;
    for (const BufferId b : step.inputs) all[next++] = walker.place(b);
    for (const BufferId b : step.outputs) all[next++] = walker.place(b);
    all[next] = walker.workspace(step);
    const KernelRun run{call.function, all.data(), call.items, call.label};
    parallel_for(call.items, std::min(call.threads, thread_count()), run_kernel, &run);
    return;
  }
  if (call.source || call.library) {
    Arguments& own = arguments_[s];
    for (std::size_t i = 0; i < step.inputs.size(); ++i) own.inputs[i] = walker.place(step.inputs[i]);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) own.outputs[i] = walker.place(step.outputs[i]);
    if (call.library)
      own.library->run(own.inputs, own.outputs, walker.workspace(step));
    else
      cpu::run(*call.source, own.inputs, own.outputs);
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
