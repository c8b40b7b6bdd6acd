// Graphs to text. Sub-graphs are printed first, each once, under a name that no other graph of the file has.

#include <fmt/format.h>
#include <map>
#include <set>
#include <unordered_map>

#include "ir/text_literal.h"
#include "systole/ir/attrs_variant.h"
#include "systole/ir/text.h"

namespace systole::ir {

namespace {

constexpr std::size_t kLineWidth = 110;

bool is_plain_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  for (char c : name)
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '.' && c != '$') return false;
  return true;
}

std::string name_text(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : quoted_text(name);
}

template <class List, class F>
std::string joined(const List& list, F&& text, std::string_view separator = ", ") {
  std::string out;
  bool first = true;
  for (const auto& item : list) {
    if (!first) out += separator;
    first = false;
    out += text(item);
  }
  return out;
}

struct FieldText {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return number_text(v); }
  std::string operator()(const std::string& v) const { return quoted_text(v); }
  std::string operator()(DType v) const { return std::string(name(v)); }
  std::string operator()(const std::optional<DType>& v) const { return std::string(name(v.value())); }
  std::string operator()(Combine v) const { return std::string(kCombineNames[static_cast<int>(v)]); }
  std::string operator()(const Dim& v) const { return v.to_string(); }
  std::string operator()(const Ints& v) const { return "[" + joined(v, *this, ",") + "]"; }
  std::string operator()(const Shape& v) const { return v.to_string(); }
  std::string operator()(const Literal& v) const { return print(v); }
  std::string operator()(const MeshAxisNames& v) const { return "[" + joined(v, name_text) + "]"; }
  std::string operator()(const std::vector<Type>& v) const {
    return "[" + joined(v, [](const Type& t) { return t.to_string(); }) + "]";
  }
};

std::string composite_attrs_text(const AttrMap& attrs) {
  return joined(attrs, [](const auto& entry) {
    return name_text(entry.first) + "=" + std::visit(FieldText{}, entry.second);
  });
}

// A field at its default is left out, but for dtypes, shapes and literals: these say what the op makes.
template <class T>
constexpr bool kAlwaysPrinted = std::is_same_v<T, Literal> || std::is_same_v<T, Shape> ||
                                std::is_same_v<T, Dim> || std::is_same_v<T, DType>;

std::string attrs_text(const Attrs& attrs) {
  std::string text;
  std::visit(
      [&]<class A>(const A& a) {
        if constexpr (std::is_same_v<A, CompositeAttrs>) {
          text = composite_attrs_text(a.attrs);
        } else {
          static const A defaults{};
          A::fields([&](std::string_view key, auto member) {
            using T = std::remove_cvref_t<decltype(a.*member)>;
            if constexpr (std::is_same_v<A, InputAttrs> && std::is_same_v<T, std::string>)
              return;  // stands before the type
            if constexpr (!kAlwaysPrinted<T>)
              if (a.*member == defaults.*member) return;
            text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, FieldText{}(a.*member));
          });
        }
      },
      variant(attrs));
  return text.empty() ? text : " {" + text + "}";
}

std::string comment_text(std::string_view comment, std::string_view indent) {
  std::string out;
  while (!comment.empty()) {
    const std::size_t end = std::min(comment.find('\n'), comment.size());
    const std::string_view line = comment.substr(0, end);
    out += fmt::format("{}//{}{}\n", indent, line.empty() || line == " " ? "" : " ", line == " " ? "" : line);
    comment.remove_prefix(std::min(end + 1, comment.size()));
  }
  return out;
}

class FilePrinter {
 public:
  explicit FilePrinter(const PrintOptions& options) : options_(options) {}

  std::string print_file(const Graph& graph) {
    std::string text = options_.header ? fmt::format("systole.ir {}\n\n", needed_version(graph)) : "";
    used_graph_names_.insert(graph.name());  // the entry keeps its name
    add_subgraphs(graph);
    std::string main = graph_text(graph, graph.name());
    return text + text_ + main;
  }

 private:
  void add_subgraphs(const Graph& graph) {
    for (const Node& node : graph.nodes())
      for (const GraphRef& sub : node.graphs) {
        if (names_.contains(sub.get())) continue;
        add_subgraphs(*sub);
        // Equal bodies under equal names are one graph: a model repeats its layers.
        const std::string body = graph_text(*sub, sub->name());
        auto [it, fresh] = by_text_.try_emplace(body);
        if (fresh) {
          std::string name = sub->name();
          for (int i = 2; !used_graph_names_.insert(name).second; ++i)
            name = fmt::format("{}_{}", sub->name(), i);
          text_ += name == sub->name() ? body : graph_text(*sub, name);
          text_ += "\n";
          it->second = name;
        }
        names_[sub.get()] = it->second;
      }
  }

