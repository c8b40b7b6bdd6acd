#include "backend/opencl/executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/opencl/source.h"
#include "backend/step_text.h"
#include "codegen/kernel.h"
#include "eval/eval.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::opencl {

namespace {

using lower::BufferId;
using lower::BufferInfo;
using lower::Step;
using lower::StepKind;

constexpr std::size_t kArgumentBytes = sizeof(cl_mem) + sizeof(cl_ulong);  // of one buffer

int most_buffers(const Device& device) {  // of a kernel, its workspace among them
  return static_cast<int>(std::min<std::size_t>(device.argument_bytes() / kArgumentBytes, 4096));
}

class OpenClTarget final : public lower::Target {
 public:
  explicit OpenClTarget(const Device& device) : buffers_(most_buffers(device) - 1) {}
  std::string_view name() const override { return "opencl"; }
  lower::KernelLimits limits() const override { return {.nodes = 400, .buffers = buffers_}; }

 private:
  const int buffers_;
};

class Generator {
 public:
  Generator(const Device& device, lower::Program& top) : device_(device), top_(top) {}

  void generate(const lower::Program& program, const std::string& prefix, Compiled& compiled) {
    compiled.program = &program;
    compiled.calls.resize(program.steps.size());
    compiled.sub_programs.resize(program.steps.size());
    compiled.constants.resize(program.buffers.size());
    for (std::size_t b = 0; b < program.buffers.size(); ++b)
      if (const BufferInfo& info = program.buffers[b];
          info.role == BufferInfo::Role::constant && info.shares < 0) {
        compiled.constants[b] = device_.allocate(info.bytes);
        device_.write({compiled.constants[b].get(), 0}, info.value->bytes(),
                      static_cast<std::size_t>(info.bytes));
      }
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      const std::string name = fmt::format("{}{}", prefix, s);
      Compiled::Call& call = compiled.calls[s];
      const bool fits = static_cast<int>(step.inputs.size() + step.outputs.size()) < most_buffers(device_);
      if (std::optional<codegen::Kernel> kernel;
          fits && (kernel = codegen::make_kernel(step, name, codegen::Dialect::opencl))) {
        call.groups = static_cast<std::size_t>(kernel->groups);
        call.threads = static_cast<std::size_t>(kernel->threads);
        call.scratch = kernel->scratch;
        call.kernel = kernels_.add(*std::move(kernel));
      } else if (step.programs.empty() && step.kind != StepKind::copy) {
        call.source = source_call(device_, step);
        if (!call.source)
          note(step, fits ? "it has no kernel in OpenCL" : "too many buffers for this device");
      }
      call.label = runtime::step_label(step, name);
      call.details = runtime::step_details(program, step, static_cast<std::int64_t>(call.groups));
      compiled.sub_programs[s].resize(step.programs.size());
      for (std::size_t k = 0; k < step.programs.size(); ++k)
        generate(*step.programs[k], fmt::format("{}_{}_", name, k), compiled.sub_programs[s][k]);
    }
  }
  const std::vector<codegen::Kernel>& kernels() const { return kernels_.distinct(); }

 private:
  void note(const Step& step, std::string_view why) {
    const std::int32_t anchor = step.region.anchor;
    top_.notes.push_back(fmt::format(
        "{} runs on the host: {}", anchor < 0 ? "a step" : ir::name(step.region.graph.node(anchor).op), why));
  }

  const Device& device_;
  lower::Program& top_;
  codegen::KernelSet kernels_;
};

}  // namespace

std::shared_ptr<const Module> make_module(const Device& device, const ir::Graph& graph) {
  auto module = std::make_shared<Module>();
  module->device = &device;
  {
    const timeline::Span span("compile", "lower");
    module->program = lower::make_program(graph, OpenClTarget(device));
  }
  Generator generator(device, module->program);
  std::string source;
  {
    const timeline::Span span("compile", "codegen");
    generator.generate(module->program, "k", module->compiled);
    source = codegen::source_file(generator.kernels(), codegen::Dialect::opencl);
  }
  if (!generator.kernels().empty()) {
    const timeline::Span span("compile", "driver");
    module->kernels = device.build(source);
  }
  return module;
}

