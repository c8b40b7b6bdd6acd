// TOML files by toml++, where it was there to build with.

#ifdef SYSTOLE_HAVE_TOML
// Its assertions are of what a text may hold; without them it reports an error, as in a release build.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>
#endif

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal.h"
#include "cli/train/value.h"
#include "systole/base/error.h"

namespace systole::cli {

#ifdef SYSTOLE_HAVE_TOML

namespace {

// Arrays and inline tables in one another, each with so many parts of a key with dots: some 1,000 levels in
// all, which the parser, its destructors and table_of() go down by recursion.
constexpr int kMaxDepth = 32;

// Passes over a text in quotes, which begins `rest`; what is wrong with it is for the parser to say.
void skip_text(std::string_view& rest) {
  const char quote = rest[0];
  const std::string three(3, quote);
  const bool is_long = rest.starts_with(three);
  rest.remove_prefix(is_long ? 3 : 1);
  while (!rest.empty()) {
    if (is_long ? rest.starts_with(three) : rest[0] == quote) {
      rest.remove_prefix(is_long ? 3 : 1);
      // Up to two more quotes belong to a long text's end.
      for (int more = 0; is_long && more < 2 && !rest.empty() && rest[0] == quote; ++more)
        rest.remove_prefix(1);
      return;
    }
    if (!is_long && rest[0] == '\n') return;
    const bool escapes = rest[0] == '\\' && quote == '"';
    rest.remove_prefix(std::min<std::size_t>(escapes ? 2 : 1, rest.size()));
  }
}

// What toml++ must not see. It descends by recursion, and to no limit for a key with dots; and letters beyond
// ASCII and control characters outside quotes and comments, where TOML has none, reach code that it marks as
// unreachable.
void check_text(std::string_view text, const std::string& file) {
  int line = 1, depth = 0, dots = 0;
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // a byte order mark
  const auto refuse = [&](const char* what) {
    throw Error(ErrorKind::kLimit, fmt::format("{}:{}", file, line), what,
                fmt::format("at most {} levels", kMaxDepth), "more");
  };
  while (!rest.empty()) {
    const char c = rest[0];
    if (c == '"' || c == '\'') {
      const std::size_t before = rest.size();
      const std::string_view from = rest;
      skip_text(rest);
      const std::string_view passed = from.substr(0, before - rest.size());
      line += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
      continue;
    }
    if (c == '#') {
      rest.remove_prefix(std::min(rest.find('\n'), rest.size()));
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || byte == 0x7f || (byte < 0x20 && c != '\t' && c != '\n' && c != '\r'))
      throw Error(ErrorKind::kParse, fmt::format("{}:{}", file, line),
                  byte >= 0x80 ? "letters beyond ASCII stand outside quotes"
                               : "a control character stands outside quotes",
                  "a key or text in quotes, such as \"Größe\"");
    if (c == '.') {
      if (++dots >= kMaxDepth) refuse("a key has too many parts");
    } else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) {
      dots = 0;  // the key ends here
    }
    if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) refuse("arrays and tables stand too deep in one another");
    } else if (c == ']' || c == '}') {
      depth = std::max(depth - 1, 0);
    } else if (c == '\n') {
      ++line;
    }
    rest.remove_prefix(1);
  }
}

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

Table parse_toml(std::string_view text, const std::string& shown) {
  check_text(text, shown);
  try {
    return table_of(toml::parse(text, shown), shown);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw Error(ErrorKind::kParse, fmt::format("{}:{}:{}", shown, at.line, at.column),
                std::string(error.description()));
  }
}

Table read_toml(const std::string& file) {
  return parse_toml(read_text(file), file == "-" ? "<stdin>" : file);
}

bool reads_toml() { return true; }

#else

bool reads_toml() { return false; }

Table parse_toml(std::string_view, const std::string& file) { return read_toml(file); }

Table read_toml(const std::string& file) {
  throw Error(ErrorKind::kUnsupported, file, "this build reads no TOML files: toml++ was not there",
              "--model, --data and --set instead, or a build with libtomlplusplus-dev");
}

#endif

}  // namespace systole::cli