  // %name of every value of one graph: inputs and named results first, numbers for the rest.
  class ValueNames {
   public:
    explicit ValueNames(const Graph& graph) : names_(static_cast<std::size_t>(graph.size())) {
      std::set<std::string_view> used;
      for (std::size_t i = 0; i < graph.inputs().size(); ++i) used.insert(graph.input_name(i));
      for (std::int32_t i = 0; i < graph.size(); ++i) {
        const Node& node = graph.node(i);
        for (std::size_t r = 0; r < node.types.size(); ++r) {
          std::string_view name;
          if (node.op == Op::input)
            name = node.as<InputAttrs>().name;
          else if (node.debug && r < node.debug->names.size() && used.insert(node.debug->names[r]).second)
            name = node.debug->names[r];
          names_[static_cast<std::size_t>(i)].push_back(name.empty() ? std::string()
                                                                     : "%" + value_name(name));
        }
      }
      int next = 0;
      for (auto& results : names_)
        for (std::string& name : results)
          if (name.empty()) name = fmt::format("%{}", next++);
    }
    const std::string& operator()(ValueId v) const {
      return names_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
    }

   private:
    // After '%' a digit may come first, but digits alone mean a value without a name.
    static std::string value_name(std::string_view name) {
      const bool digits_only = name.find_first_not_of("0123456789") == name.npos;
      return !digits_only && is_plain_name(fmt::format("_{}", name)) ? std::string(name) : quoted_text(name);
    }
    std::vector<std::vector<std::string>> names_;
  };

  std::string suffix_text(const Node& node) const {
    std::string text;
    for (const auto& sharding : node.shardings)
      text += !sharding
                  ? " sharding(none)"
                  : " sharding(" +
                        joined(sharding->dims, [](const MeshAxisNames& d) { return FieldText{}(d); }) + ")";
    if (options_.debug_info && node.debug) {
      const DebugInfo& d = *node.debug;
      std::string parts;
      if (!d.scope.empty()) parts = "scope=" + quoted_text(d.scope);
      if (!d.file.empty() || d.line != 0)
        parts += fmt::format("{}file={}, line={}", parts.empty() ? "" : ", ", quoted_text(d.file), d.line);
      if (!parts.empty()) text += " loc(" + parts + ")";
    }
    return text;
  }

  std::string node_text(const Node& node, std::int32_t index, const ValueNames& names) const {
    std::string text;
    for (std::size_t r = 0; r < node.types.size(); ++r)
      text += (r ? ", " : "") + names({index, static_cast<std::int32_t>(r)});
    if (!text.empty()) text += " = ";
    text += node.op == Op::composite ? "composite " + name_text(node.as<CompositeAttrs>().name)
                                     : std::string(name(node.op));
    text += "(" + joined(node.operands, names) + ")" + attrs_text(node.attrs);
    for (const GraphRef& sub : node.graphs) text += " @" + name_text(names_.at(sub.get()));
    if (!node.types.empty()) text += " : " + joined(node.types, [](const Type& t) { return t.to_string(); });
    return text + suffix_text(node);
  }

  std::string graph_text(const Graph& graph, const std::string& name) const {
    const ValueNames names(graph);
    std::string text = options_.debug_info ? comment_text(graph.comments().before, "") : "";
    const std::string head = "graph @" + name_text(name) + "(";
    std::vector<std::string> inputs;
    bool commented = false;
    std::size_t width = head.size();
    for (std::int32_t i : graph.inputs()) {
      const Node& node = graph.node(i);
      std::string input;
      if (options_.debug_info && node.debug && !node.debug->comment.empty()) {
        input = comment_text(node.debug->comment, "    ");
        commented = true;
      }
      inputs.push_back(input + (commented && !input.empty() ? "    " : "") + names({i, 0}) + ": " +
                       node.types[0].to_string() + attrs_text(node.attrs) + suffix_text(node));
      width += inputs.back().size() + 2;
    }
    if (!commented && width <= kLineWidth) {
      text += head + joined(inputs, [](const std::string& s) { return s; }) + ")";
    } else {
      text += head + "\n" +
              joined(
                  inputs, [](const std::string& s) { return s.find("//") == 4 ? s : "    " + s; }, ",\n") +
              ")";
    }
    if (graph.mesh())
      text += " mesh(" +
              joined(graph.mesh()->axes,
                     [](const Mesh::Axis& a) { return fmt::format("{}={}", name_text(a.name), a.size); }) +
              ")";
    text += " {\n";
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      const Node& node = graph.node(i);
      if (node.op == Op::input) continue;
      if (options_.debug_info && node.debug) text += comment_text(node.debug->comment, "  ");
      text += "  " + node_text(node, i, names) + "\n";
    }
    if (options_.debug_info) text += comment_text(graph.comments().before_return, "  ");
    text += "  return" + std::string(graph.outputs().empty() ? "" : " ") +
            joined(graph.outputs(), [&](const Output& o) {
              return (o.name.empty() ? "" : name_text(o.name) + ": ") + names(o.value);
            });
    text += "\n}\n";
    return options_.debug_info ? text + comment_text(graph.comments().after, "") : text;
  }

  PrintOptions options_;
  std::string text_;
  std::map<std::string, std::string> by_text_;  // printed body → its name in the file
  std::unordered_map<const Graph*, std::string> names_;
  std::set<std::string> used_graph_names_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  return FilePrinter(options).print_file(graph);
}

}  // namespace systole::ir
