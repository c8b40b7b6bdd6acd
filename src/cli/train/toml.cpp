// TOML files by toml++, where it was there to build with.

#ifdef SYSTOLE_HAVE_TOML
#include <toml++/toml.h>
#endif

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/terminal.h"
#include "cli/train/value.h"
#include "systole/base/error.h"

namespace systole::cli {

#ifdef SYSTOLE_HAVE_TOML

namespace {

Value value_of(const toml::node& node, const std::string& file);

Table table_of(const toml::table& given, const std::string& file) {
  std::vector<std::pair<toml::source_position, Entry>> entries;
  for (const auto& [key, node] : given)
    entries.emplace_back(key.source().begin, Entry{std::string(key.str()), value_of(node, file)});
  // toml++ sorts keys by name.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Table table;
  for (auto& [position, entry] : entries) {
    entry.value.where = fmt::format("{}:{}", file, position.line);
    table.push_back(std::move(entry));
  }
  return table;
}

Value value_of(const toml::node& node, const std::string& file) {
  const std::string where = fmt::format("{}:{}", file, node.source().begin.line);
  if (const auto* flag = node.as_boolean()) return {flag->get(), where};
  if (const auto* whole = node.as_integer()) return {whole->get(), where};
  if (const auto* number = node.as_floating_point()) return {number->get(), where};
  if (const auto* text = node.as_string()) return {text->get(), where};
  if (const auto* array = node.as_array()) {
    Value::List list;
    for (const toml::node& part : *array) list.push_back(value_of(part, file));
    return {std::move(list), where};
  }
  if (const auto* inner = node.as_table()) return {table_of(*inner, file), where};
  throw Error(ErrorKind::kParse, where, "dates and times mean nothing here");
}

}  // namespace

Table read_toml(const std::string& file) {
  const std::string text = read_text(file), shown = file == "-" ? "<stdin>" : file;
  try {
    return table_of(toml::parse(text, shown), shown);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw Error(ErrorKind::kParse, fmt::format("{}:{}:{}", shown, at.line, at.column),
                std::string(error.description()));
  }
}

bool reads_toml() { return true; }

#else

bool reads_toml() { return false; }

Table read_toml(const std::string& file) {
  throw Error(ErrorKind::kUnsupported, file, "this build reads no TOML files: toml++ was not there",
              "--model, --data and --set instead, or a build with libtomlplusplus-dev");
}

#endif

}  // namespace systole::cli
