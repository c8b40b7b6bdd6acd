// systole compile: what the compiler makes of a graph, before anything runs.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/target.h"
#include "cli/bench/training.h"
#include "cli/bench/workloads.h"
#include "cli/cli.h"
#include "cli/sizes.h"
#include "cli/terminal.h"
#include "codegen/kernel.h"
#include "compile/program.h"
#include "systole/compile/passes.h"
#include "systole/ir/text.h"

namespace systole::cli {

namespace {

struct Options {
  std::string file, target = "cpu";
  std::vector<std::string> sizes;
  bool explain = false, regions = false, source = false;
};

struct TargetChoice {
  std::string_view name;
  codegen::Dialect dialect;
};
constexpr TargetChoice kTargets[] = {
    {"cpu", codegen::Dialect::c}, {"opencl", codegen::Dialect::opencl}, {"cuda", codegen::Dialect::cuda}};

// Of devices that are not asked: kernels with as many arguments as every one of them takes.
class AnyGpu final : public lower::Target {
 public:
  explicit AnyGpu(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  lower::KernelLimits limits() const override { return {.nodes = 400, .buffers = 60}; }

 private:
  const std::string_view name_;
};

// A file, or a training step of `systole bench`: T1, T6@4.
ir::Graph graph_of(const Options& options) {
  const std::size_t at = options.file.find('@');
  for (bench::Workload& work : bench::workloads(false)) {
    if (work.kind != bench::Workload::Kind::train || options.file.substr(0, at) != work.name) continue;
    if (at != std::string::npos && options.file.substr(at + 1) != std::to_string(work.batch)) continue;
    return bench::step_graph(work);
  }
  const ir::Graph graph = ir::parse(read_text(options.file), options.file == "-" ? "<stdin>" : options.file);
  return bound(graph, options.sizes);
}

void add_kernels(const lower::Program& program, const std::string& prefix, codegen::Dialect dialect,
                 std::vector<codegen::Kernel>& kernels) {
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const lower::Step& step = program.steps[s];
    const std::string name = fmt::format("{}{}", prefix, s);
    if (auto kernel = codegen::make_kernel(step, name, dialect)) kernels.push_back(*std::move(kernel));
    for (std::size_t k = 0; k < step.programs.size(); ++k)
      add_kernels(*step.programs[k], fmt::format("{}_{}_", name, k), dialect, kernels);
  }
}

int run(const Options& options) {
  const TargetChoice* chosen = nullptr;
  for (const TargetChoice& choice : kTargets)
    if (choice.name == options.target) chosen = &choice;
  if (chosen == nullptr)
    throw UsageError(fmt::format("there is no target {}; they are cpu, opencl and cuda", options.target));
  const ir::Graph graph = passes::prepared_for_kernels(graph_of(options));
  const AnyGpu gpu(chosen->name);
  const lower::Program program =
      lower::make_program(graph, chosen->dialect == codegen::Dialect::c ? cpu::target() : gpu);
  lower::verify(program);
  if (options.source) {
    std::vector<codegen::Kernel> kernels;
    add_kernels(program, "k", chosen->dialect, kernels);
    put(codegen::source_file(kernels, chosen->dialect));
    return 0;
  }
  put(lower::to_string(program, options.regions));
  for (const lower::Refusal& refusal : program.refusals)
    put(fmt::format("declined: {}: {}\n", ir::name(graph.node(refusal.node).op), refusal.reason));
  return 0;
}

}  // namespace

Action add_compile(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file,
                 "a graph, - for standard input, or a training step of systole bench: T1, T6")
      ->required()
      ->type_name("");
  app.add_option("--target", options->target, "cpu (the default), opencl or cuda")->type_name("NAME");
  app.add_flag("--explain", options->explain,
               "print steps, what they read and write, and memory (the default)");
  app.add_flag("--regions", options->regions, "print the work of each step as a graph too");
  app.add_flag("--source", options->source, "print the kernels instead, in the target's language");
  app.add_option("--size", options->sizes, "the value of a symbolic size, e.g. N=32")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  app.footer(
      "Examples:\n  systole compile T1 --explain\n  systole compile step.sir --target cuda --source > "
      "kernels.cu");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
