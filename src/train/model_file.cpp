#include "train/model_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
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

}  // namespace systole::training