Executor::Executor(const Module& module, const Compiled& compiled)
    : device_(module.device),
      compiled_(&compiled),
      places_(compiled.program->buffers.size()),
      inner_(compiled.program->steps.size()) {
  const lower::Program& program = *compiled.program;
  for (std::size_t b = 0; b < places_.size(); ++b) places_[b].memory = compiled.constants[b].get();
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const std::string& name = compiled.calls[s].kernel;
    kernels_.push_back(name.empty() ? Kernel(nullptr, nullptr) : Device::kernel(module.kernels, name));
    for (const Compiled& sub : compiled.sub_programs[s]) inner_[s].executors.emplace_back(module, sub);
    if (program.steps[s].kind == StepKind::loop) inner_[s].answer = device_->allocate(1);
  }
}

std::size_t Executor::bytes(BufferId b) const {
  return static_cast<std::size_t>(compiled_->program->buffers[static_cast<std::size_t>(b)].bytes);
}

Place Executor::workspace(const Step& step) const {
  return step.workspace >= 0 ? place(step.workspace) : Place{};
}

void Executor::run(std::span<const Place> inputs, std::span<const Place> outputs, Place arena) {
  const lower::Program& program = *compiled_->program;
  for (std::size_t b = 0; b < places_.size(); ++b) {
    const BufferInfo& info = program.buffers[b];
    if (info.shares >= 0) continue;
    switch (info.role) {
      case BufferInfo::Role::input: places_[b] = inputs[static_cast<std::size_t>(info.position)]; break;
      case BufferInfo::Role::output: places_[b] = outputs[static_cast<std::size_t>(info.position)]; break;
      case BufferInfo::Role::temporary:
        places_[b] = {arena.memory,
                      arena.offset + static_cast<std::size_t>(std::max<std::int64_t>(info.offset, 0))};
        break;
      case BufferInfo::Role::constant: break;
    }
  }
  for (std::size_t b = 0; b < places_.size(); ++b)
    if (program.buffers[b].shares >= 0)
      places_[b] = places_[static_cast<std::size_t>(program.memory_of(static_cast<BufferId>(b)))];
  for (std::size_t s = 0; s < program.steps.size(); ++s) run_step(s);
}

void Executor::run_step(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  const Compiled::Call& call = compiled_->calls[s];
  const timeline::Span span("step", call.label, call.details);
  if (kernels_[s]) {
    launch(s);
    if (timeline::is_on()) device_->finish();  // the span is of the work, not of its launch
    return;
  }
  if (call.source) {
    std::vector<Place> inputs, outputs;
    for (const BufferId b : step.inputs) inputs.push_back(place(b));
    for (const BufferId b : step.outputs) outputs.push_back(place(b));
    opencl::run(*device_, *call.source, inputs, outputs);
    return;
  }
  switch (step.kind) {
    case StepKind::copy:
      device_->copy(place(step.inputs[0]), place(step.outputs[0]), bytes(step.outputs[0]));
      return;
    case StepKind::scan: scan(s); return;
    case StepKind::loop: loop(s); return;
    case StepKind::branch: branch(s); return;
    default: evaluate(step); return;
  }
}

// A buffer is two arguments: its memory object and where in it the buffer begins.
void Executor::launch(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  const Compiled::Call& call = compiled_->calls[s];
  if (call.groups == 0) return;
  cl_uint next = 0;
  const auto pass = [&](BufferId b) {
    const Place at = place(b);
    const cl_ulong offset = at.offset;
    check(api().clSetKernelArg(kernels_[s].get(), next++, sizeof at.memory, &at.memory), "clSetKernelArg");
    check(api().clSetKernelArg(kernels_[s].get(), next++, sizeof offset, &offset), "clSetKernelArg");
  };
  for (const BufferId b : step.inputs) pass(b);
  for (const BufferId b : step.outputs) pass(b);
  if (call.scratch) pass(step.workspace);
  device_->launch(kernels_[s].get(), call.groups, call.threads);
}

