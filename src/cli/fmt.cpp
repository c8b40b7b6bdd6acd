// systole fmt: a graph in the form the printer gives it, comments kept; also the one inside a saved model.

#include <fmt/format.h>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/train/graph_file.h"
#include "cli/trust.h"
#include "systole/ir/text.h"

namespace systole::cli {

namespace {

struct Options {
  std::vector<std::string> files;
  bool check = false, write = false;
  Trust trust;
};

int format(const Options& options) {
  if (options.check && options.write) throw UsageError("--check and --write exclude each other");
  bool differs = false;
  for (const std::string& file : options.files) {
    if (options.write && file == "-") throw UsageError("--write needs a file, not standard input");
    if (names_saved_model(file)) {
      if (options.check || options.write)
        throw UsageError(
            fmt::format("--check and --write are for graphs as text, and {} is a saved model", file));
      put_data(ir::print(read_graph(file, options.trust)));
      continue;
    }
    const std::string old_text = read_text(file);
    const std::string text = ir::print(ir::parse(old_text, file == "-" ? "<stdin>" : file));
    if (!options.check && !options.write) {
      put_data(text);
    } else if (text != old_text) {
      differs = true;
      if (options.write) write_file(file, std::as_bytes(std::span(text)));
      put(fmt::format("{}: {}\n", file, options.write ? "formatted" : "differs from its canonical form"));
    }
  }
  return options.check && differs ? 1 : 0;
}

}  // namespace

Action add_fmt(App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files, "graphs (- is standard input), saved models or folders of runs")
      ->required()
      ->type_name("");
  app.add_flag("--check", options->check, "only name the files that differ; exit 1 if any does");
  app.add_flag("--write", options->write, "replace the files instead of printing");
  add_links_option(app, options->trust);
  app.footer(
      "Examples:\n  systole fmt model.sir\n  systole fmt runs/mnist > mnist.sir\n  systole fmt --check "
      "*.sir");
  return [options] { return format(*options); };
}

}  // namespace systole::cli
