#include "backend/cuda/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "backend/cuda/code.h"
#include "backend/cuda/nvrtc.h"
#include "backend/cuda/preferences.h"
#include "backend/cuda/source.h"
#include "backend/cuda/target.h"
#include "backend/cuda/tuning.h"
#include "backend/source_call.h"
#include "backend/step_text.h"
#include "base/log.h"
#include "codegen/kernel.h"
#include "runtime/disk_cache.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

using lower::BufferId;
using lower::BufferInfo;
using lower::Step;
using lower::StepKind;

constexpr std::int64_t kMostSteps = 100'000;  // of a graph that is launched whole

class Generator {
 public:
  Generator(const Device& device, const Target& target) : device_(device), target_(target) {}

  // `carries`: of a scan, whose body this is.
  void generate(const lower::Program& program, const std::string& prefix, Compiled& compiled,
                std::optional<std::int32_t> carries = {}) {
    compiled.program = &program;
    compiled.schedule = make_schedule(program, carries);
    compiled.calls.resize(program.steps.size());
    compiled.sub_programs.resize(program.steps.size());
    compiled.constants.resize(program.buffers.size());
    for (std::size_t b = 0; b < program.buffers.size(); ++b)
      if (const BufferInfo& info = program.buffers[b];
          info.role == BufferInfo::Role::constant && info.shares < 0) {
        compiled.constants[b] = std::make_shared<Memory>(device_, info.bytes, info.type, device_.transfers());
        device_.upload(info.value->bytes(), *compiled.constants[b]);
      }
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      const std::string name = fmt::format("{}{}", prefix, s);
      Compiled::Call& call = compiled.calls[s];
      call.label = runtime::step_label(step, name);
      if (step.kind == StepKind::library) {
        call.library = target_.library_call(step);
        call.label = step.implementation + " " + call.label;
      } else if (add_kernels(program, step, name, call)) {
        call.launches = wanted_.back().ways[0].launches;
      } else if ((call.library = source_call(device_, step)) != nullptr) {
        // a kernel of the program's own
      } else if (step.programs.empty() && step.kind != StepKind::copy) {
        log(LogLevel::info, fmt::format("cuda: {} runs on the host: it has no kernel", call.label));
        needs_host_ = true;
      }
      if (step.kind == StepKind::loop || step.kind == StepKind::branch) needs_host_ = true;
      call.details = runtime::step_details(
          program, step, call.launches.empty() ? 0 : static_cast<std::int64_t>(call.launches[0].groups),
          target_.has_tf32());
      compiled.sub_programs[s].resize(step.programs.size());
      for (std::size_t k = 0; k < step.programs.size(); ++k)
        generate(*step.programs[k], fmt::format("{}_{}_", name, k), compiled.sub_programs[s][k],
                 step.kind == StepKind::scan ? std::optional(step.carries) : std::nullopt);
    }
  }

  const std::vector<codegen::Kernel>& kernels() const { return kernels_.distinct(); }
  const runtime::CacheKey& key() const { return key_; }  // of all kernels in their first form
  bool needs_host() const { return needs_host_; }
  // Modules by the names of their kernels.
  void link(const std::map<std::string, LoadedModule>& modules) {
    for (Wanted& wanted : wanted_)
      for (Way& way : wanted.ways)
        for (std::size_t i = 0; i < way.launches.size(); ++i)
          check(driver().cuModuleGetFunction(&way.launches[i].function, modules.at(way.kernels[i]),
                                             way.kernels[i].c_str()),
                "cuModuleGetFunction");
  }
  // Takes the fastest form of each.
  void choose() {
    const auto begin = std::chrono::steady_clock::now();
    constexpr std::chrono::seconds kMost{10};
    for (Wanted& wanted : wanted_) {
      std::size_t best = 0;
      if (wanted.ways.size() > 1 && std::chrono::steady_clock::now() - begin < kMost)
        best = static_cast<std::size_t>(
            best_of(device_, wanted.question, [&](Stream stream) { return trial(wanted, stream); }).choice);
      wanted.call->launches = wanted.ways[best].launches;
    }
  }

 private:
  struct Way {  // a form
    std::vector<Compiled::Launch> launches;
    std::vector<std::string> kernels;  // their names
  };
  struct Wanted {
    Compiled::Call* call = nullptr;
    std::vector<Way> ways;
    Question question;
    std::vector<std::int64_t> bytes;  // of the kernels' buffers
    std::vector<std::pair<std::size_t, std::size_t>>
        shared;  // of these: an output, and the input it overwrites
  };

  Way way_of(std::vector<codegen::Kernel> kernels) {
    Way way;
    for (codegen::Kernel& kernel : kernels) {
      way.launches.push_back(
          {nullptr, static_cast<unsigned>(kernel.groups), static_cast<unsigned>(kernel.threads)});
      way.kernels.push_back(kernels_.add(std::move(kernel)));
    }
    return way;
  }

  // Whether the step has kernels.
  bool add_kernels(const lower::Program& program, const Step& step, const std::string& name,
                   Compiled::Call& call) {
    std::vector<codegen::Kernel> first = codegen::make_kernels(
        step, name, codegen::Dialect::cuda,
        codegen::Form{.tensor_cores = target_.has_tensor_cores(), .tf32 = target_.has_tf32()});
    if (first.empty()) return false;
    for (const codegen::Kernel& kernel : first) key_.add(kernel.source);
    Wanted wanted{.call = &call};
    std::int64_t all = 0;
    for (const std::vector<BufferId>* list : {&step.inputs, &step.outputs})
      for (const BufferId b : *list) {
        wanted.bytes.push_back(program.buffers[static_cast<std::size_t>(b)].bytes);
        all += wanted.bytes.back();
      }
    for (std::size_t i = 0; i < step.inputs.size(); ++i)
      for (std::size_t o = 0; o < step.outputs.size(); ++o)
        if (program.memory_of(step.inputs[i]) == program.memory_of(step.outputs[o]))
          wanted.shared.emplace_back(step.inputs.size() + o, i);
    wanted.bytes.push_back(
        step.workspace >= 0 ? program.buffers[static_cast<std::size_t>(step.workspace)].bytes : 0);
    const std::vector<codegen::Form> forms = codegen::forms(step);
    if (all < kLargeBytes || forms.size() == 1) {
      wanted.ways.push_back(way_of(std::move(first)));
    } else {
      runtime::CacheKey text("forms");
      for (const codegen::Kernel& kernel : first)
        text.add(kernel.source.substr(kernel.source.find('(', kernel.source.find(kernel.name))));
      wanted.question = {.name = runtime::step_label(step, "kernel"),
                         .details = fmt::format("{} {}", text.file_name(), nvrtc_version()),
                         .choice = "form",
                         .is_measured = !target_.is_deterministic(),
                         .most_seconds = 0.03};
      add_forms(step, name, forms, std::move(first), wanted);
    }
    wanted_.push_back(std::move(wanted));
    return true;
  }

  // Kernels that differ in no more than their names.
  static bool are_alike(const std::vector<codegen::Kernel>& a, const std::vector<codegen::Kernel>& b) {
    const auto text = [](const codegen::Kernel& kernel) {
      std::string source = kernel.source;
      return source.erase(source.find(kernel.name + "("), kernel.name.size());
    };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](const codegen::Kernel& x, const codegen::Kernel& y) {
                        return x.groups == y.groups && x.threads == y.threads && text(x) == text(y);
                      });
  }

  // The step's kernels in every form that is one of its own, to be timed; in the best where that is known.
  void add_forms(const Step& step, const std::string& name, const std::vector<codegen::Form>& forms,
                 std::vector<codegen::Kernel> first, Wanted& wanted) {
    std::vector<std::vector<codegen::Kernel>> own;
    own.push_back(std::move(first));
    for (std::size_t i = 1; i < forms.size(); ++i) {
      std::vector<codegen::Kernel> kernels =
          codegen::make_kernels(step, fmt::format("{}_form{}", name, i), codegen::Dialect::cuda, forms[i]);
      const bool is_known =
          std::any_of(own.begin(), own.end(), [&](const auto& other) { return are_alike(kernels, other); });
      if (!is_known) own.push_back(std::move(kernels));
    }
    wanted.question.count = static_cast<int>(own.size());
    const std::optional<Answer> known = known_answer(device_, wanted.question);
    if (known || tuned_ >= kMostTuned) {
      wanted.ways.push_back(way_of(std::move(own[known ? static_cast<std::size_t>(known->choice) : 0])));
      return;
    }
    const std::size_t before = kernels_.distinct().size();
    for (std::vector<codegen::Kernel>& kernels : own) wanted.ways.push_back(way_of(std::move(kernels)));
    tuned_ += kernels_.distinct().size() > before + wanted.ways[0].kernels.size() ? 1 : 0;
  }

  Trial trial(const Wanted& wanted, Stream stream) const {
    auto scratch = std::make_shared<const Scratch>(device_, stream, wanted.bytes);
    return [&wanted, scratch](int choice, Stream on) {
      const Way& way = wanted.ways[static_cast<std::size_t>(choice)];
      std::vector<Address> addresses = scratch->addresses();
      for (const auto& [output, input] : wanted.shared) addresses[output] = addresses[input];
      std::vector<void*> parameters;
      for (Address& address : addresses) parameters.push_back(&address);
      for (const Compiled::Launch& launch : way.launches)
        check(driver().cuLaunchKernel(launch.function, launch.groups, 1, 1, launch.threads, 1, 1, 0, on,
                                      parameters.data(), nullptr),
              "cuLaunchKernel");
    };
  }

  static constexpr std::int64_t kLargeBytes = std::int64_t{8} << 20;  // less is not worth a choice
  static constexpr int kMostTuned = 48;                               // kernels

  const Device& device_;
  const Target& target_;
  codegen::KernelSet kernels_;
  runtime::CacheKey key_{"cuda_program"};
  std::vector<Wanted> wanted_;
  int tuned_ = 0;
  bool needs_host_ = false;
};

