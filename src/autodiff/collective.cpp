// Rules of collectives. Every device pulls back its own cotangent; the loss is the sum over devices.

#include "autodiff/rules.h"
#include "systole/autodiff.h"
#include "systole/ir/composite.h"

#pragma GCC diagnostic error "-Wswitch"  // an op without a rule does not compile

namespace systole::autodiff {

namespace {

using namespace ops;

// The gradient of the same function written with all devices' operands side by side along a new first axis.
template <class F>
Cotangents through(const Adjoint& a, F&& combined) {
  Graph graph(std::string(name(a.node.op)));
  graph.set_mesh(*a.graph.mesh());
  graph.output(combined(graph.input({}, a.x[0].type())));
  return {ir::inline_graph(a.graph, vjp(graph, {0}), {a.x[0], a.dy()})[1]};
}

Value with_first_axis(Value x, Dim size) {
  Shape shape{size};
  for (const Dim& d : x.shape()) shape.push_back(d);
  return reshape(x, shape);
}

Cotangents all_reduce_rule(const Adjoint& a) {
  const auto& c = a.as<ir::AllReduceAttrs>();
  if (c.kind == Combine::sum) return {all_reduce(a.dy(), Combine::sum, c.mesh_axes)};
  return through(
      a, [&](Value x) { return reduce(all_gather(with_first_axis(x, 1), 0, c.mesh_axes), c.kind, {0}); });
}

Cotangents reduce_scatter_rule(const Adjoint& a) {
  const auto& c = a.as<ir::ReduceScatterAttrs>();
  if (c.kind == Combine::sum) return {all_gather(a.dy(), c.axis, c.mesh_axes)};
  return through(a, [&](Value x) {
    // Every device sends each other one its share: [group, share…] of the group's members.
    const Value sent = all_to_all(with_first_axis(x, 1), c.axis + 1, 0, c.mesh_axes);
    return reduce(sent, c.kind, {0});
  });
}

}  // namespace

Cotangents collective_rule(const Adjoint& a) {
  switch (a.node.op) {
    case Op::all_reduce: return all_reduce_rule(a);
    case Op::all_gather: {
      const auto& c = a.as<ir::AllGatherAttrs>();
      return {reduce_scatter(a.dy(), Combine::sum, c.axis, c.mesh_axes)};
    }
    case Op::reduce_scatter: return reduce_scatter_rule(a);
    case Op::all_to_all: {
      const auto& c = a.as<ir::AllToAllAttrs>();
      return {all_to_all(a.dy(), c.concat_axis, c.split_axis, c.mesh_axes)};
    }
    case Op::collective_permute: {
      const auto& c = a.as<ir::PermuteAttrs>();
      return {collective_permute(a.dy(), c.targets, c.sources, c.mesh_axes)};
    }
    case Op::device_index: a.refuse("it depends on no operand");
#define SYSTOLE_CASE_collective(name)
#include "autodiff/other_ops.def"
      break;
  }
  a.refuse("it has no rule here");
}

}  // namespace systole::autodiff
