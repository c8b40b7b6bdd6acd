#include "cli/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>

#include "cli/cli.h"

namespace systole::cli {

namespace {

std::set<std::string> symbols(const ir::Graph& graph) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    for (const Dim& d : graph.input_type(i).shape)
      for (const std::string_view symbol : d.symbols()) names.emplace(symbol);
  return names;
}

}  // namespace

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

}  // namespace systole::cli