std::shared_ptr<ModuleObject> load(const Device& device, const std::string& code) {
  LoadedModule module = nullptr;
  check(driver().cuModuleLoadData(&module, code.data()), "cuModuleLoadData");
  return {module, [&device](LoadedModule m) {
            if (device.try_activate()) driver().cuModuleUnload(m);
          }};
}

std::int64_t steps_of(const lower::Program& program) {
  std::int64_t count = 0;
  for (const Step& step : program.steps) {
    ++count;
    for (const auto& sub : step.programs) count += std::max<std::int64_t>(1, step.length) * steps_of(*sub);
  }
  return count;
}

}  // namespace

std::shared_ptr<const Module> make_module(const Device& device, const ir::Graph& graph,
                                          const runtime::CompileOptions& options) {
  device.activate();
  const Target target(device, options.math, options.deterministic);
  auto module = std::make_shared<Module>();
  module->device = &device;
  {
    const timeline::Span span("compile", "lower");
    module->program = lower::make_program(
        lower::prepared(runtime::with_bodies(graph, codegen::Dialect::cuda), target, options.optimize),
        target);
  }
  Generator generator(device, target);
  {
    const timeline::Span span("compile", "codegen");
    generator.generate(module->program, "k", module->compiled);
  }
  {
    const timeline::Span span("compile", "nvrtc");
    std::map<std::string, LoadedModule> found;
    for (const Code& code : compiled(device, generator.key(), generator.kernels())) {
      module->kernels.push_back(load(device, code.bytes));
      for (const std::string& kernel : code.kernels) found[kernel] = module->kernels.back().get();
    }
    generator.link(found);
  }
  {
    const timeline::Span span("compile", "forms");
    generator.choose();
  }
  module->steps = steps_of(module->program);
  module->launches_early = device.can_launch_early() && preferred("early_launch").is_taken;
  module->is_one_launch = !generator.needs_host() && module->steps <= kMostSteps;
  return module;
}

}  // namespace systole::cuda
