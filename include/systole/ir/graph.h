#pragma once

// The tensor graph: nodes in execution order, each an Op with operands, typed attributes and closed
// sub-graphs. Types are inferred when a node is added, so a Graph is well-formed from the first node on;
// verify() checks it again after a pass. A Graph is a plain value: copying it copies the nodes and shares
// sub-graphs and literals.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/error.h"
#include "systole/base/export.h"
#include "systole/base/shape.h"
#include "systole/ir/attrs.h"
#include "systole/ir/op.h"

namespace systole::ir {

// The newest version of the text form. 2 adds dimensions that are products of symbols and slices whose limit
// is another symbol than the axis's; a graph without them is still written as 1.
inline constexpr int kIrVersion = 2;
inline constexpr int kMaxGraphDepth = 64;                  // sub-graphs inside sub-graphs
inline constexpr std::int64_t kMaxExpandedSize = 1 << 24;  // nodes, a sub-graph counted wherever it is used

inline constexpr std::int64_t kMaxMeshSize = 1 << 20;

class Graph;
using GraphRef = std::shared_ptr<const Graph>;

// Result `index` of node `node`.
struct ValueId {
  std::int32_t node = -1;
  std::int32_t index = 0;
  friend constexpr bool operator==(const ValueId&, const ValueId&) = default;
};

// A ValueId with its graph, so that ops::add(a, b) knows where to build. Valid while the Graph object lives
// and is not moved.
class SYSTOLE_API Value {
 public:
  Value() = default;
  Value(Graph* graph, ValueId id) : graph_(graph), id_(id) {}

  Graph& graph() const { return *graph_; }
  ValueId id() const { return id_; }
  bool valid() const { return graph_ != nullptr; }
  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int rank() const { return shape().rank(); }
  friend bool operator==(const Value&, const Value&) = default;

 private:
  Graph* graph_ = nullptr;
  ValueId id_;
};
using Values = std::vector<Value>;

// A list of values as an argument: braces, a vector, a span or one value.
class ValueList : public std::span<const Value> {
 public:
  ValueList() = default;
  ValueList(std::initializer_list<Value> list) : span(list.begin(), list.size()) {}
  ValueList(const Values& values) : span(values.data(), values.size()) {}
  ValueList(std::span<const Value> values) : span(values) {}
  ValueList(const Value& value) : span(&value, 1) {}
};

// Where a node came from; never part of the hash or of equality.
struct DebugInfo {
  std::vector<std::string> names;  // of the results in text, without '%'; may be empty
  std::string scope;               // "encoder/fc1"
  std::string file;
  int line = 0;
  std::string comment;  // text lines that stood before the node, newline-separated, without "//"
  bool operator==(const DebugInfo&) const = default;
};

// The comment lines around a graph's statements, newline-separated, without "//".
struct GraphComments {
  std::string before, before_return, after;
  bool operator==(const GraphComments&) const = default;
};

// Devices in a grid with named axes, row-major.
struct SYSTOLE_API Mesh {
  struct Axis {
    std::string name;
    std::int64_t size = 1;
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;

  std::int64_t size() const;
  const Axis& axis(std::string_view name) const;  // throws kNotFound
  bool operator==(const Mesh&) const = default;
};

// For each dimension the mesh axes that split it; an empty list means replicated. A graph with shardings is
// written in global shapes; one with collectives in the shapes of a single device. No graph has both.
struct Sharding {
  std::vector<MeshAxisNames> dims;
  bool operator==(const Sharding&) const = default;
};

struct Node {
  Op op = Op::constant;
  SmallVector<ValueId, 3> operands;
  std::vector<Type> types;  // one per result
  Attrs attrs;
  std::vector<GraphRef> graphs;                    // sub-graphs: bodies and branches
  std::vector<std::optional<Sharding>> shardings;  // empty, or one per result
  std::shared_ptr<const DebugInfo> debug;          // may be null

