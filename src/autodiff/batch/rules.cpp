// The rule of every primitive: a switch over all of them, and the rules that fit in a few lines. Most move
// their axes up by one.

#include <memory>
#include <utility>

#include "autodiff/batch/batch.h"
#include "systole/ir/rewriter.h"

#pragma GCC diagnostic error "-Wswitch"

namespace systole::autodiff::batch {

namespace {

// An operand that may be a scalar beside others of shape `example`; without the axis a scalar stays one.
Value beside(const Mapped& m, std::size_t i, const Shape& example) {
  return !m.batched[i] && m.x[i].rank() == 0 ? m.x[i] : m.spread(i, example);
}

Value map_select(const Mapped& m) {
  const Value on_true = m.spread(1), on_false = m.spread(2);
  return m.add({beside(m, 0, m.example(1)), on_true, on_false});
}

Value map_clamp(const Mapped& m) {
  const Shape example = m.example(1);
  const Value low = beside(m, 0, example), x = m.spread(1), high = beside(m, 2, example);
  return m.add({low, x, high});
}

Value map_broadcast(const Mapped& m) {
  const auto& a = m.as<ir::BroadcastAttrs>();
  return m.add(m.x, ir::BroadcastAttrs{m.with_axis(a.shape), with_front(0, shifted(a.axes))});
}

Value map_slice(const Mapped& m) {
  const auto& a = m.as<ir::SliceAttrs>();
  return m.add(m.x, ir::SliceAttrs{with_front(0, a.starts), m.with_axis(a.limits), with_front(1, a.strides)});
}

// Each example's own padding value: pads with zeros, and puts the value where nothing of x is.
Value map_pad(const Mapped& m) {
  const auto& a = m.as<ir::PadAttrs>();
  const ir::PadAttrs mapped{with_front(0, a.low), with_front(0, a.high), with_front(0, a.interior)};
  if (!m.batched[1]) return m.add({m.x[0], m.x[1]}, mapped);
  const Shape result = m.node.types[0].shape;
  const Value zero = ops::full(m.graph, {m.x[0].dtype(), {}}, 0);
  const Value padded = m.add({m.spread(0), zero}, mapped);
  const Value inside = ops::full(m.graph, {DType::boolean, m.example(0)}, 1);
  const Value outside = ops::full(m.graph, {DType::boolean, {}}, 0);
  const Value mask = m.spread(m.add({inside, outside}, a), false, result);
  return ops::select(mask, padded, m.spread(1, result));
}

Value map_reduce_window(const Mapped& m) {
  ir::WindowAttrs a = m.as<ir::WindowAttrs>();
  const auto extend = [](Ints& list, std::int64_t front) {
    if (!list.empty()) list = with_front(front, list);
  };
  a.window = with_front(1, a.window);  // of a scalar the list is empty and has an entry now
  extend(a.strides, 1);
  extend(a.pad_low, 0);
  extend(a.pad_high, 0);
  extend(a.base_dilation, 1);
  extend(a.window_dilation, 1);
  return m.add(m.x, std::move(a));
}

// The node on the operands as they are, with one axis attribute moved up.
template <class A>
Value up(const Mapped& m, std::int64_t A::* axis) {
  A a = m.as<A>();
  ++(a.*axis);
  return m.add(m.x, std::move(a));
}

Value map_all_to_all(const Mapped& m) {
  ir::AllToAllAttrs a = m.as<ir::AllToAllAttrs>();
  ++a.split_axis;
  ++a.concat_axis;
  return m.add(m.x, std::move(a));
}

}  // namespace

Ints shifted(Ints axes) {
  for (std::int64_t& axis : axes) ++axis;
  return axes;
}

Ints with_front(std::int64_t front, Ints list) {
  list.insert(list.begin(), front);
  return list;
}

Values map_by_scan(const Mapped& m) {
  auto body = std::make_shared<Graph>(std::string(ir::name(m.node.op)));
  Values inputs(m.x.size()), xs, constants;
  for (const bool cut : {true, false})
    for (std::size_t i = 0; i < m.x.size(); ++i)
      if (m.batched[i] == cut) {
        inputs[i] = body->input({}, {m.x[i].dtype(), m.example(i)});
        (cut ? xs : constants).push_back(m.x[i]);
      }
  for (const Value& result : ir::copy_node(*body, m.node, inputs, m.node.graphs)) body->output(result);
  return ops::scan(std::move(body), {}, xs, constants, m.size());
}

Values map_node(const Mapped& m) {
  switch (m.node.op) {
#define SYSTOLE_UNARY(name, ...) \
  case Op::name: return {m.add(m.x)};
#define SYSTOLE_BINARY(name, ...) \
  case Op::name: return {m.add(m.spread_all())};
#define SYSTOLE_OP(...)
#include "systole/ir/ops.def"
    case Op::convert:
    case Op::bitcast:
    case Op::cholesky:
    case Op::all_reduce:
    case Op::collective_permute: return {m.add(m.x, m.node.attrs)};
    case Op::select: return {map_select(m)};
    case Op::clamp: return {map_clamp(m)};

    case Op::reshape: return {m.add(m.x, ir::ReshapeAttrs{m.with_axis(m.as<ir::ReshapeAttrs>().shape)})};
    case Op::transpose:
      return {m.add(m.x, ir::TransposeAttrs{with_front(0, shifted(m.as<ir::TransposeAttrs>().permutation))})};
    case Op::broadcast: return {map_broadcast(m)};
    case Op::slice: return {map_slice(m)};
    case Op::pad: return {map_pad(m)};
    case Op::concat: return {m.add(m.spread_all(), ir::AxisAttrs{m.as<ir::AxisAttrs>().axis + 1})};
    case Op::reverse: return {m.add(m.x, ir::AxesAttrs{shifted(m.as<ir::AxesAttrs>().axes)})};
    case Op::gather: return {map_gather(m)};
    case Op::scatter: return {map_scatter(m)};
    case Op::dynamic_slice: return {map_dynamic_slice(m)};
    case Op::dynamic_update_slice: return {map_dynamic_update_slice(m)};

    case Op::reduce: {
      const auto& a = m.as<ir::ReduceAttrs>();
      return {m.add(m.x, ir::ReduceAttrs{a.kind, shifted(a.axes)})};
    }
    case Op::arg_reduce: return {up(m, &ir::ArgReduceAttrs::axis)};
    case Op::reduce_window: return {map_reduce_window(m)};
    case Op::cumulative: return {up(m, &ir::CumulativeAttrs::axis)};
    case Op::sort: {
      const auto& a = m.as<ir::SortAttrs>();
      return m.graph.add_multi(Op::sort, m.spread_all(), ir::SortAttrs{a.axis + 1, a.descending});
    }
    case Op::top_k: return m.graph.add_multi(Op::top_k, m.x, m.node.attrs);

    case Op::dot_general: return {map_dot_general(m)};
    case Op::convolution: return {map_convolution(m)};
    case Op::triangular_solve: return {m.add(m.spread_all(), m.node.attrs)};

    case Op::scan: return map_scan(m);
    case Op::while_loop: return map_while_loop(m);
    case Op::cond: return map_cond(m);
    case Op::composite: return map_composite(m);

    case Op::all_gather: return {up(m, &ir::AllGatherAttrs::axis)};
    case Op::reduce_scatter: return {up(m, &ir::ReduceScatterAttrs::axis)};
    case Op::all_to_all: return {map_all_to_all(m)};

    case Op::barrier: return ops::barrier(m.x);
    case Op::kernel_call: return map_kernel_call(m);
    case Op::random_bits: return map_by_scan(m);  // each example has a key of its own

    case Op::input:
    case Op::constant:
    case Op::iota:
    case Op::dimension:
    case Op::device_index: break;
  }
  m.refuse("it has no operands to map over");
}

}  // namespace systole::autodiff::batch
