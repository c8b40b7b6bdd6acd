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

Literal joined_parts(const std::vector<Literal>& parts, std::int64_t axis) {
  std::vector<const Literal*> list;
  for (const Literal& part : parts) list.push_back(&part);
  return joined(list, axis);
}

Literal all_reduce(const Node& node, const Literal& mine, Group& group) {
  const auto& a = node.as<ir::AllReduceAttrs>();
  return combined(a.kind, group.exchange(node, a.mesh_axes, mine));
}

Literal all_gather(const Node& node, const Literal& mine, Group& group) {
  const auto& a = node.as<ir::AllGatherAttrs>();
  return joined_parts(group.exchange(node, a.mesh_axes, mine), a.axis);
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
  return joined_parts(parts, a.concat_axis);
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

Literal device_index(const Node& node, const Literal&, Group& group) {
  return Literal::scalar(static_cast<std::uint32_t>(group.index(node.as<ir::MeshAxesAttrs>().mesh_axes)));
}

struct Collective {
  Op op;
  Literal (*run)(const Node& node, const Literal& mine, Group& group);
};

constexpr Collective kCollectives[] = {
    {Op::all_reduce, all_reduce},
    {Op::all_gather, all_gather},
    {Op::reduce_scatter, reduce_scatter},
    {Op::all_to_all, all_to_all},
    {Op::collective_permute, collective_permute},
    {Op::device_index, device_index},
};

constexpr const Collective* find(Op op) {
  for (const Collective& c : kCollectives)
    if (c.op == op) return &c;
  return nullptr;
}

#define SYSTOLE_OP(name, op_class, ...)                                                        \
  static_assert(ir::OpClass::op_class != ir::OpClass::collective || find(Op::name) != nullptr, \
                "no evaluation for " #name);
#include "systole/ir/ops.def"

}  // namespace

Literal collective(const Node& node, const Operands& x, Group* group) {
  if (group == nullptr)
    throw Error(ErrorKind::kUnsupported, std::string(name(node.op)),
                "a collective needs the devices of a mesh to run on");
  return find(node.op)->run(node, x.empty() ? Literal() : x[0], *group);
}

}  // namespace systole::eval
