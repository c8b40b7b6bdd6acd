#pragma once

// The reverse rule of every primitive. A rule sees one node in the graph under construction and returns what
// each operand gets of the results' cotangents; the driver accumulates. A rule is asked only when a cotangent
// has arrived, and what it returns for operands that need nothing is ignored, so rules are written as if all
// were needed unless that costs much.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/activity.h"
#include "systole/ir/graph.h"
#include "systole/ops.h"

namespace systole::autodiff {

using ir::Combine;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Value;
using ir::Values;

// Per operand; nothing means zero.
using Cotangents = std::vector<std::optional<Value>>;

struct Adjoint {
  const Node& node;
  Graph& graph;
  const Values& x;               // operands
  const Values& y;               // results
  const Cotangents& cotangents;  // of the results
  const Flags& needed;           // operands that lead to an input asked for

  // The cotangent of a result; zeros when none arrived.
  Value dy(std::size_t i = 0) const;
  template <class A>
  const A& as() const {
    return node.as<A>();
  }
  [[noreturn]] void refuse(std::string why) const;
};

Cotangents pull_back(const Adjoint& a);  // the rule of a.node.op

Cotangents elementwise_rule(const Adjoint& a);
Cotangents movement_rule(const Adjoint& a);
Cotangents reduction_rule(const Adjoint& a);
Cotangents contraction_rule(const Adjoint& a);
Cotangents collective_rule(const Adjoint& a);
Cotangents composite_rule(const Adjoint& a);

// A scan is rebuilt on the way forward, so that the way back finds what it needs.
struct Augmented {
  Values results;                            // those of the node
  Values residuals;                          // stacked, for the way back
  ir::GraphRef body_vjp;                     // the body's derivative, made once for both ways
  std::vector<ir::ValueId> residual_values;  // what the residuals are in it; empty with `remat`
};
bool is_augmented(const Node& node);
Augmented augment(const Node& node, Graph& graph, const Values& operands, const Flags& needed);
Cotangents control_rule(const Adjoint& a, const Augmented& forward);

// The graph with the body in place of every composite and kernel that is active and has no rule of its own.
Graph opened(Graph graph, const Flags& inputs);
bool is_remat(const Node& node);

// Which inputs are in `wrt`; throws when one is no input or no float.
Flags checked_inputs(const Graph& graph, const std::vector<int>& wrt);

Value zeros_like(Value x);
Value where(Value predicate, Value x);  // x, else 0
Value zeros(Graph& graph, const Type& type);

// A closed graph named after `from`, on its mesh; `build` gets the inputs and returns the outputs.
template <class F>
ir::GraphRef derived_graph(const Graph& from, const char* suffix, std::span<const Type> inputs, F&& build) {
  auto graph = std::make_shared<Graph>(from.name() + suffix);
  if (from.mesh()) graph->set_mesh(*from.mesh());
  Values arguments;
  for (const Type& type : inputs) arguments.push_back(graph->input({}, type));
  for (const Value& result : build(arguments)) graph->output(result);
  return graph;
}
template <class F>
ir::GraphRef derived_graph(const Graph& from, const char* suffix, const Values& inputs, F&& build) {
  std::vector<Type> types;
  for (const Value& v : inputs) types.push_back(v.type());
  return derived_graph(from, suffix, types, std::forward<F>(build));
}

}  // namespace systole::autodiff
