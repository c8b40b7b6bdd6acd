// systole compile: what the compiler makes of a graph, before anything runs.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

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
  std::string file;
  std::vector<std::string> sizes;
  bool explain = false, regions = false, source = false;
};

// Without libraries: everything is generated.
class PlainTarget final : public lower::Target {
 public:
  std::string_view name() const override { return "plain"; }
};

void add_kernels(const lower::Program& program, const std::string& prefix,
                 std::vector<codegen::Kernel>& kernels) {
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const lower::Step& step = program.steps[s];
    const std::string name = fmt::format("{}{}", prefix, s);
    if (auto kernel = codegen::make_kernel(step, name, codegen::Dialect::c))
      kernels.push_back(*std::move(kernel));
    for (std::size_t k = 0; k < step.programs.size(); ++k)
      add_kernels(*step.programs[k], fmt::format("{}_{}_", name, k), kernels);
  }
}

int run(const Options& options) {
  ir::Graph graph = ir::parse(read_text(options.file), options.file == "-" ? "<stdin>" : options.file);
  graph =
      passes::prepared_for_kernels(bound(graph, options.sizes));
  const lower::Program program = lower::make_program(graph, PlainTarget());
  lower::verify(program);
  if (options.source) {
    std::vector<codegen::Kernel> kernels;
    add_kernels(program, "k", kernels);
    put(codegen::source_file(kernels, codegen::Dialect::c));
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
  app.add_option("FILE", options->file, "a graph; - is standard input")->required()->type_name("");
  app.add_flag("--explain", options->explain,
               "print steps, what they read and write, and memory (the default)");
  app.add_flag("--regions", options->regions, "print the work of each step as a graph too");
  app.add_flag("--source", options->source, "print the kernels in C instead");
  app.add_option("--size", options->sizes, "the value of a symbolic size, e.g. N=32")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  app.footer(
      "Examples:\n  systole compile step.sir --explain\n  systole compile step.sir --source > kernels.c");
  return [options] { return run(*options); };
}

}  // namespace systole::cli
