// systole compile: what the compiler makes of a graph, before anything runs.

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "backend/cpu/target.h"
#include "base/nearest.h"
#include "cli/bench/prepared.h"
#include "cli/bench/workloads.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/sizes.h"
#include "cli/terminal.h"
#include "cli/train/graph_file.h"
#include "cli/trust.h"
#include "codegen/kernel.h"
#include "compile/program.h"
#include "systole/compile/passes.h"

namespace systole::cli {

namespace {

struct Options {
  std::string file, target = "cpu";
  std::vector<std::string> sizes;
  bool explain = false, regions = false, source = false;
  Trust trust;
};

struct TargetChoice {
  std::string_view name;
  codegen::Dialect dialect;
};
constexpr TargetChoice kTargets[] = {
    {"cpu", codegen::Dialect::c}, {"opencl", codegen::Dialect::opencl}, {"cuda", codegen::Dialect::cuda}};

// Of devices that are not asked: kernels with as many arguments as every one of them takes. OpenCL 1.2
// promises 1024 bytes, 16 of them a buffer; CUDA has 4096, 8 a buffer. Some are left for a workspace.
class AnyGpu final : public lower::Target {
 public:
  explicit AnyGpu(const TargetChoice& choice) : choice_(choice) {}
  std::string_view name() const override { return choice_.name; }
  lower::KernelLimits limits() const override {
    const bool is_cuda = choice_.dialect == codegen::Dialect::cuda;
    const lower::KernelLimits others;
    return {.nodes = 400,
            .buffers = is_cuda ? 508 : 60,
            .inlined_cost_of_many = is_cuda ? 4 : others.inlined_cost_of_many,
            .repeated_cost = is_cuda ? 40 : others.repeated_cost,
            .cuts_rows = true,
            .judges = choice_.dialect != codegen::Dialect::c};
  }

 private:
  const TargetChoice choice_;
};

// What a name that is no file lacks to be a workload; empty when it looks like neither.
std::string misnamed_workload(const std::string& file) {
  std::error_code error;
  if (file == "-" || std::filesystem::exists(file, error)) return {};
  const std::string_view name = std::string_view(file).substr(0, file.find('@'));
  std::string workloads, batches;
  std::vector<std::string_view> names;
  const std::vector<bench::Workload> all = bench::workloads(false);
  for (const bench::Workload& work : all) {
    names.push_back(work.name);
    workloads += fmt::format("{}{}@{}", workloads.empty() ? "" : ", ", work.name, work.batch);
    if (work.name == name) batches += fmt::format("{}{}", batches.empty() ? "" : ", ", work.batch);
  }
  if (!batches.empty()) return fmt::format("there is no {}; the batches of {} are {}", file, name, batches);
  const std::string_view meant = nearest(name, names);
  if (meant.empty() || file.find_first_of("./") != std::string::npos) return {};
  return fmt::format("there is no file {}; did you mean {}? The workloads are {}", file, meant, workloads);
}

// A file, or a workload of `systole bench`: T1, T6@4.
ir::Graph graph_of(const Options& options) {
  const std::size_t at = options.file.find('@');
  for (bench::Workload& work : bench::workloads(false)) {
    if (options.file.substr(0, at) != work.name) continue;
    if (at != std::string::npos && options.file.substr(at + 1) != std::to_string(work.batch)) continue;
    return bench::graph_of(work);
  }
  if (const std::string message = misnamed_workload(options.file); !message.empty())
    throw UsageError(message);
  return bound(read_graph(options.file, options.trust), options.sizes);
}

void add_kernels(const lower::Program& program, const std::string& prefix, codegen::Dialect dialect,
                 std::vector<codegen::Kernel>& kernels) {
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const lower::Step& step = program.steps[s];
    const std::string name = fmt::format("{}{}", prefix, s);
    for (codegen::Kernel& kernel : codegen::make_kernels(step, name, dialect))
      kernels.push_back(std::move(kernel));
    for (std::size_t k = 0; k < step.programs.size(); ++k)
      add_kernels(*step.programs[k], fmt::format("{}_{}_", name, k), dialect, kernels);
  }
}

// Steps that no kernel does are evaluated on the host.
std::string told_evaluated(const lower::Program& program, codegen::Dialect dialect) {
  std::string text;
  for (const lower::Step& step : program.steps) {
    for (const auto& inner : step.programs) text += told_evaluated(*inner, dialect);
    const bool wants_kernel = step.kind == lower::StepKind::kernel || step.kind == lower::StepKind::special;
    if (wants_kernel && !codegen::make_kernel(step, "k", dialect))
      text += fmt::format("evaluated on the host, without a kernel: {}\n",
                          ir::name(step.region.graph.node(step.region.anchor).op));
  }
  return text;
}

std::string as_comments(std::string_view text) {
  std::string comments;
  for (; !text.empty(); text.remove_prefix(std::min(text.find('\n') + 1, text.size())))
    comments += fmt::format("// {}\n", text.substr(0, text.find('\n')));
  return comments;
}

int run(const Options& options) {
  const TargetChoice* chosen = nullptr;
  for (const TargetChoice& choice : kTargets)
    if (choice.name == options.target) chosen = &choice;
  if (chosen == nullptr)
    throw UsageError(fmt::format("there is no target {}; they are cpu, opencl and cuda", options.target));
  const AnyGpu gpu(*chosen);
  const lower::Target& target = chosen->dialect == codegen::Dialect::c ? cpu::target() : gpu;
  const lower::Program program = lower::make_program(lower::prepared(graph_of(options), target), target);
  lower::verify(program);
  const std::string explanation =
      lower::to_string(program, options.regions) + told_evaluated(program, chosen->dialect);
  if (options.source) {
    if (options.explain || options.regions) put_data(as_comments(explanation) + "\n");
    std::vector<codegen::Kernel> kernels;
    add_kernels(program, "k", chosen->dialect, kernels);
    put_data(codegen::source_file(kernels, chosen->dialect));
    return 0;
  }
  put(explanation);
  return 0;
}

}  // namespace

Action add_compile(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file,
                 "a graph (- is standard input), a saved model, the folder of a run, or a\nworkload of "
                 "systole bench: T1, I3, K5")
      ->required()
      ->type_name("");
  app.add_option("--target", options->target, "cpu (the default), opencl or cuda")->type_name("NAME");
  app.add_flag(
      "--explain", options->explain,
      "print steps, what they read and write, and memory: the default, and as comments before --source");
  app.add_flag("--regions", options->regions, "print the work of each step as a graph too");
  app.add_flag("--source", options->source, "print the kernels, in the target's language");
  app.add_option("--size", options->sizes, "the value of a symbolic size, e.g. N=32")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  add_links_option(app, options->trust);
  app.footer(
      "Examples:\n  systole compile T1 --explain\n  systole compile runs/mnist --size N=64\n  systole "
      "compile step.sir --target cuda --source > "
      "kernels.cu");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
