#include "systole/ir/graph.h"

#include <fmt/format.h>
#include <algorithm>

#include "systole/ir/attrs_variant.h"

namespace systole::ir {

namespace {
constexpr std::size_t kEarlyNameChecks = 256;

// In text a shape of numbers is a list of integers, so it is one here too.
void normalize(AttrMap& attrs) {
  for (auto& [key, value] : attrs)
    if (const auto* shape = std::get_if<Shape>(&value); shape != nullptr && shape->is_static())
      value = shape->dims();
}
}  // namespace

std::int64_t Mesh::size() const {
  std::int64_t n = 1;
  for (const Axis& a : axes) n *= a.size;
  return n;
}

const Mesh::Axis& Mesh::axis(std::string_view name) const {
  for (const Axis& a : axes)
    if (a.name == name) return a;
  throw Error(ErrorKind::kNotFound, "mesh", fmt::format("no axis named \"{}\"", name));
}

Graph::Graph(std::string name) : name_(std::move(name)) {}
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

std::int32_t Graph::append(Node node) {
  if (nodes_.size() >= 0x7fffffff) throw Error(ErrorKind::kLimit, "graph " + name_, "too many nodes");
  int depth = depth_;
  std::int64_t expanded = expanded_size_ + 1;
  for (const GraphRef& g : node.graphs) {
    depth = std::max(depth, g->depth() + 1);
    expanded += g->expanded_size();
  }
  if (depth > kMaxGraphDepth)
    throw Error(ErrorKind::kLimit, std::string(ir::name(node.op)), "sub-graphs nested too deep",
                fmt::format("at most {} levels", kMaxGraphDepth));
  if (expanded > kMaxExpandedSize)
    throw Error(ErrorKind::kLimit, std::string(ir::name(node.op)),
                "too many nodes with sub-graphs counted at each use",
                fmt::format("at most {}", kMaxExpandedSize));
  nodes_.push_back(std::move(node));
  depth_ = depth;
  expanded_size_ = expanded;
  return size() - 1;
}

void Graph::check(const Value& value, std::string_view where) const {
  if (!value.valid() || &value.graph() != this)
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "a value of another graph");
  const ValueId id = value.id();
  if (id.node < 0 || id.node >= size() || id.index < 0 ||
      static_cast<std::size_t>(id.index) >= node(id.node).types.size())
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "the graph has no such value");
}

Value Graph::input(std::string name, Type type, std::int64_t alias) {
  check_type(type, "input " + name);
  // A courtesy while signatures are short; verify() checks all of them.
  for (std::size_t i = 0; i < std::min(inputs_.size(), kEarlyNameChecks); ++i)
    if (!name.empty() && input_name(i) == name)
      throw Error(ErrorKind::kInvalidArgument, "graph " + name_,
                  fmt::format("two inputs are named \"{}\"", name));
  Node node;
  node.op = Op::input;
  node.types = {std::move(type)};
  node.attrs = InputAttrs{std::move(name), alias};
  inputs_.push_back(append(std::move(node)));
  return value({inputs_.back(), 0});
}

Values Graph::add_multi(Op op, ValueList operands, Attrs attrs, std::vector<GraphRef> graphs) {
  if (op == Op::input)
    throw Error(ErrorKind::kInvalidArgument, "input", "an input is made by Graph::input, not as a node");
  Node node;
  node.op = op;
  std::vector<Type> operand_types;
  operand_types.reserve(operands.size());
  node.operands.reserve(operands.size());
  for (const Value& v : operands) {
    check(v, ir::name(op));
    node.operands.push_back(v.id());
    operand_types.push_back(v.type());
  }
  if (auto* composite = attrs.get_if<CompositeAttrs>()) normalize(composite->attrs);
  node.types = infer_types(op, operand_types, attrs, graphs, mesh_);
  node.attrs = std::move(attrs);
  node.graphs = std::move(graphs);
  const auto results = static_cast<std::int32_t>(node.types.size());
  const std::int32_t index = append(std::move(node));
  Values values;
  for (std::int32_t i = 0; i < results; ++i) values.push_back(value({index, i}));
  return values;
}

Value Graph::add(Op op, ValueList operands, Attrs attrs, std::vector<GraphRef> graphs) {
  const Values results = add_multi(op, operands, std::move(attrs), std::move(graphs));
  if (results.size() != 1)
    throw Error(ErrorKind::kInvalidArgument, std::string(ir::name(op)), "used as a single value", "1 result",
                std::to_string(results.size()));
  return results[0];
}

