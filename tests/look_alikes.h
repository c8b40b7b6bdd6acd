#pragma once

// Graphs of one composite that bears a name which backends look for, and is malformed in one place. Each
// carries a body of its own, whose results are 0.5 everywhere, so the graph itself is well-formed.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "systole/ir/composite.h"
#include "systole/ops.h"

namespace systole {

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

inline std::vector<LookAlike> look_alikes() {
  std::vector<LookAlike> all;
  for (const WholeComposite& whole : claimed_composites()) {
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

}  // namespace systole
