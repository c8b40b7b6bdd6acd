// The verifier, and symbols made numbers.

#include <fmt/format.h>
#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/composite_check.h"
#include "systole/ir/attrs_variant.h"

namespace systole::ir {

namespace {

[[noreturn]] void broken(const Graph& graph, std::int32_t node, const std::string& what) {
  throw Error(ErrorKind::kInternal,
              fmt::format("graph @{}, node {} ({})", graph.name(), node, name(graph.node(node).op)), what);
}

struct View {
  bool collectives = false, shardings = false;
};

void check_names(const Graph& graph) {
  std::set<std::string_view> inputs, outputs;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    if (const std::string& name = graph.input_name(i); !name.empty() && !inputs.insert(name).second)
      throw Error(ErrorKind::kInvalidArgument, "graph @" + graph.name(),
                  fmt::format("two inputs are named \"{}\"", name));
  for (const Output& o : graph.outputs())
    if (!o.name.empty() && !outputs.insert(o.name).second)
      throw Error(ErrorKind::kInvalidArgument, "graph @" + graph.name(),
                  fmt::format("two outputs are named \"{}\"", o.name));
}

// Every symbol that types and attributes mention, sub-graphs included.
struct SymbolCollector {
  std::set<std::string_view>& symbols;
  void operator()(const Dim& v) const {
    for (const std::string_view symbol : v.symbols()) symbols.insert(symbol);
  }
  void operator()(const Shape& v) const {
    for (const Dim& d : v) (*this)(d);
  }
  void operator()(const AttrMap& v) const {
    for (const auto& entry : v) std::visit(*this, entry.second);
  }
  void operator()(const auto&) const {}

  void add(const Graph& graph, std::set<const Graph*>& done) const {
    if (!done.insert(&graph).second) return;
    for (const Node& node : graph.nodes()) {
      for (const Type& t : node.types) (*this)(t.shape);
      std::visit(
          [&]<class A>(const A& a) { A::fields([&](std::string_view, auto member) { (*this)(a.*member); }); },
          variant(node.attrs));
      for (const GraphRef& g : node.graphs) add(*g, done);
    }
  }
};

// A symbol gets its number from the arguments, so one that stands in no input could never run.
void check_symbols(const Graph& graph) {
  std::set<std::string_view> bound, used;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    for (const Dim& d : graph.input_type(i).shape)
      if (d.symbols().size() == 1) bound.insert(d.symbol_name());  // a product gives no number to its factors
  std::set<const Graph*> done;
  SymbolCollector{used}.add(graph, done);
  for (std::string_view symbol : used)
    if (!bound.contains(symbol))
      throw Error(ErrorKind::kInvalidArgument, "graph @" + graph.name(),
                  fmt::format("symbol {} stands in no input", symbol),
                  "an input whose shape gives it a number");
}

// Whether the graph has what version 2 of the text form brought.
struct IsVersion2 {
  bool operator()(const Dim& v) const { return v.symbols().size() > 1; }
  bool operator()(const Shape& v) const { return std::any_of(v.begin(), v.end(), *this); }
  bool operator()(const std::vector<Type>& v) const {
    return std::any_of(v.begin(), v.end(), [&](const Type& t) { return (*this)(t.shape); });
  }
  bool operator()(const AttrMap& v) const {
    return std::any_of(v.begin(), v.end(),
                       [&](const auto& entry) { return std::visit(*this, entry.second); });
  }
  bool operator()(const auto&) const { return false; }

  bool operator()(const Graph& graph, const Node& node) const {
    bool found = (*this)(node.types);
    std::visit(
        [&]<class A>(const A& a) {
          A::fields([&](std::string_view, auto member) { found = found || (*this)(a.*member); });
        },
        variant(node.attrs));
    if (node.op != Op::slice || found) return found;
    const Shape &from = graph.type(node.operands[0]).shape, &limits = node.as<SliceAttrs>().limits;
    for (std::size_t i = 0; i < limits.size(); ++i)
      found = found || (!limits[i].is_static() && limits[i].symbol_name() != from[i].symbol_name());
    return found;
  }
};

bool is_version_2(const Graph& graph, std::set<const Graph*>& done) {
  if (!done.insert(&graph).second) return false;
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const Node& node) {
    return IsVersion2{}(graph, node) ||
           std::any_of(node.graphs.begin(), node.graphs.end(),
                       [&](const GraphRef& g) { return is_version_2(*g, done); });
  });
}

