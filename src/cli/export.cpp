// systole export: a graph in another system's format.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "codegen/stablehlo.h"
#include "systole/ir/text.h"

namespace systole::cli {

namespace {

struct Options {
  std::string file, format = "stablehlo", out;
  std::vector<std::string> sizes;
};

std::set<std::string> symbols(const ir::Graph& graph) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    for (const Dim& d : graph.input_type(i).shape)
      if (!d.is_static()) names.emplace(d.symbol_name());
  return names;
}

// The graph with the sizes that were given; every symbol needs one.
ir::Graph bound(const ir::Graph& graph, const std::vector<std::string>& sizes) {
  std::set<std::string> missing = symbols(graph);
  SymbolValues values;
  for (const std::string& text : sizes) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string name = text.substr(0, equals);
    std::int64_t value = -1;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(std::min(text.data() + equals + 1, end), end, value);
    if (error != std::errc() || rest != end || value < 0)
      throw UsageError(fmt::format("--size {}: expected NAME=NUMBER", text));
    if (missing.erase(name) == 0)
      throw UsageError(
          fmt::format("--size {}: the graph has no symbolic size {}, or it was given before", text, name));
    values.set(name, value);
  }
  if (!missing.empty())
    throw UsageError(fmt::format("symbolic sizes without a value: {}; give each with --size NAME=NUMBER",
                                 fmt::join(missing, ", ")));
  return graph.is_static() ? graph : ir::bind_symbols(graph, values);
}

int write(const Options& options) {
  const ir::Graph graph = ir::parse(read_text(options.file), options.file == "-" ? "<stdin>" : options.file);
  const std::string text = codegen::stablehlo(bound(graph, options.sizes));
  if (options.out.empty())
    put(text);
  else
    write_file(options.out, std::as_bytes(std::span(text)));
  return 0;
}

}  // namespace

Action add_export(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->file, "a graph; - is standard input")->required()->type_name("");
  app.add_option("--format", options->format, "what to write: stablehlo")
      ->check(CLI::IsMember({"stablehlo"}))
      ->type_name("NAME");
  app.add_option("-o,--out", options->out, "the file to write instead of standard output")->type_name("FILE");
  app.add_option("--size", options->sizes, "the value of a symbolic size, e.g. N=32")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  app.footer("Examples:\n  systole export model.sir -o model.mlir\n  systole export model.sir --size N=32");
  return [options] { return write(*options); };
}

}  // namespace systole::cli