Value Graph::constant(Literal value) { return add(Op::constant, {}, ConstantAttrs{std::move(value)}); }

void Graph::output(Value value, std::string name) {
  check(value, "output");
  for (std::size_t i = 0; i < std::min(outputs_.size(), kEarlyNameChecks); ++i)
    if (!name.empty() && outputs_[i].name == name)
      throw Error(ErrorKind::kInvalidArgument, "graph " + name_,
                  fmt::format("two outputs are named \"{}\"", name));
  outputs_.push_back({value.id(), std::move(name)});
}

void Graph::set_mesh(Mesh mesh) {
  std::int64_t size = 1;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    const Mesh::Axis& axis = mesh.axes[i];
    for (std::size_t j = 0; j < i; ++j)
      if (mesh.axes[j].name == axis.name)
        throw Error(ErrorKind::kInvalidArgument, "mesh", fmt::format("two axes are named \"{}\"", axis.name));
    if (axis.name.empty() || axis.size < 1 || axis.size > kMaxMeshSize || (size *= axis.size) > kMaxMeshSize)
      throw Error(ErrorKind::kInvalidArgument, "mesh", "every axis needs a name and a size",
                  fmt::format("at least 1 and at most {} devices in all", kMaxMeshSize),
                  fmt::format("{}={}", axis.name, axis.size));
  }
  mesh_ = std::move(mesh);
}

void Graph::set_comments(GraphComments comments) { comments_ = std::move(comments); }

void Graph::set_sharding(Value value, Sharding sharding) {
  check(value, "sharding");
  const Type& type = value.type();
  const auto fail = [&](std::string message, std::string expected = {}, std::string got = {}) {
    throw Error(ErrorKind::kInvalidArgument, "sharding", std::move(message), std::move(expected),
                std::move(got));
  };
  if (!mesh_) fail("the graph has no mesh");
  if (sharding.dims.size() != type.shape.size())
    fail("one list of mesh axes per dimension of " + type.to_string(), std::to_string(type.shape.size()),
         std::to_string(sharding.dims.size()));
  std::vector<std::string_view> used;
  for (std::size_t i = 0; i < sharding.dims.size(); ++i) {
    std::int64_t parts = 1;
    for (const std::string& axis : sharding.dims[i]) {
      if (std::find(used.begin(), used.end(), axis) != used.end())
        fail("mesh axis \"" + axis + "\" used twice");
      used.push_back(axis);
      parts *= mesh_->axis(axis).size;
    }
    const Dim d = type.shape[i];
    if (d.is_static() && d.value() % parts != 0)
      fail(fmt::format("dimension {} of {} does not split evenly", i, type.to_string()),
           fmt::format("a multiple of {}", parts));
  }
  Node& node = nodes_[static_cast<std::size_t>(value.id().node)];
  node.shardings.resize(node.types.size());
  node.shardings[static_cast<std::size_t>(value.id().index)] = std::move(sharding);
}

void Graph::set_debug(std::int32_t node, DebugInfo debug) {
  if (node < 0 || node >= size())
    throw Error(ErrorKind::kInvalidArgument, "set_debug", "no such node", fmt::format("0 to {}", size() - 1),
                std::to_string(node));
  nodes_[static_cast<std::size_t>(node)].debug =
      debug == DebugInfo{} ? nullptr : std::make_shared<const DebugInfo>(std::move(debug));
}

namespace {

struct IsStatic {
  bool operator()(const Dim& v) const { return v.is_static(); }
  bool operator()(const Shape& v) const { return v.is_static(); }
  bool operator()(const AttrMap& v) const {
    return std::all_of(v.begin(), v.end(),
                       [](const auto& entry) { return std::visit(IsStatic{}, entry.second); });
  }
  bool operator()(const auto&) const { return true; }
};

bool has_static_attrs(const Node& node) {
  bool result = true;
  std::visit(
      [&]<class A>(const A& a) {
        A::fields([&](std::string_view, auto member) { result = result && IsStatic{}(a.*member); });
      },
      variant(node.attrs));
  return result;
}

}  // namespace

bool Graph::is_static() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const Node& n) {
    if (!has_static_attrs(n)) return false;
    return std::all_of(n.types.begin(), n.types.end(), [](const Type& t) { return t.shape.is_static(); }) &&
           std::all_of(n.graphs.begin(), n.graphs.end(), [](const GraphRef& g) { return g->is_static(); });
  });
}

}  // namespace systole::ir
