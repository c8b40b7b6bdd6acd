// Rules of collectives. Every device pulls back its own cotangent; the loss is the sum over devices.

#include "autodiff/rules.h"

namespace systole::autodiff {

using namespace ops;

Cotangents collective_rule(const Adjoint& a) {
  const auto sums = [&](Combine kind) {
    if (kind != Combine::sum) a.refuse("only the `sum` of devices has a rule");
  };
  switch (a.node.op) {
    case Op::all_reduce: {
      const auto& c = a.as<ir::AllReduceAttrs>();
      sums(c.kind);
      return {all_reduce(a.dy(), Combine::sum, c.mesh_axes)};
    }
    case Op::all_gather: {
      const auto& c = a.as<ir::AllGatherAttrs>();
      return {reduce_scatter(a.dy(), Combine::sum, c.axis, c.mesh_axes)};
    }
    case Op::reduce_scatter: {
      const auto& c = a.as<ir::ReduceScatterAttrs>();
      sums(c.kind);
      return {all_gather(a.dy(), c.axis, c.mesh_axes)};
    }
    case Op::all_to_all: {
      const auto& c = a.as<ir::AllToAllAttrs>();
      return {all_to_all(a.dy(), c.concat_axis, c.split_axis, c.mesh_axes)};
    }
    case Op::collective_permute: {
      const auto& c = a.as<ir::PermuteAttrs>();
      return {collective_permute(a.dy(), c.targets, c.sources, c.mesh_axes)};
    }
    default: a.refuse("it depends on no operand");
  }
}

}  // namespace systole::autodiff
