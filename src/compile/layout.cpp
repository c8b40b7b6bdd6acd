// Images with their channels last. A convolution in another layout gets its operand transposed, and its
// result transposed back; the transposes then sink through elementwise work, reductions, windows and padding
// until they meet their inverse or something that wants the old order. Neighbouring elements of an image are
// then what the inner loops of a convolution read.

#include <algorithm>
#include <optional>
#include <string>

#include "systole/compile/passes.h"
#include "systole/ir/rewriter.h"
#include "systole/ops.h"

namespace systole::passes {

namespace {

using ir::Op;
using ir::Value;
using ir::Values;

Ints inverse(const Ints& permutation) {
  Ints out(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    out[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  return out;
}

// Entry i of the list, which is about axis i, goes where the axis went: the list of the operand's order.
Ints moved(const Ints& list, const Ints& permutation) {
  if (list.empty()) return list;
  Ints out(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) out[static_cast<std::size_t>(permutation[i])] = list[i];
  return out;
}

const ir::Node& node_of(const Value& v) { return v.graph().node(v.id().node); }

// What x is a transpose of.
struct Transposed {
  Value operand;
  Ints permutation;
};
std::optional<Transposed> transposed(const Value& x) {
  const ir::Node& node = node_of(x);
  if (node.op != Op::transpose) return std::nullopt;
  return Transposed{x.graph().value(node.operands[0]), node.as<ir::TransposeAttrs>().permutation};
}

// x = transpose(result, permutation), without a transpose if possible.
std::optional<Value> before(const Value& x, const Ints& permutation) {
  if (x.rank() == 0) return x;
  if (const std::optional<Transposed> t = transposed(x); t && t->permutation == permutation)
    return t->operand;
  const ir::Node& node = node_of(x);
  if (node.op != Op::broadcast) return std::nullopt;
  const auto& attrs = node.as<ir::BroadcastAttrs>();
  Shape shape = x.shape();
  for (std::size_t i = 0; i < permutation.size(); ++i)
    shape[static_cast<std::size_t>(permutation[i])] = x.shape()[i];
  Ints axes;
  for (const std::int64_t axis : attrs.axes) axes.push_back(permutation[static_cast<std::size_t>(axis)]);
  const Value source = x.graph().value(node.operands[0]);
  if (std::is_sorted(axes.begin(), axes.end())) return ops::broadcast(source, shape, axes);
  // Axes come in order: the source turns.
  Ints order(axes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return axes[static_cast<std::size_t>(a)] < axes[static_cast<std::size_t>(b)];
  });
  std::sort(axes.begin(), axes.end());
  return ops::broadcast(ops::transpose(source, order), shape, axes);
}

Value transpose(const Value& x, const Ints& permutation) {
  return std::is_sorted(permutation.begin(), permutation.end()) ? x : ops::transpose(x, permutation);
}

std::optional<Values> convolution(const ir::Rewrite& r) {
  auto attrs = r.node.as<ir::ConvolutionAttrs>();
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(attrs.layout);
  const auto order = [](std::int64_t batch, const Ints& spatial, std::int64_t feature) {
    Ints out{batch};
    for (const std::int64_t axis : spatial) out.push_back(axis);
    out.push_back(feature);
    return out;
  };
  const Ints x = order(axes.operand_batch, axes.operand_spatial, axes.operand_feature),
             y = order(axes.result_batch, axes.result_spatial, axes.result_feature);
  if (std::is_sorted(x.begin(), x.end()) && std::is_sorted(y.begin(), y.end())) return std::nullopt;
  // "b01f" where the letters of x were, and of y
  std::string last = "b";
  for (std::size_t i = 0; i < axes.operand_spatial.size(); ++i) last += static_cast<char>('0' + i);
  last += 'f';
  const std::size_t mark = attrs.layout.find('_'), arrow = attrs.layout.find("->");
  attrs.layout = last + attrs.layout.substr(mark, arrow - mark) + "->" + last;
  const std::optional<Value> known = before(r.operands[0], inverse(x));
  const Value image = known && node_of(*known).op != Op::broadcast ? *known : transpose(r.operands[0], x);
  return Values{transpose(r.graph.add(Op::convolution, {image, r.operands[1]}, attrs), inverse(y))};
}

std::optional<Values> elementwise(const ir::Rewrite& r) {
  std::optional<Ints> permutation;
  for (const Value& x : r.operands)
    if (const std::optional<Transposed> t = transposed(x); t && !permutation) permutation = t->permutation;
  if (!permutation) return std::nullopt;
  Values operands;
  for (const Value& x : r.operands) {
    const std::optional<Value> own = before(x, *permutation);
    if (!own) return std::nullopt;
    operands.push_back(*own);
  }
  return Values{transpose(r.graph.add(r.node.op, operands, r.node.attrs), *permutation)};
}

std::optional<Values> reduction(const ir::Rewrite& r, const Transposed& x) {
  auto attrs = r.node.as<ir::ReduceAttrs>();
  Ints kept;  // axes of the operand's operand, in the result's order
  for (std::size_t i = 0; i < x.permutation.size(); ++i)
    if (std::find(attrs.axes.begin(), attrs.axes.end(), static_cast<std::int64_t>(i)) == attrs.axes.end())
      kept.push_back(x.permutation[i]);
  for (std::int64_t& axis : attrs.axes) axis = x.permutation[static_cast<std::size_t>(axis)];
  std::sort(attrs.axes.begin(), attrs.axes.end());
  Ints sorted = kept, permutation;
  std::sort(sorted.begin(), sorted.end());
  for (const std::int64_t axis : kept)
    permutation.push_back(std::find(sorted.begin(), sorted.end(), axis) - sorted.begin());
  return Values{transpose(r.graph.add(Op::reduce, {x.operand}, attrs), permutation)};
}

std::optional<Values> sunk(const ir::Rewrite& r, const Transposed& x) {
  const Ints& p = x.permutation;
  switch (r.node.op) {
    case Op::transpose: {
      Ints both;
      for (const std::int64_t axis : r.node.as<ir::TransposeAttrs>().permutation)
        both.push_back(p[static_cast<std::size_t>(axis)]);
      return Values{transpose(x.operand, both)};
    }
    case Op::reduce: return reduction(r, x);
    case Op::reduce_window: {
      auto a = r.node.as<ir::WindowAttrs>();
      for (Ints* list :
           {&a.window, &a.strides, &a.pad_low, &a.pad_high, &a.base_dilation, &a.window_dilation})
        *list = moved(*list, p);
      return Values{transpose(r.graph.add(Op::reduce_window, {x.operand}, a), p)};
    }
    case Op::pad: {
      auto a = r.node.as<ir::PadAttrs>();
      for (Ints* list : {&a.low, &a.high, &a.interior}) *list = moved(*list, p);
      return Values{transpose(r.graph.add(Op::pad, {x.operand, r.operands[1]}, a), p)};
    }
    default: return std::nullopt;
  }
}

bool has_other_layouts(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == Op::convolution) {
      const ir::ConvolutionAxes axes = ir::parse_convolution_layout(node.as<ir::ConvolutionAttrs>().layout);
      const auto last = static_cast<std::int64_t>(axes.operand_spatial.size()) + 1;
      if (axes.operand_feature != last || axes.result_feature != last) return true;
    }
    for (const ir::GraphRef& body : node.graphs)
      if (has_other_layouts(*body)) return true;
  }
  return false;
}

}  // namespace

ir::Graph layout(const ir::Graph& graph) {
  if (graph.mesh() || !has_other_layouts(graph)) return graph;
  return ir::rewrite(graph, [](const ir::Rewrite& r) -> std::optional<Values> {
    if (r.node.op == Op::convolution) return convolution(r);
    if (ir::info(r.node.op).op_class == ir::OpClass::elementwise && r.node.types.size() == 1)
      return elementwise(r);
    if (r.operands.empty()) return std::nullopt;
    const std::optional<Transposed> x = transposed(r.operands[0]);
    return x ? sunk(r, *x) : std::nullopt;
  });
}

}  // namespace systole::passes
