#pragma once

// Mapping a graph over a new axis. A value depends on a mapped input and has the new axis first, or it does
// not and stays as it is; the flow decides that for every value before anything is built. A rule then sees
// one node of which some operand has the axis, and builds what computes the results of all examples at once.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "autodiff/activity.h"
#include "systole/ir/graph.h"
#include "systole/ops.h"

namespace systole::autodiff::batch {

using ir::Graph;
using ir::GraphRef;
using ir::Node;
using ir::Op;
using ir::Value;
using ir::Values;

// The flow through graphs and the mapped graphs, each made once for every way it is used.
class Mapper {
 public:
  explicit Mapper(Dim size) : size_(size) {}

  Dim size() const { return size_; }

  // Which values, outputs, results have the axis, given which inputs or operands do.
  const std::vector<Flags>& values(const Graph& graph, const Flags& inputs);
  Flags outputs(const Graph& graph, const Flags& inputs);
  Flags results(const Node& node, const Flags& operands);
  // Of a loop: a carry that has the axis after some round has it in all.
  Flags loop_inputs(const Graph& body, Flags operands, std::size_t carries);
  // The same of a while_loop. Examples that stop at different times need the axis on every carry.
  struct While {
    Flags inputs;
    bool predicate;
  };
  While while_inputs(const Node& node, const Flags& operands);

  // The graph with the axis on these inputs and outputs; an output that lacks it is repeated.
  Graph map(const Graph& graph, const Flags& inputs, const Flags& outputs);
  // The same for a sub-graph.
  GraphRef subgraph(const GraphRef& graph, const Flags& inputs, const Flags& outputs);

 private:
  const Dim size_;
  std::map<std::pair<const Graph*, Flags>, std::vector<Flags>> flows_;
  struct Subgraph {
    GraphRef source, mapped;  // the source is held, so that its address stays its own
  };
  std::map<std::tuple<const Graph*, Flags, Flags>, Subgraph> subgraphs_;
};

// One node with its operands in the graph under construction.
struct Mapped {
  const Node& node;
  Graph& graph;
  const Values& x;
  const Flags& batched;  // operands that have the axis: one at least
  const Flags& results;  // results that must have it
  Mapper& mapper;

  template <class A>
  const A& as() const {
    return node.as<A>();
  }
  Dim size() const { return mapper.size(); }
  Shape example(std::size_t i) const;           // operand i's shape without the axis
  Shape with_axis(const Shape& example) const;  // [size, example…]
  // Operand i with the axis, of its own shape or, from a scalar, of this one.
  Value spread(std::size_t i) const { return spread(x[i], batched[i], example(i)); }
  Value spread(std::size_t i, const Shape& example) const { return spread(x[i], batched[i], example); }
  Value spread(Value v, bool has_axis, const Shape& example) const;
  Values spread_all() const;
  Value add(ir::ValueList operands, ir::Attrs attrs = {}) const {
    return graph.add(node.op, operands, std::move(attrs));
  }
  [[noreturn]] void refuse(std::string why) const;
};

Values map_node(const Mapped& m);  // the rule of m.node.op

// Whether it is a composite that says itself what its gradient is.
bool has_own_gradient(const Node& node);

Value map_gather(const Mapped& m);
Value map_scatter(const Mapped& m);
Value map_dynamic_slice(const Mapped& m);
Value map_dynamic_update_slice(const Mapped& m);

Value map_dot_general(const Mapped& m);
Value map_convolution(const Mapped& m);

Values map_scan(const Mapped& m);
Values map_while_loop(const Mapped& m);
Values map_cond(const Mapped& m);
Values map_composite(const Mapped& m);
Values map_kernel_call(const Mapped& m);

// The node as it is, example by example: for what has no form that takes all at once.
Values map_by_scan(const Mapped& m);

// Lists of axes and of sizes with the new axis first.
Ints shifted(Ints axes);
Ints with_front(std::int64_t front, Ints list);

Value move_axis(Value x, std::int64_t from, std::int64_t to);
// The leading axis of x made part of axis `axis` (counted without it): [groups·d] becomes [groups·size·d].
Value fold(Value x, std::int64_t axis, std::int64_t groups = 1);
// The way back to [size, example…].
Value unfold(Value y, const Shape& example, Dim size, std::int64_t axis, std::int64_t groups = 1);

}  // namespace systole::autodiff::batch