void Executor::evaluate(const Step& step) {
  std::vector<Literal> arguments;
  for (const BufferId b : step.inputs) {
    Literal value(compiled_->program->buffers[static_cast<std::size_t>(b)].type);
    device_->read(place(b), value.mutable_bytes(), value.byte_size());
    arguments.push_back(std::move(value));
  }
  const std::vector<Literal> results = eval::evaluate(step.region.graph, arguments);
  for (std::size_t i = 0; i < results.size(); ++i)
    device_->write(place(step.outputs[i]), results[i].bytes(), results[i].byte_size());
}

// The operands in the node's order; carries are moved to where they stay.
void Executor::take_operands(const Step& step, Inner& inner) const {
  const ir::Graph& graph = step.region.graph;
  inner.inputs.clear();
  for (const ir::ValueId v : graph.node(step.region.anchor).operands) {
    const auto position = static_cast<std::size_t>(
        std::find(graph.inputs().begin(), graph.inputs().end(), v.node) - graph.inputs().begin());
    inner.inputs.push_back(place(step.inputs[position]));
  }
  for (std::size_t k = 0; k < static_cast<std::size_t>(step.carries); ++k) {
    device_->copy(inner.inputs[k], place(step.outputs[k]), bytes(step.outputs[k]));
    inner.inputs[k] = place(step.outputs[k]);
  }
}

void Executor::scan(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  Inner& inner = inner_[s];
  const lower::Program& body = *step.programs[0];
  take_operands(step, inner);
  inner.first = inner.inputs;
  const auto carries = static_cast<std::size_t>(step.carries);
  const auto xs = static_cast<std::size_t>(step.region.graph.node(step.region.anchor).as<ir::ScanAttrs>().xs);
  const auto slice = [&](Place whole, BufferId b, std::int64_t i) {
    const std::int64_t size = body.buffers[static_cast<std::size_t>(b)].bytes;
    return Place{whole.memory, whole.offset + static_cast<std::size_t>(i * size)};
  };
  inner.outputs.resize(body.outputs.size());
  for (std::int64_t n = 0; n < step.length; ++n) {
    const std::int64_t i = step.reverse ? step.length - 1 - n : n;
    for (std::size_t k = carries; k < carries + xs; ++k)
      inner.inputs[k] = slice(inner.first[k], body.inputs[k], i);
    for (std::size_t k = 0; k < body.outputs.size(); ++k)
      inner.outputs[k] = slice(place(step.outputs[k]), body.outputs[k], k < carries ? 0 : i);
    inner.executors[0].run(inner.inputs, inner.outputs, workspace(step));
  }
}

void Executor::loop(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  Inner& inner = inner_[s];
  take_operands(step, inner);
  inner.outputs.clear();
  for (std::size_t k = 0; k < static_cast<std::size_t>(step.carries); ++k)
    inner.outputs.push_back(place(step.outputs[k]));
  const Place answer{inner.answer.get(), 0};
  for (;;) {
    inner.executors[0].run(inner.inputs, {&answer, 1}, workspace(step));
    std::byte go{0};
    device_->read(answer, &go, 1);
    if (go == std::byte{0}) return;
    inner.executors[1].run(inner.inputs, inner.outputs, workspace(step));
  }
}

void Executor::branch(std::size_t s) {
  const Step& step = compiled_->program->steps[s];
  Inner& inner = inner_[s];
  take_operands(step, inner);
  std::byte first{0};
  device_->read(inner.inputs[0], &first, 1);
  inner.outputs.clear();
  for (const BufferId b : step.outputs) inner.outputs.push_back(place(b));
  inner.executors[first != std::byte{0} ? 0 : 1].run(std::span<const Place>(inner.inputs).subspan(1),
                                                     inner.outputs, workspace(step));
}

}  // namespace systole::opencl
