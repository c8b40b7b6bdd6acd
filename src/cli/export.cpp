// systole export: a graph in another system's format.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/sizes.h"
#include "cli/terminal.h"
#include "cli/train/graph_file.h"
#include "cli/trust.h"
#include "codegen/stablehlo.h"

namespace systole::cli {

namespace {

struct Options {
  std::string file, format = "stablehlo", out;
  std::vector<std::string> sizes;
  Trust trust;
};

int write(const Options& options) {
  const std::string text = codegen::stablehlo(bound(read_graph(options.file, options.trust), options.sizes));
  if (options.out.empty())
    put_data(text);
  else
    write_file(options.out, std::as_bytes(std::span(text)));
  return 0;
}

}  // namespace

Action add_export(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "a graph (- is standard input), a saved model or the folder of a run")
      ->required()
      ->type_name("");
  app.add_option("--format", options->format, "what to write: stablehlo")
      ->one_of({"stablehlo"})
      ->type_name("NAME");
  app.add_option("-o,--out", options->out, "the file to write instead of standard output")->type_name("FILE");
  app.add_option("--size", options->sizes, "the value of a symbolic size, e.g. N=32")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  add_links_option(app, options->trust);
  app.footer(
      "Examples:\n  systole export model.sir -o model.mlir\n  systole export model.sir --size N=32\n"
      "  systole export runs/mnist --size N=1 -o mnist.mlir\n\nThe graph of a saved model takes its inputs, "
      "then its weights.");
  return [options] { return write(*options); };
}

}  // namespace systole::cli