void verify_graph(const Graph& graph, std::set<const Graph*>& done, View& view) {
  if (!done.insert(&graph).second) return;
  check_names(graph);
  std::size_t inputs = 0;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    for (const GraphRef& g : node.graphs)
      if (g == nullptr) broken(graph, i, "a sub-graph is missing");
    for (const GraphRef& g : node.graphs) verify_graph(*g, done, view);
    view.collectives |= info(node.op).op_class == OpClass::collective;
    view.shardings |= std::any_of(node.shardings.begin(), node.shardings.end(),
                                  [](const auto& s) { return s.has_value(); });
    if (!node.shardings.empty() && node.shardings.size() != node.types.size())
      broken(graph, i, "shardings do not match the results");
    if (node.op == Op::input) {
      if (inputs >= graph.inputs().size() || graph.inputs()[inputs] != i)
        broken(graph, i, "an input is not in the signature");
      const std::int64_t alias = node.as<InputAttrs>().alias;
      if (alias < -1 || alias >= static_cast<std::int64_t>(graph.outputs().size()) ||
          (alias >= 0 && !(graph.output_type(static_cast<std::size_t>(alias)) == node.types[0])))
        broken(graph, i, "the alias names no output of the input's type");
      ++inputs;
      continue;
    }
    std::vector<Type> operands;
    for (ValueId v : node.operands) {
      if (v.node < 0 || v.node >= i || v.index < 0 ||
          static_cast<std::size_t>(v.index) >= graph.node(v.node).types.size())
        broken(graph, i, "an operand is not defined before its use");
      operands.push_back(graph.type(v));
    }
    std::vector<Type> types;
    try {
      types = infer_types(node.op, operands, node.attrs, node.graphs, graph.mesh());
    } catch (const Error& e) {
      broken(graph, i, e.what());
    }
    if (types != node.types) broken(graph, i, "the result types are not the inferred ones");
    if (node.op == Op::composite)
      if (const std::optional<Error> misfit = composite_misfit(node, operands))
        throw misfit->within(fmt::format("graph @{}, node {}", graph.name(), i));
  }
  for (const Output& o : graph.outputs())
    if (o.value.node < 0 || o.value.node >= graph.size() || o.value.index < 0 ||
        static_cast<std::size_t>(o.value.index) >= graph.node(o.value.node).types.size())
      throw Error(ErrorKind::kInternal, "graph @" + graph.name(), "an output names no value");
}

// Attributes with every dimension bound; only the field kinds that can hold a symbol change.
struct FieldBinder {
  const SymbolValues& values;
  void operator()(Dim& v) const { v = values.bind(v); }
  void operator()(Shape& v) const {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = values.bind(v[i]);
  }
  void operator()(std::vector<Type>& v) const {
    for (Type& t : v) (*this)(t.shape);
  }
  void operator()(AttrMap& v) const {
    for (auto& [key, value] : v)
      if (auto* shape = std::get_if<Shape>(&value)) {
        (*this)(*shape);
        value = shape->dims();
      }
  }
  void operator()(auto&) const {}
};

