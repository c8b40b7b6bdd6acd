#include "backend/patterns/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/patterns/product.h"

namespace systole::patterns {

namespace {

using lower::Strided;

constexpr std::string_view kForward = "attention", kGradient = "attention_grad";
constexpr std::size_t kLse = 4;              // the operand of a gradient that is not [b,h,length,depth]
constexpr std::int64_t kTogether = 8;        // elements that are loaded at once: 16 bytes
constexpr std::int64_t kLargestDepth = 128;  // of the kernels that all architectures have

// `shape` is that of the view; an axis of one element lies as in a dense array.
std::string read_view(const Shape& shape, const Strided& view, bool is_lse, Attention::Array& out) {
  out.offset = view.offset;
  std::int64_t dense = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const Pieces pieces = joined(view.axes[i]);
    if (pieces.size() > 1) return "an axis of an operand has no single stride";
    const std::int64_t stride = pieces.empty() ? dense : pieces[0].stride;
    if (stride < 1) return "an operand repeats its elements";
    const bool is_last = i + 1 == shape.size();
    if (is_lse && stride != dense) return "the log-sum-exp is not dense";
    if (!is_lse && is_last && stride != 1) return "the depth of an operand is not dense";
    if (!is_lse && !is_last && stride % kTogether != 0) return "rows do not begin at multiples of 16 bytes";
    out.strides[i] = stride;
    dense *= shape[i].value();
  }
  if (out.offset % (is_lse ? 4 : kTogether) != 0)
    return "an operand does not begin at a multiple of 16 bytes";
  return {};
}

std::string read_operand(const lower::Region& region, std::size_t which, Attention& out) {
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  const auto is_input = [&](std::int32_t i) { return graph.node(i).op == ir::Op::input; };
  const ir::ValueId operand = node.operands[which];
  const std::optional<Strided> view = lower::strided(graph, operand, is_input);
  if (!view) return "an operand is computed on the way";
  Attention::Array array;
  array.input = static_cast<std::size_t>(
      std::find(graph.inputs().begin(), graph.inputs().end(), view->source.node) - graph.inputs().begin());
  std::string reason = read_view(graph.type(operand).shape, *view, which == kLse, array);
  out.arrays.push_back(array);
  return reason;
}

// Its results and nothing else.
bool gives_results_only(const lower::Region& region) {
  const auto& outputs = region.graph.outputs();
  if (outputs.size() != region.graph.node(region.anchor).types.size()) return false;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].value != ir::ValueId{region.anchor, static_cast<std::int32_t>(i)}) return false;
  return true;
}

std::string read_sizes(const ir::Graph& graph, const ir::Node& node, Attention& out) {
  const Shape &q = graph.type(node.operands[0]).shape, &v = graph.type(node.operands[2]).shape;
  out.batch = q[0].value();
  out.heads = q[1].value();
  out.queries = q[2].value();
  out.depth = q[3].value();
  out.keys = v[2].value();
  out.width = v[3].value();
  if (out.batch * out.heads * out.queries * out.keys == 0) return "there is nothing to attend to";
  for (const std::int64_t depth : {out.depth, out.width})
    if (depth % kTogether != 0 || depth > kLargestDepth || depth == 0)
      return fmt::format("a depth of {} is not taken: multiples of {} up to {}", depth, kTogether,
                         kLargestDepth);
  // A loop may cut its arrays from longer ones, one after another.
  if (out.batch * out.heads * out.queries % 4 != 0) return "the log-sum-exp is no multiple of 16 bytes";
  const ir::AttrMap& attrs = node.as<ir::CompositeAttrs>().attrs;
  out.causal = ir::get_bool(attrs, "causal");
  out.scale = ir::get_double(attrs, "scale");
  if (out.scale == 0) out.scale = 1 / std::sqrt(static_cast<double>(out.depth));
  // They give NaN, and the library gives 0.
  if (out.causal && out.queries > out.keys) return "some queries see no key";
  return {};
}

}  // namespace

std::string Attention::text() const {
  std::string made = fmt::format("{} {} {}x{} q{} k{} d{} e{} {} {}", is_gradient ? kGradient : kForward,
                                 systole::name(dtype), batch, heads, queries, keys, depth, width,
                                 causal ? "causal" : "full", scale);
  for (const Array& array : arrays) {
    const auto& [b, h, s, d] = array.strides;
    made += fmt::format(" {},{},{},{}", b, h, s, d);
  }
  return made;
}

bool is_attention(const ir::Node& node) {
  if (node.op != ir::Op::composite) return false;
  const std::string& name = node.as<ir::CompositeAttrs>().name;
  return name == kForward || name == kGradient;
}

bool reads_attention_operand(const ir::Node& node, std::size_t operand, const Strided& view) {
  const Shape shape = node.graphs[0]->input_type(operand).shape;
  Attention::Array array;
  return read_view(shape, view, operand == kLse, array).empty();
}

std::string read_attention(const lower::Region& region, Attention& out) {
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  if (!gives_results_only(region)) return "no work on its result is taken";
  out.is_gradient = node.as<ir::CompositeAttrs>().name == kGradient;
  out.dtype = graph.type(node.operands[0]).dtype;
  if (out.dtype != DType::bf16 && out.dtype != DType::f16)
    return fmt::format("{} is not taken: bf16 or f16", systole::name(out.dtype));
  if (std::string reason = read_sizes(graph, node, out); !reason.empty()) return reason;
  out.arrays.clear();
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    if (std::string reason = read_operand(region, i, out); !reason.empty()) return reason;
  return {};
}

}  // namespace systole::patterns
