#pragma once

// The reverse rule of every primitive. A rule sees one node in the graph under construction and returns what
// each operand gets of the results' cotangents; the driver accumulates. A rule is asked only when a cotangent
// has arrived, and what it returns for operands that need nothing is ignored, so rules are written as if all
// were needed unless that costs much.

#include <optional>
#include <string>
#include <vector>

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
  const Values& x;                  // operands
  const Values& y;                  // results
  const Cotangents& cotangents;     // of the results
  const std::vector<bool>& needed;  // operands that lead to an input asked for

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

// A scan is rebuilt on the way forward, so that the way back finds what it needs.
struct Augmented {
  Values results;                            // those of the node
  Values residuals;                          // stacked, for the way back
  ir::GraphRef body_vjp;                     // the body's derivative, made once for both ways
  std::vector<ir::ValueId> residual_values;  // what the residuals are in it; empty with `remat`
};
bool is_augmented(const Node& node);
Augmented augment(const Node& node, Graph& graph, const Values& operands, const std::vector<bool>& needed);
Cotangents control_rule(const Adjoint& a, const Augmented& forward);

Value zeros_like(Value x);
Value where(Value predicate, Value x);  // x, else 0
Value zeros(Graph& graph, const Type& type);

}  // namespace systole::autodiff
