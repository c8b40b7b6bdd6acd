// Collectives: each device hands its operand to the group, gets everyone's, and computes its own result from
// them. Results never share storage with what was received, since other devices read that at the same time.

#include <algorithm>

#include "eval/combine.h"
#include "eval/internal.h"
#include "eval/strided.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

using ir::Node;
using ir::Op;

Literal combined(ir::Combine kind, std::span<const Literal> parts) {
  return visit_wide(parts[0].dtype(), [&]<class W>() {
    std::vector<W> sums = load_all<W>(parts[0]);
    visit_combine<W>(kind, [&](auto op) {
      for (const Literal& part : parts.subspan(1)) {
        const std::vector<W> values = load_all<W>(part);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = op(sums[i], values[i]);
      }
    });
    return store_all<W>(parts[0].type(), sums);
  });
}

std::int64_t size_along(const Literal& x, std::int64_t axis) {
  return x.dims()[static_cast<std::size_t>(axis)];
}

Literal all_reduce(const Node& node, const Literal& mine, Group& group) {
  const auto& a = node.as<ir::AllReduceAttrs>();
  return combined(a.kind, group.exchange(node, a.mesh_axes, mine));
}

Literal all_gather(const Node& node, const Literal& mine, Group& group) {
  const auto& a = node.as<ir::AllGatherAttrs>();
  return joined(group.exchange(node, a.mesh_axes, mine), a.axis);
}

Literal reduce_scatter(const Node& node, const Literal& mine, Group& group) {
  const auto& a = node.as<ir::ReduceScatterAttrs>();
  const std::vector<Literal> parts = group.exchange(node, a.mesh_axes, mine);
  const std::int64_t share = size_along(mine, a.axis) / static_cast<std::int64_t>(parts.size());
  return part_of(combined(a.kind, parts), a.axis, group.index(a.mesh_axes) * share, share);
}

Literal all_to_all(const Node& node, const Literal& mine, Group& group) {
  const auto& a = node.as<ir::AllToAllAttrs>();
  std::vector<Literal> parts = group.exchange(node, a.mesh_axes, mine);
  const std::int64_t share = size_along(mine, a.split_axis) / static_cast<std::int64_t>(parts.size());
  for (Literal& part : parts) part = part_of(part, a.split_axis, group.index(a.mesh_axes) * share, share);
  return joined(parts, a.concat_axis);
}

Literal collective_permute(const Node& node, const Literal& mine, Group& group) {
  const auto& a = node.as<ir::PermuteAttrs>();
  const std::vector<Literal> sent = group.exchange(node, a.mesh_axes, mine);
  const auto* target = std::find(a.targets.begin(), a.targets.end(), group.index(a.mesh_axes));
  if (target == a.targets.end()) return Literal(mine.type());
  const Literal& received =
      sent[static_cast<std::size_t>(a.sources[static_cast<std::size_t>(target - a.targets.begin())])];
  return Literal::copy_of(received.type(), received.as_bytes());
}

}  // namespace

Literal collective(const Node& node, const Operands& x, Group* group) {
  if (group == nullptr)
    throw Error(ErrorKind::kUnsupported, std::string(name(node.op)),
                "a collective needs the devices of a mesh to run on");
  switch (node.op) {
    case Op::all_reduce: return all_reduce(node, x[0], *group);
    case Op::all_gather: return all_gather(node, x[0], *group);
    case Op::reduce_scatter: return reduce_scatter(node, x[0], *group);
    case Op::all_to_all: return all_to_all(node, x[0], *group);
    case Op::collective_permute: return collective_permute(node, x[0], *group);
    case Op::device_index:
      return Literal::scalar(
          static_cast<std::uint32_t>(group->index(node.as<ir::MeshAxesAttrs>().mesh_axes)));
    default: throw Error(ErrorKind::kInternal, std::string(name(node.op)), "not a collective");
  }
}

}  // namespace systole::eval
