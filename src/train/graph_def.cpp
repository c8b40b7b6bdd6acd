// Which module an op belongs to is read off the graph: an op that takes a parameter "encoder.fc1.weight"
// stands in encoder/fc1, and one that takes none in the innermost module that holds both what it reads and
// what reads it. A node whose debug info has a scope stands there.

#include "train/graph_def.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "io/protobuf.h"
#include "systole/ir/attrs_variant.h"

namespace systole::training {

namespace {

using io::protobuf::Writer;
using Path = std::vector<std::string>;

Path split(std::string_view name, char at) {
  Path parts;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find(at), name.size());
    if (end > 0) parts.emplace_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return parts;
}

Path common(const Path& a, const Path& b) {
  const auto [end, ignored] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return {a.begin(), end};
}

using MaybePath = std::optional<Path>;

void join(MaybePath& into, const MaybePath& other) {
  if (other) into = into ? common(*into, *other) : *other;
}

// For every node the module it belongs to.
std::vector<Path> modules(const ir::Graph& graph) {
  const std::size_t count = static_cast<std::size_t>(graph.size());
  // Values made of parameters and constants alone carry their module along; `fixed` tells them from data.
  std::vector<MaybePath> place(count);
  std::vector<bool> fixed(count);
  for (std::size_t i = 0; i < count; ++i) {
    const ir::Node& node = graph.node(static_cast<std::int32_t>(i));
    if (node.debug && !node.debug->scope.empty()) place[i] = split(node.debug->scope, '/');
    if (node.op == ir::Op::input) {
      Path path = split(node.as<ir::InputAttrs>().name, '.');
      fixed[i] = path.size() > 1;  // "fc1.weight"; an argument has no dots
      if (fixed[i]) {
        path.pop_back();
        place[i] = path;
      }
      continue;
    }
    fixed[i] = true;
    MaybePath own;
    for (const ir::ValueId operand : node.operands) {
      const std::size_t from = static_cast<std::size_t>(operand.node);
      if (fixed[from])
        join(own, place[from]);
      else
        fixed[i] = false;
    }
    if (!place[i]) place[i] = own;
  }
  // The others lie between their neighbours; those before are known when a node is reached forwards, those
  // after it when it is reached backwards.
  std::vector<MaybePath> before(count), after(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (place[i]) before[i] = place[i];
    if (!place[i])
      for (const ir::ValueId operand : graph.node(static_cast<std::int32_t>(i)).operands)
        join(before[i], before[static_cast<std::size_t>(operand.node)]);
  }
  for (const ir::Output& output : graph.outputs())
    after[static_cast<std::size_t>(output.value.node)] = Path{};
  for (std::size_t i = count; i-- > 0;) {
    if (place[i]) after[i] = place[i];
    for (const ir::ValueId operand : graph.node(static_cast<std::int32_t>(i)).operands)
      join(after[static_cast<std::size_t>(operand.node)], after[i]);
  }
  std::vector<Path> found(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (place[i])
      found[i] = *place[i];
    else if (before[i] && after[i])
      found[i] = common(*before[i], *after[i]);
    else if (fixed[i] && after[i])  // a constant stands by what reads it
      found[i] = *after[i];
  }
  return found;
}

std::string op_name(const ir::Node& node) {
  if (const auto* composite = node.attrs.get_if<ir::CompositeAttrs>()) return composite->name;
  if (const auto* kernel = node.attrs.get_if<ir::KernelAttrs>()) return kernel->name;
  return std::string(ir::name(node.op));
}

// Attributes that a person can read; the others are left out.
std::optional<std::string> shown(bool value) { return value ? "true" : "false"; }
std::optional<std::string> shown(std::int64_t value) { return std::to_string(value); }
std::optional<std::string> shown(double value) { return fmt::format("{}", value); }
std::optional<std::string> shown(const std::string& value) {
  if (value.size() > 200) return std::nullopt;
  return value;
}
std::optional<std::string> shown(DType value) { return std::string(name(value)); }
std::optional<std::string> shown(const Shape& value) { return value.to_string(); }
std::optional<std::string> shown(const Ints& value) { return Shape(value).to_string(); }
std::optional<std::string> shown(const ir::AttrValue& value) {
  return std::visit([](const auto& v) { return shown(v); }, value);
}

using Attributes = std::map<std::string, std::string>;

Attributes attributes(const ir::Node& node) {
  Attributes found;
  std::visit(
      [&]<class A>(const A& attrs) {
        A::fields([&](std::string_view field, auto member) {
          using T = std::remove_cvref_t<decltype(attrs.*member)>;
          if constexpr (std::is_same_v<T, ir::AttrMap>) {
            for (const auto& [key, value] : attrs.*member)
              if (const auto text = shown(value)) found[key] = *text;
          } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t> ||
                               std::is_same_v<T, double> || std::is_same_v<T, std::string> ||
                               std::is_same_v<T, DType> || std::is_same_v<T, Shape> ||
                               std::is_same_v<T, Ints>) {
            if (const auto text = shown(attrs.*member)) found[std::string(field)] = *text;
          }
        });
      },
      ir::variant(node.attrs));
  return found;
}

