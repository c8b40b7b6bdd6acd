// Control flow whose course is known, and collectives of groups of one.

#include <algorithm>

#include "compile/simplify/rules.h"
#include "systole/ir/composite.h"

namespace systole::passes {

namespace {

using M = const Match&;
using R = Replacement;

Value reshaped(M m, Value x, const Shape& shape) {
  return m.graph.add(Op::reshape, {x}, ir::ReshapeAttrs{shape});
}

R scan_of_nothing(M m) {
  const auto& a = m.attrs<ir::ScanAttrs>();
  const auto known = [](const Type& t) { return t.shape.is_static(); };
  if (a.length != 0 || !std::all_of(m.node.types.begin(), m.node.types.end(), known)) return {};
  Values results(m.operands.begin(), m.operands.begin() + a.carries);
  for (std::size_t i = results.size(); i < m.node.types.size(); ++i)
    results.push_back(m.graph.constant(Literal(m.node.types[i])));  // no element: the leading axis is 0
  return results;
}

R scan_of_one(M m) {
  const auto& a = m.attrs<ir::ScanAttrs>();
  const Graph& body = *m.node.graphs[0];
  if (a.length != 1) return {};
  Values arguments = m.operands;
  for (std::int64_t i = a.carries; i < a.carries + a.xs; ++i) {
    const auto at = static_cast<std::size_t>(i);
    arguments[at] = reshaped(m, arguments[at], body.input_type(at).shape);
  }
  Values results = ir::inline_graph(m.graph, body, arguments);
  for (std::size_t i = static_cast<std::size_t>(a.carries); i < results.size(); ++i)
    results[i] = reshaped(m, results[i], m.node.types[i].shape);
  return results;
}

R while_never(M m) {
  const Graph& condition = *m.node.graphs[0];
  const ir::Node& answer = condition.node(condition.outputs()[0].value.node);
  if (answer.op != Op::constant || answer.as<ir::ConstantAttrs>().value.item<bool>()) return {};
  return Values(m.operands.begin(), m.operands.begin() + m.attrs<ir::WhileAttrs>().carries);
}

R cond_known(M m) {
  const std::span<const Value> arguments = std::span(m.operands).subspan(1);
  if (const std::optional<bool> p = truth(m[0]))
    return ir::inline_graph(m.graph, *m.node.graphs[*p ? 0 : 1], arguments);
  if (m.node.graphs[0]->same_structure(*m.node.graphs[1]))
    return ir::inline_graph(m.graph, *m.node.graphs[0], arguments);
  return {};
}

template <class Attrs>
R alone(M m) {
  std::int64_t devices = 1;
  for (const std::string& axis : m.attrs<Attrs>().mesh_axes) devices *= m.graph.mesh()->axis(axis).size;
  if (devices != 1) return {};
  if constexpr (std::is_same_v<Attrs, ir::MeshAxesAttrs>)
    return filled(m, 0);
  else
    return m[0];
}

constexpr Rule kRules[] = {
    {Op::scan, scan_of_nothing},
    {Op::scan, scan_of_one},
    {Op::while_loop, while_never},
    {Op::cond, cond_known},
    {Op::all_reduce, alone<ir::AllReduceAttrs>},
    {Op::all_gather, alone<ir::AllGatherAttrs>},
    {Op::reduce_scatter, alone<ir::ReduceScatterAttrs>},
    {Op::all_to_all, alone<ir::AllToAllAttrs>},
    {Op::device_index, alone<ir::MeshAxesAttrs>},
};

}  // namespace

std::span<const Rule> control_rules() { return kRules; }

}  // namespace systole::passes
