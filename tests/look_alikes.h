#pragma once

// Graphs of one composite that bears a name which backends look for, and is malformed in one place. Each
// carries a body of its own, whose results are 0.5 everywhere, so the graph itself is well-formed.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "systole/ir/composite.h"
#include "systole/ops.h"

namespace systole {

// Names that backends give to composites of their own, in graphs that they have taken already.
inline constexpr const char* kInsideNames[] = {"lstm_loop", "lstm_loop_grad", "library.product"};

inline bool has_composite(const ir::Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const ir::Node& node) {
    return node.op == ir::Op::composite || std::any_of(node.graphs.begin(), node.graphs.end(),
                                                       [](const auto& g) { return has_composite(*g); });
  });
}

struct LookAlike {
  std::string what;  // "lstm without operand 3"
  ir::Graph graph;
};

struct WholeComposite {
  std::string name;
  std::vector<Type> operands;
  ir::AttrMap attrs;
};

// Every composite that a backend or a pass claims by its name, as the libraries take it.
inline std::vector<WholeComposite> claimed_composites() {
  const auto f32 = [](Shape shape) { return Type{DType::f32, std::move(shape)}; };
  const Type head = f32({1, 2, 8, 8}), lse = f32({1, 2, 8}), image = f32({2, 6, 6, 4}), channels = f32({4});
  const Type x = f32({3, 2, 5}), y = f32({3, 2, 4}), state = f32({2, 4});
  const std::vector<Type> lstm{x, state, state, f32({16, 5}), f32({16, 4}), f32({16}), f32({16})};
  const std::vector<Type> gru{x, state, f32({12, 5}), f32({12, 4}), f32({12}), f32({12})};
  std::vector<Type> lstm_grad{y, state, state, y}, gru_grad{y, state, y};
  lstm_grad.insert(lstm_grad.end(), lstm.begin(), lstm.end());
  gru_grad.insert(gru_grad.end(), gru.begin(), gru.end());
  const ir::AttrMap pool{{"window", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  return {{"attention", {head, head, head}, {}},
          {"attention_grad", {head, head, head, head, lse, head}, {}},
          {"lstm", lstm, {}},
          {"lstm_grad", lstm_grad, {}},
          {"gru", gru, {}},
          {"gru_grad", gru_grad, {}},
          {"batch_norm_train", {image, channels, channels}, {}},
          {"batch_norm_inference", {image, channels, channels, channels, channels}, {}},
          {"batch_norm_grad", {image, image, channels, channels, channels}, {}},
          {"max_pool", {image}, pool},
          {"avg_pool", {image}, pool}};
}

// The composite as it should be, on a graph's inputs.
inline ir::Graph graph_of(const WholeComposite& whole) {
  ir::Graph graph;
  ir::Values operands;
  for (const Type& type : whole.operands) operands.push_back(graph.input({}, type));
  for (const ir::Value& v : ir::add_composite(whole.name, operands, whole.attrs)) graph.output(v);
  return graph;
}

inline ir::Graph with_own_body(const std::string& name, const std::vector<Type>& operands, ir::AttrMap attrs,
                               const std::vector<Type>& results) {
  ir::Graph graph;
  ir::Values inputs;
  for (const Type& type : operands) inputs.push_back(graph.input({}, type));
  auto body = ir::make_graph("own", operands, [&](const ir::Values& arguments) {
    ir::Values made;
    for (const Type& type : results) made.push_back(ops::full(arguments[0].graph(), type, 0.5));
    return made;
  });
  const ir::Values outputs = graph.add_multi(ir::Op::composite, inputs,
                                             ir::CompositeAttrs{name, std::move(attrs)}, {std::move(body)});
  for (const ir::Value& v : outputs) graph.output(v);
  return graph;
}

inline std::vector<LookAlike> look_alikes(const std::vector<WholeComposite>& wholes = claimed_composites()) {
  std::vector<LookAlike> all;
  for (const WholeComposite& whole : wholes) {
    const ir::Graph right = graph_of(whole);
    const ir::Node& node = right.node(right.size() - 1);
    const ir::AttrMap attrs = node.as<ir::CompositeAttrs>().attrs;
    const auto add = [&](const std::string& what, const std::vector<Type>& operands, const ir::AttrMap& given,
                         const std::vector<Type>& results) {
      all.push_back({whole.name + " " + what, with_own_body(whole.name, operands, given, results)});
    };
    std::vector<Type> more = whole.operands;
    more.push_back(whole.operands.back());
    add("with one operand more", more, attrs, node.types);
    if (whole.operands.size() > 1) add("of the first operand alone", {whole.operands[0]}, attrs, node.types);
    for (std::size_t i = 0; i < whole.operands.size(); ++i) {
      const std::string which = "operand " + std::to_string(i);
      std::vector<Type> changed = whole.operands;
      changed[i].shape = {};
      add("with a scalar for " + which, changed, attrs, node.types);
      changed[i].shape = {7};
      if (whole.operands[i].shape.rank() > 1) add("with a vector for " + which, changed, attrs, node.types);
      changed[i] = {DType::i32, whole.operands[i].shape};
      add("with integers for " + which, changed, attrs, node.types);
    }
    for (const auto& [key, value] : attrs) {
      ir::AttrMap changed = attrs;
      const auto with = [&](const std::string& what, ir::AttrValue bad) {
        changed[key] = std::move(bad);
        add("with " + what + " for " + key, whole.operands, changed, node.types);
      };
      if (std::holds_alternative<std::int64_t>(value)) {
        with("99", std::int64_t{99});
        with("-99", std::int64_t{-99});
      }
      if (const Ints* const list = std::get_if<Ints>(&value)) {
        with("one number", Ints{2});
        with("three numbers", Ints{2, 2, 2});
        with("negative numbers", Ints{-2, -2});
        with("2^62", Ints(2, std::int64_t{1} << 62));
        if (!list->empty()) with("zeros", Ints{0, 0});
      }
      changed.erase(key);
      if (!whole.attrs.contains(key)) add("without " + key, whole.operands, changed, node.types);
      changed[key] = std::string("text");
      add("with text for " + key, whole.operands, changed, node.types);
    }
    std::vector<Type> results = node.types;
    results.pop_back();
    if (!results.empty()) add("with a result less", whole.operands, attrs, results);
    results = node.types;
    results[0].shape = {7};
    add("with a result of another shape", whole.operands, attrs, results);
  }
  return all;
}

// The graph, of floating-point results, inside a composite that fits: the body of a softmax, or a loop in
// that body. No target claims a softmax, so the body comes in its place. The result is what the graph's first
// is everywhere.
enum class Nest { body, loop };
inline ir::Graph in_a_softmax(const ir::Graph& inner, Nest nest) {
  const Type type{DType::f32, {3}};
  const auto computed = [&](const ir::Values& arguments) {
    ir::Graph& into = arguments[0].graph();
    ir::Values operands;
    for (std::size_t i = 0; i < inner.inputs().size(); ++i)
      operands.push_back(ops::full(into, inner.input_type(i), 1));
    const ir::Value first = ir::inline_graph(into, inner, operands)[0];
    Ints axes;
    for (int i = 0; i < first.shape().rank(); ++i) axes.push_back(i);
    return ir::Values{ops::broadcast_to(ops::mean(first, axes), type.shape)};
  };
  auto body = ir::make_graph("own", std::vector<Type>{type}, [&](const ir::Values& arguments) {
    if (nest == Nest::body) return computed(arguments);
    return ops::scan(ir::make_graph("step", std::vector<Type>{type}, computed), arguments, {}, {}, 2);
  });
  ir::Graph graph;
  const ir::Value x = graph.input("x", type);
  graph.output(graph.add_multi(ir::Op::composite, {x},
                               ir::CompositeAttrs{"softmax", {{"axis", std::int64_t{-1}}}},
                               {std::move(body)})[0]);
  return graph;
}
inline std::string_view name(Nest nest) { return nest == Nest::body ? "in a body" : "in a loop in a body"; }

// Composites of those names, on one operand and on the operands of each look-alike, and the look-alikes
// themselves, in a softmax.
inline std::vector<LookAlike> nested_look_alikes() {
  std::vector<LookAlike> all;
  const Type some{DType::f32, {3}}, cube{DType::f32, {2, 3, 4}};
  const std::vector<LookAlike> outer = look_alikes();
  for (const Nest nest : {Nest::body, Nest::loop}) {
    const auto add = [&](const std::string& what, const ir::Graph& inner) {
      all.push_back({what + " " + std::string(name(nest)), in_a_softmax(inner, nest)});
    };
    for (const char* const inside : kInsideNames) {
      for (const Type& type : {some, cube})
        add(std::string(inside) + " of " + type.to_string(), with_own_body(inside, {type}, {}, {type}));
      for (const LookAlike& each : outer) {
        std::vector<Type> operands;
        for (std::size_t i = 0; i < each.graph.inputs().size(); ++i)
          operands.push_back(each.graph.input_type(i));
        add(std::string(inside) + " as " + each.what, with_own_body(inside, operands, {}, {some}));
      }
    }
    for (const LookAlike& each : outer) add(each.what, each.graph);
  }
  return all;
}

}  // namespace systole
