#include "backend/cpu/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cpu/source.h"
#include "backend/cpu/target.h"
#include "backend/step_text.h"
#include "base/parallel.h"
#include "codegen/kernel.h"
#include "compile/links.h"
#include "eval/eval.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

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
    if (std::optional<codegen::Kernel> kernel = codegen::make_kernel(step, name, codegen::Dialect::c)) {
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

std::shared_ptr<const Module> make_module(const ir::Graph& graph, const KernelOptions& options) {
  auto module = std::make_shared<Module>();
  {
    const timeline::Span span("compile", "lower");
    module->program = lower::make_program(graph, target());
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

Executor::Executor(const Compiled& compiled)
    : compiled_(&compiled),
      base_(compiled.program->buffers.size(), nullptr),
      buffers_(compiled.program->steps.size()),
      inner_(compiled.program->steps.size()) {
  const lower::Program& program = *compiled.program;
  for (std::size_t b = 0; b < base_.size(); ++b)
    if (program.buffers[b].role == BufferInfo::Role::constant && program.buffers[b].shares < 0)
      base_[b] = const_cast<std::byte*>(program.buffers[b].value->bytes());
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    buffers_[s].resize(program.steps[s].inputs.size() + program.steps[s].outputs.size() + 1);  // and scratch
    for (const Compiled& sub : compiled.sub_programs[s]) inner_[s].executors.emplace_back(sub);
  }
}

void Executor::run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs,
                   std::byte* arena) {
  const lower::Program& program = *compiled_->program;
  for (std::size_t b = 0; b < base_.size(); ++b) {
    const BufferInfo& info = program.buffers[b];
    if (info.shares >= 0) continue;
    switch (info.role) {
      case BufferInfo::Role::input: base_[b] = inputs[static_cast<std::size_t>(info.position)]; break;
      case BufferInfo::Role::output: base_[b] = outputs[static_cast<std::size_t>(info.position)]; break;
      case BufferInfo::Role::temporary: base_[b] = arena + std::max<std::int64_t>(info.offset, 0); break;
      case BufferInfo::Role::constant: break;
    }
  }
  for (std::size_t b = 0; b < base_.size(); ++b)
    if (program.buffers[b].shares >= 0)
      base_[b] = base_[static_cast<std::size_t>(program.memory_of(static_cast<BufferId>(b)))];
  for (std::size_t s = 0; s < program.steps.size(); ++s) run_step(s);
}

void Executor::run_step(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  const Compiled::Call& call = compiled_->calls[s];
  const timeline::Span span("step", call.label, call.details);
  if (call.function != nullptr) {
    std::size_t next = 0;
    for (const BufferId b : step.inputs) buffers_[s][next++] = memory(b);
    for (const BufferId b : step.outputs) buffers_[s][next++] = memory(b);
    if (step.workspace >= 0) buffers_[s][next] = memory(step.workspace);
    const KernelRun run{call.function, buffers_[s].data(), call.items, call.label};
    parallel_for(call.items, std::min(call.threads, thread_count()), run_kernel, &run);
    return;
  }
  if (call.source) {
    Inner& inner = inner_[s];
    inner.inputs.clear();
    inner.outputs.clear();
    for (const BufferId b : step.inputs) inner.inputs.push_back(memory(b));
    for (const BufferId b : step.outputs) inner.outputs.push_back(memory(b));
    cpu::run(*call.source, inner.inputs, inner.outputs);
    return;
  }
  switch (step.kind) {
    case StepKind::copy:
      std::memmove(memory(step.outputs[0]), memory(step.inputs[0]),
                   static_cast<std::size_t>(
                       compiled_->program->buffers[static_cast<std::size_t>(step.outputs[0])].bytes));
      return;
    case StepKind::scan: scan(s); return;
    case StepKind::loop: loop(s); return;
    case StepKind::branch: branch(s); return;
    default: evaluate(step); return;
  }
}

void Executor::evaluate(const Step& step) {
  const lower::Program& program = *compiled_->program;
  std::vector<Literal> arguments;
  for (const BufferId b : step.inputs) {
    const BufferInfo& info = program.buffers[static_cast<std::size_t>(b)];
    arguments.push_back(Literal::copy_of(info.type, {memory(b), static_cast<std::size_t>(info.bytes)}));
  }
  const std::vector<Literal> results = eval::evaluate(step.region.graph, arguments);
  for (std::size_t i = 0; i < results.size(); ++i)
    std::memcpy(memory(step.outputs[i]), results[i].bytes(), results[i].byte_size());
}

// The operands in the node's order; carries are moved to where they stay.
void Executor::take_operands(const Step& step, Inner& inner) const {
  const ir::Graph& graph = step.region.graph;
  const ir::Node& node = graph.node(step.region.anchor);
  inner.inputs.clear();
  for (const ir::ValueId v : node.operands) {
    const auto position = static_cast<std::size_t>(
        std::find(graph.inputs().begin(), graph.inputs().end(), v.node) - graph.inputs().begin());
    inner.inputs.push_back(memory(step.inputs[position]));
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(step.carries); ++k) {
    std::byte* const to = memory(step.outputs[k]);
    const BufferInfo& info = compiled_->program->buffers[static_cast<std::size_t>(step.outputs[k])];
    if (to != inner.inputs[k]) std::memcpy(to, inner.inputs[k], static_cast<std::size_t>(info.bytes));
    inner.inputs[k] = to;
  }
}

void Executor::scan(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  Inner& inner = inner_[s];
  const lower::Program& body = *step.programs[0];
  take_operands(step, inner);
  std::byte* const arena = step.workspace >= 0 ? memory(step.workspace) : nullptr;
  const auto carries = static_cast<std::size_t>(step.carries);
  const auto xs = static_cast<std::size_t>(step.region.graph.node(step.region.anchor).as<ir::ScanAttrs>().xs);
  inner.first = inner.inputs;
  const auto bytes = [&](BufferId b) { return body.buffers[static_cast<std::size_t>(b)].bytes; };
  inner.outputs.resize(body.outputs.size());
  for (std::int64_t n = 0; n < step.length; ++n) {
    const std::int64_t i = step.reverse ? step.length - 1 - n : n;
    for (std::size_t k = carries; k < carries + xs; ++k)
      inner.inputs[k] = inner.first[k] + i * bytes(body.inputs[k]);
    for (std::size_t k = 0; k < body.outputs.size(); ++k)
      inner.outputs[k] = memory(step.outputs[k]) + (k < carries ? 0 : i * bytes(body.outputs[k]));
    inner.executors[0].run(inner.inputs, inner.outputs, arena);
  }
}

void Executor::loop(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  Inner& inner = inner_[s];
  take_operands(step, inner);
  std::byte* const arena = step.workspace >= 0 ? memory(step.workspace) : nullptr;
  inner.outputs.clear();
  for (std::size_t k = 0; k < static_cast<std::size_t>(step.carries); ++k)
    inner.outputs.push_back(memory(step.outputs[k]));
  for (;;) {
    std::byte go{0};
    std::byte* const answer = &go;
    inner.executors[0].run(inner.inputs, {&answer, 1}, arena);
    if (go == std::byte{0}) return;
    inner.executors[1].run(inner.inputs, inner.outputs, arena);
  }
}

void Executor::branch(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  Inner& inner = inner_[s];
  take_operands(step, inner);
  const bool first = *inner.inputs[0] != std::byte{0};
  inner.outputs.clear();
  for (const BufferId b : step.outputs) inner.outputs.push_back(memory(b));
  inner.executors[first ? 0 : 1].run(std::span(inner.inputs).subspan(1), inner.outputs,
                                     step.workspace >= 0 ? memory(step.workspace) : nullptr);
}

}  // namespace systole::cpu
