#include "backend/opencl/executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/opencl/source.h"
#include "backend/step_text.h"
#include "base/log.h"
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
  lower::KernelLimits limits() const override {
    return {.nodes = 400, .buffers = buffers_, .cuts_rows = true, .judges = true};
  }

 private:
  const int buffers_;
};

class Generator {
 public:
  explicit Generator(const Device& device) : device_(device) {}

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
      std::vector<codegen::Kernel> kernels;
      if (fits) kernels = codegen::make_kernels(step, name, codegen::Dialect::opencl);
      if (!kernels.empty()) {
        for (codegen::Kernel& kernel : kernels) {
          const auto groups = static_cast<std::size_t>(kernel.groups),
                     threads = static_cast<std::size_t>(kernel.threads);
          call.scratch = kernel.scratch;
          call.launches.push_back({kernels_.add(std::move(kernel)), groups, threads});
        }
      } else if (step.programs.empty() && step.kind != StepKind::copy) {
        call.source = source_call(device_, step);
        if (!call.source)
          log(LogLevel::info,
              fmt::format("opencl: {} runs on the host: {}", runtime::step_label(step, name),
                          fits ? "it has no kernel in OpenCL" : "too many buffers for this device"));
      }
      call.label = runtime::step_label(step, name);
      call.details = runtime::step_details(
          program, step, call.launches.empty() ? 0 : static_cast<std::int64_t>(call.launches[0].groups));
      compiled.sub_programs[s].resize(step.programs.size());
      for (std::size_t k = 0; k < step.programs.size(); ++k)
        generate(*step.programs[k], fmt::format("{}_{}_", name, k), compiled.sub_programs[s][k]);
    }
  }
  const std::vector<codegen::Kernel>& kernels() const { return kernels_.distinct(); }

 private:
  const Device& device_;
  codegen::KernelSet kernels_;
};

}  // namespace

std::shared_ptr<const Module> make_module(const Device& device, const ir::Graph& graph, bool optimize) {
  auto module = std::make_shared<Module>();
  module->device = &device;
  {
    const timeline::Span span("compile", "lower");
    const OpenClTarget target(device);
    module->program = lower::make_program(
        lower::prepared(runtime::with_bodies(graph, codegen::Dialect::opencl), target, optimize), target);
  }
  Generator generator(device);
  std::string source;
  {
    const timeline::Span span("compile", "codegen");
    generator.generate(module->program, "k", module->compiled);
    source = codegen::source_file(generator.kernels(), codegen::Dialect::opencl);
  }
  for (const codegen::Kernel& kernel : generator.kernels()) check_fits(device.limits(), kernel);
  if (!generator.kernels().empty()) {
    const timeline::Span span("compile", "driver");
    module->kernels = device.build(source);
  }
  return module;
}

Machine::Machine(const Module& module, const Compiled& compiled)
    : device_(module.device), compiled_(&compiled) {
  for (std::size_t s = 0; s < compiled.calls.size(); ++s) {
    kernels_.emplace_back();
    for (const Compiled::Launch& launch : compiled.calls[s].launches)
      kernels_.back().push_back(Device::kernel(module.kernels, launch.kernel));
    if (compiled.program->steps[s].kind == StepKind::loop && !answer_) answer_ = device_->allocate(1);
  }
}

bool Machine::is_true(Place place) const {
  std::byte value{0};
  device_->read(place, &value, 1);
  return value != std::byte{0};
}

void Machine::run(std::size_t s, const runtime::Walker<Machine>& walker) {
  const Step& step = compiled_->program->steps[s];
  const Compiled::Call& call = compiled_->calls[s];
  if (!kernels_[s].empty()) {
    launch(s, walker);
  } else if (call.source) {
    std::vector<Place> inputs, outputs;
    for (const BufferId b : step.inputs) inputs.push_back(walker.place(b));
    for (const BufferId b : step.outputs) outputs.push_back(walker.place(b));
    opencl::run(*device_, *call.source, inputs, outputs);
  } else {
    evaluate(step, walker);
  }
  device_->finish_if_timed();
}

// A buffer is two arguments: its memory object and where in it the buffer begins.
void Machine::launch(std::size_t s, const runtime::Walker<Machine>& walker) {
  const Step& step = compiled_->program->steps[s];
  const Compiled::Call& call = compiled_->calls[s];
  for (std::size_t k = 0; k < call.launches.size(); ++k) {
    const Compiled::Launch& launch = call.launches[k];
    if (launch.groups == 0) continue;
    const cl_kernel kernel = kernels_[s][k].get();
    cl_uint next = 0;
    const auto pass = [&](Place at) {
      const cl_ulong offset = at.offset;
      check(api().clSetKernelArg(kernel, next++, sizeof at.memory, &at.memory), "clSetKernelArg");
      check(api().clSetKernelArg(kernel, next++, sizeof offset, &offset), "clSetKernelArg");
    };
    for (const BufferId b : step.inputs) pass(walker.place(b));
    for (const BufferId b : step.outputs) pass(walker.place(b));
    if (call.scratch) pass(walker.workspace(step));
    device_->launch(kernel, launch.groups, launch.threads);
  }
}

void Machine::evaluate(const Step& step, const runtime::Walker<Machine>& walker) const {
  std::vector<Literal> arguments;
  for (const BufferId b : step.inputs) {
    Literal value(walker.info(b).type);
    device_->read(walker.place(b), value.mutable_bytes(), value.byte_size());
    arguments.push_back(std::move(value));
  }
  const std::vector<Literal> results = eval::evaluate(step.region.graph, arguments);
  for (std::size_t i = 0; i < results.size(); ++i)
    device_->write(walker.place(step.outputs[i]), results[i].bytes(), results[i].byte_size());
}

}  // namespace systole::opencl
