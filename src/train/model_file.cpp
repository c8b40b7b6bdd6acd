#include "train/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "io/json.h"
#include "systole/base/error.h"
#include "systole/ir/text.h"

namespace systole::training {

namespace {

std::string list(const std::vector<std::string>& names, const std::string& file) {
  std::string text = "[";
  for (const std::string& name : names) text += (text.size() > 1 ? "," : "") + io::json_quoted(name, file);
  return text + "]";
}

std::vector<std::string> read_list(io::JsonReader& in) {
  std::vector<std::string> names;
  in.begin_array();
  while (in.next_item()) names.emplace_back(in.string());
  return names;
}

}  // namespace

std::string written(const ModelDescription& model, const std::string& file) {
  std::string aliases;
  for (const auto& [name, target] : model.aliases)
    aliases +=
        (aliases.empty() ? "" : ",") + io::json_quoted(name, file) + ":" + io::json_quoted(target, file);
  return fmt::format(
      R"({{"version":{},"name":{},"inputs":{},"outputs":{},"reads":{},"assigns":{},"variables":{},"fixed":{},"aliases":{{{}}},"classes":{}}})",
      kModelVersion, io::json_quoted(model.name, file), model.inputs, model.outputs, list(model.reads, file),
      list(model.assigns, file), list(model.variables, file), list(model.fixed, file), aliases,
      list(model.classes, file));
}

ModelDescription parse_model(std::string text, const std::string& file) {
  const std::string where = fmt::format("{}: {}", file, kModelKey);
  io::JsonReader in(text, where);
  ModelDescription model;
  std::uint64_t version = 0;
  in.begin_object();
  for (std::string_view key; in.next_key(key);) {
    if (key == "version") {
      version = in.unsigned_number();
      if (version > kModelVersion)
        throw Error(ErrorKind::kUnsupported, file, "saved by a later version of Systole",
                    fmt::format("version {} at most", kModelVersion), std::to_string(version));
    } else if (key == "name") {
      model.name = in.string();
    } else if (key == "inputs") {
      model.inputs = in.unsigned_number();
    } else if (key == "outputs") {
      model.outputs = in.unsigned_number();
    } else if (key == "reads") {
      model.reads = read_list(in);
    } else if (key == "assigns") {
      model.assigns = read_list(in);
    } else if (key == "variables") {
      model.variables = read_list(in);
    } else if (key == "fixed") {
      model.fixed = read_list(in);
    } else if (key == "aliases") {
      in.begin_object();
      for (std::string_view name; in.next_key(name);) {
        std::string alias(name);
        model.aliases.emplace(std::move(alias), in.string());
      }
    } else if (key == "classes") {
      model.classes = read_list(in);
    } else {
      in.skip();
    }
  }
  in.end();
  if (version == 0) in.fail(0, "no version in the description of the model");
  return model;
}

void check(const ModelDescription& model, const ir::Graph& graph, const std::string& file) {
  const auto require = [&](bool holds, std::string message, std::string expected, std::string got) {
    if (!holds) throw Error(ErrorKind::kParse, file, std::move(message), std::move(expected), std::move(got));
  };
  require(graph.inputs().size() >= model.inputs && graph.inputs().size() - model.inputs == model.reads.size(),
          "the graph and its description differ", fmt::format("{} inputs", model.inputs + model.reads.size()),
          std::to_string(graph.inputs().size()));
  require(graph.outputs().size() >= model.outputs &&
              graph.outputs().size() - model.outputs == model.assigns.size(),
          "the graph and its description differ",
          fmt::format("{} outputs", model.outputs + model.assigns.size()),
          std::to_string(graph.outputs().size()));
  std::set<std::string> known;
  for (const std::string& name : model.variables)
    require(known.insert(name).second, fmt::format("variable \"{}\" stands twice", name), {}, {});
  const auto exists = [&](const std::string& name) {
    require(known.contains(name), fmt::format("no variable \"{}\", which the model uses", name), {}, {});
  };
  for (const auto* names : {&model.reads, &model.assigns, &model.fixed})
    for (const std::string& name : *names) exists(name);
  for (const auto& [name, target] : model.aliases) {
    require(!known.contains(name), fmt::format("\"{}\" is a variable and tied to another", name), {}, {});
    exists(target);
  }
}

std::set<std::string> kernels_in(const ir::Graph& graph) {
  std::set<std::string> names;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::kernel_call) names.insert(node.as<ir::KernelAttrs>().name);
    for (const ir::GraphRef& inner : node.graphs) names.merge(kernels_in(*inner));
  }
  return names;
}