std::int64_t tensorflow_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return 2;
    case DType::f32: return 1;
    case DType::f16: return 19;
    case DType::bf16: return 14;
    case DType::f8e4m3fn: return 25;
    case DType::f8e5m2: return 24;
    case DType::i64: return 9;
    case DType::i32: return 3;
    case DType::i16: return 5;
    case DType::i8: return 6;
    case DType::u64: return 23;
    case DType::u32: return 22;
    case DType::u16: return 17;
    case DType::u8: return 4;
    case DType::boolean: return 10;
  }
  return 0;
}

void add_attribute(Writer& node, std::string_view key, const Writer& value) {
  Writer entry;
  entry.text(1, key);
  entry.message(2, value);
  node.message(5, entry);
}

void add_types(Writer& node, const std::vector<Type>& types) {
  Writer shapes, list, dtype;
  for (const Type& type : types) {
    Writer shape;
    for (const Dim& dim : type.shape) {
      Writer size;
      size.integer(1, dim.is_static() ? dim.value() : -1);
      shape.message(2, size);
    }
    shapes.message(7, shape);
  }
  list.message(1, shapes);
  add_attribute(node, "_output_shapes", list);
  if (types.empty()) return;
  dtype.integer(6, tensorflow_type(types[0].dtype));
  add_attribute(node, "dtype", dtype);
}

// Paths that no other node has and that are no box of others.
class Names {
 public:
  explicit Names(const std::vector<Path>& boxes) {
    for (const Path& path : boxes)
      for (std::size_t n = 1; n <= path.size(); ++n)
        taken_.insert(
            fmt::format("{}", fmt::join(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(n), "/")));
  }
  std::string unique(const Path& box, std::string_view name) {
    std::string path = fmt::format("{}{}{}", fmt::join(box, "/"), box.empty() ? "" : "/", name);
    std::string free = path;
    for (int n = next_[path]; !taken_.insert(free).second; ++n) {
      free = fmt::format("{}_{}", path, n + 1);
      next_[path] = n + 1;
    }
    return free;
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> next_;
};

}  // namespace

std::string graph_def(const ir::Graph& graph) {
  const std::vector<Path> boxes = modules(graph);
  Names names(boxes);
  std::vector<std::string> name_of(static_cast<std::size_t>(graph.size()));
  const auto reference = [&](ir::ValueId value) {
    const std::string& name = name_of[static_cast<std::size_t>(value.node)];
    return value.index == 0 ? name : fmt::format("{}:{}", name, value.index);
  };
  Writer out;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(i);
    const Path& box = boxes[static_cast<std::size_t>(i)];
    std::string own = op_name(node), op = own;
    if (node.op == ir::Op::input) {
      const Path path = split(node.as<ir::InputAttrs>().name, '.');
      own = path.empty() ? "input" : path.back();
      op = path.size() > 1 ? "Variable" : "Placeholder";
    } else if (node.op == ir::Op::constant) {
      op = "Const";
    }
    std::string& name = name_of[static_cast<std::size_t>(i)];
    name = names.unique(box, own);
    Writer written;
    written.text(1, name);
    written.text(2, op);
    for (const ir::ValueId operand : node.operands) written.text(3, reference(operand));
    add_types(written, node.types);
    for (const auto& [key, text] : attributes(node)) {
      Writer value;
      value.text(2, text);
      add_attribute(written, key == "dtype" ? "dtype_" : key, value);
    }
    out.message(1, written);
  }
  for (const ir::Output& output : graph.outputs()) {
    Writer written;
    written.text(1, names.unique({}, output.name.empty() ? "output" : output.name));
    written.text(2, "Identity");
    written.text(3, reference(output.value));
    add_types(written, {graph.type(output.value)});
    out.message(1, written);
  }
  Writer versions;
  versions.integer(1, 22);  // what a GraphDef needs to be read as one of today
  out.message(4, versions);
  return out.bytes();
}

}  // namespace systole::training