Graph bind_graph(const Graph& graph, const SymbolValues& values,
                 std::unordered_map<const Graph*, GraphRef>& done) {
  Graph out(graph.name());
  out.set_comments(graph.comments());
  if (graph.mesh()) out.set_mesh(*graph.mesh());
  std::vector<Values> mapped;
  for (const Node& node : graph.nodes()) {
    Attrs attrs = node.attrs;
    std::visit(
        [&]<class A>(A& a) {
          A::fields([&](std::string_view, auto member) { FieldBinder{values}(a.*member); });
        },
        variant(attrs));
    if (node.op == Op::input) {
      Type type = node.types[0];
      FieldBinder{values}(type.shape);
      mapped.push_back({out.input(attrs.get<InputAttrs>().name, type, attrs.get<InputAttrs>().alias)});
    } else {
      Values operands;
      for (ValueId v : node.operands)
        operands.push_back(mapped[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)]);
      std::vector<GraphRef> graphs;
      for (const GraphRef& g : node.graphs) {
        GraphRef& bound = done[g.get()];
        if (!bound) bound = std::make_shared<const Graph>(bind_graph(*g, values, done));
        graphs.push_back(bound);
      }
      mapped.push_back(out.add_multi(node.op, operands, std::move(attrs), std::move(graphs)));
    }
    for (std::size_t r = 0; r < node.shardings.size(); ++r)
      if (node.shardings[r]) out.set_sharding(mapped.back()[r], *node.shardings[r]);
    if (node.debug) out.set_debug(out.size() - 1, *node.debug);
  }
  for (const Output& o : graph.outputs())
    out.output(mapped[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.index)],
               o.name);
  return out;
}

}  // namespace

void verify(const Graph& graph) {
  std::set<const Graph*> done;
  View view;
  verify_graph(graph, done, view);
  check_symbols(graph);
  if (view.collectives && view.shardings)
    throw Error(ErrorKind::kInvalidArgument, "graph @" + graph.name(),
                "it has collectives (shapes of one device) and shardings (global shapes)",
                "one or the other");
}

int needed_version(const Graph& graph) {
  std::set<const Graph*> done;
  return is_version_2(graph, done) ? 2 : 1;
}

SymbolValues match_symbols(const Graph& graph, std::span<const Type> arguments) {
  SymbolValues values;
  const auto refuse = [&](std::size_t i, const std::string& why) {
    throw Error(ErrorKind::kShape, fmt::format("input {} \"{}\"", i, graph.input_name(i)), why,
                graph.input_type(i).to_string(), arguments[i].to_string());
  };
  if (arguments.size() != graph.inputs().size())
    throw Error(ErrorKind::kShape, "graph @" + graph.name(), "wrong number of arguments",
                std::to_string(graph.inputs().size()), std::to_string(arguments.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Type &wanted = graph.input_type(i), &got = arguments[i];
    const auto fail = [&](const std::string& why) { refuse(i, why); };
    if (wanted.shape.size() != got.shape.size()) fail("wrong number of dimensions");
    for (std::size_t d = 0; d < wanted.shape.size(); ++d) {
      const Dim w = wanted.shape[d];
      const std::int64_t size = got.shape.dims()[d];
      if (w.is_static()) {
        if (w.value() != size) fail(fmt::format("dimension {} differs", d));
        continue;
      }
      if (w.symbols().size() > 1) continue;  // below, when its factors have their numbers
      const std::int64_t rest = (Dim(size) - Dim(w.offset())).value();
      if (rest % w.scale() != 0 || rest / w.scale() < 0)
        fail(fmt::format("dimension {} is not of the form {}", d, w.to_string()));
      const std::int64_t value = rest / w.scale();
      const auto known = values.find(w.symbol_name());
      if (known && *known != value)
        fail(fmt::format("dimension {} makes {} = {}, an earlier one {}", d, w.symbol_name(), value, *known));
      values.set(w.symbol_name(), value);
    }
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Shape& wanted = graph.input_type(i).shape;
    for (std::size_t d = 0; d < wanted.size(); ++d)
      if (wanted[d].symbols().size() > 1 && values.bind(wanted[d]) != arguments[i].shape[d])
        refuse(i, fmt::format("dimension {} is not {} = {}", d, wanted[d].to_string(),
                              values.bind(wanted[d]).to_string()));
  }
  return values;
}

Graph bind_symbols(const Graph& graph, const SymbolValues& values) {
  std::unordered_map<const Graph*, GraphRef> done;
  try {
    return bind_graph(graph, values, done);
  } catch (const Error& e) {
    throw e.within("graph @" + graph.name());
  }
}

}  // namespace systole::ir