void refuse_kernels(const ir::Graph& graph, const std::string& file) {
  const std::set<std::string> names = kernels_in(graph);
  if (names.empty()) return;
  throw Error(
      ErrorKind::kUnsupported, file,
      fmt::format("the graph calls kernels whose source is in the file ({}), and running them runs what "
                  "it says; --kernels (LoadOptions::kernels in a program) accepts that, for a file that "
                  "you trust",
                  fmt::join(names, ", ")));
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The text up to its next number, which is given as `number` and `digits`; −1 at the end. Digits inside a
// name, a fraction or a value's number are no number of their own.
std::string_view up_to_number(std::string_view& text, std::int64_t& number, std::string_view& digits) {
  const auto is_word = [](char c) {
    return is_digit(c) || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '.' || c == '%' ||
           c == '$';
  };
  number = -1;
  std::size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '"') {  // a name or text in quotes
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      ++i;
      continue;
    }
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const auto [next, error] = std::from_chars(text.data() + i, text.data() + end, number);
    if (is_digit(text[i]) && error == std::errc() && next == text.data() + end) {
      const std::string_view before = text.substr(0, i);
      digits = text.substr(i, end - i);
      text.remove_prefix(end);
      return before;
    }
    number = -1;
    i = end;
  }
  const std::string_view rest = text;
  text = {};
  return rest;
}

}  // namespace

ir::Graph generalized(const Sized& first, const Sized& second, const Sized& third) {
  const std::string text1 = ir::print(first.graph, {.debug_info = false});
  const std::string text2 = ir::print(second.graph, {.debug_info = false});
  const auto refuse = [](std::string message, std::string expected = {}, std::string got = {}) {
    throw Error(ErrorKind::kUnsupported, "save", std::move(message), std::move(expected), std::move(got));
  };
  std::string general;
  std::string_view a = text1, b = text2;
  while (!a.empty() || !b.empty()) {
    std::int64_t n1 = 0, n2 = 0;
    std::string_view digits, others;
    const std::string_view between = up_to_number(a, n1, digits);
    if (up_to_number(b, n2, others) != between)
      refuse("the model does different things for different batch sizes");
    general += between;
    if (n1 < 0 || n2 < 0) {
      if (n1 != n2) refuse("the model does different things for different batch sizes");
      continue;
    }
    const std::int64_t change = n2 - n1, scale = change / (second.batch - first.batch);
    const std::int64_t offset = n1 - scale * first.batch;
    if (scale * (second.batch - first.batch) != change)
      refuse("a number in the graph does not grow evenly with the batch size", {},
             fmt::format("{} for {}, {} for {}", n1, first.batch, n2, second.batch));
    general += scale == 0    ? std::string(digits)
               : offset == 0 ? fmt::format("{}*{}", scale, kBatchSymbol)
                             : fmt::format("{}*{}{:+}", scale, kBatchSymbol, offset);
  }
  try {
    ir::Graph graph = ir::parse(general, "save");
    for (const Sized* sized : {&first, &second, &third}) {
      SymbolValues values;
      values.set(kBatchSymbol, sized->batch);
      if (!ir::bind_symbols(graph, values).same_structure(sized->graph))
        refuse("the model does different things for different batch sizes", {},
               fmt::format("batch {}", sized->batch));
    }
    return graph;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnsupported) throw;
    refuse(fmt::format("no graph for every batch size: {}", error.what()));
    throw;  // not reached
  }
}

}  // namespace systole::training