  template <class A>
  const A& as() const {
    return attrs.get<A>();
  }
};

struct Output {
  ValueId value;
  std::string name;  // may be empty
  bool operator==(const Output&) const = default;
};

class SYSTOLE_API Graph {
 public:
  explicit Graph(std::string name = "main");
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph&);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  // Building. Every call infers and checks types and throws kShape, kDType, kInvalidArgument or kNotFound
  // naming the op.
  Value input(std::string name, Type type, std::int64_t alias = -1);
  Value add(Op op, ValueList operands, Attrs attrs = {}, std::vector<GraphRef> graphs = {});  // of one result
  Values add_multi(Op op, ValueList operands, Attrs attrs = {}, std::vector<GraphRef> graphs = {});
  Value constant(Literal value);
  void output(Value value, std::string name = {});

  void set_name(std::string name) { name_ = std::move(name); }
  void set_mesh(Mesh mesh);
  void set_sharding(Value value, Sharding sharding);
  void set_debug(std::int32_t node, DebugInfo debug);
  void set_comments(GraphComments comments);

  // Reading.
  const std::string& name() const { return name_; }
  const std::optional<Mesh>& mesh() const { return mesh_; }
  const GraphComments& comments() const { return comments_; }
  std::int32_t size() const { return static_cast<std::int32_t>(nodes_.size()); }
  const Node& node(std::int32_t i) const { return nodes_[static_cast<std::size_t>(i)]; }
  const std::deque<Node>& nodes() const { return nodes_; }
  const std::vector<std::int32_t>& inputs() const { return inputs_; }  // node indices, in signature order
  const std::string& input_name(std::size_t i) const { return node(inputs_[i]).as<InputAttrs>().name; }
  const Type& input_type(std::size_t i) const { return node(inputs_[i]).types[0]; }
  const std::vector<Output>& outputs() const { return outputs_; }
  const Type& type(ValueId v) const { return node(v.node).types[static_cast<std::size_t>(v.index)]; }
  const Type& output_type(std::size_t i) const { return type(outputs_[i].value); }
  Value value(ValueId v) { return Value(this, v); }
  int depth() const { return depth_; }                           // 1 without sub-graphs
  std::int64_t expanded_size() const { return expanded_size_; }  // nodes, sub-graphs included
  bool is_static() const;                                        // no symbol in any type or attribute

  // Structure: everything but debug info, comments and the graph's own name. Input and output names belong to
  // it.
  std::uint64_t hash() const;
  bool same_structure(const Graph& other) const;

 private:
  std::int32_t append(Node node);
  void check(const Value& value, std::string_view where) const;

  std::string name_;
  GraphComments comments_;
  std::deque<Node> nodes_;
  std::vector<std::int32_t> inputs_;
  std::vector<Output> outputs_;
  std::optional<Mesh> mesh_;
  int depth_ = 1;
  std::int64_t expanded_size_ = 0;
};

// Result types of an op; the errors name the op, what it expects and what it got.
SYSTOLE_API std::vector<Type> infer_types(Op op, std::span<const Type> operands, const Attrs& attrs,
                                          std::span<const GraphRef> graphs, const std::optional<Mesh>& mesh);

// Throws kInternal naming the node when an invariant is broken (order, arity, attribute type, inferred types,
// outputs), kInvalidArgument when names repeat, shardings meet collectives or a symbol stands in no input.
SYSTOLE_API void verify(const Graph& graph);

// The symbol values that make the graph's input types equal to `arguments`; throws kShape naming the input on
// a contradiction.
SYSTOLE_API SymbolValues match_symbols(const Graph& graph, std::span<const Type> arguments);

// The graph with every symbol replaced by its number, sub-graphs included.
SYSTOLE_API Graph bind_symbols(const Graph& graph, const SymbolValues& values);

// The first version of the text form that has all that the graph uses.
SYSTOLE_API int needed_version(const Graph& graph);

inline const Type& Value::type() const { return graph_->type(id_); }

// A closed graph for use as a body: `build` gets the inputs and returns the outputs.
template <class F>
GraphRef make_graph(std::string name, std::span<const Type> inputs, F&& build) {
  auto graph = std::make_shared<Graph>(std::move(name));
  Values arguments;
  for (const Type& type : inputs) arguments.push_back(graph->input({}, type));
  for (const Value& result : build(arguments)) graph->output(result);
  return graph;
}

}  // namespace systole::ir
