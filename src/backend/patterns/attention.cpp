#include "backend/patterns/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backend/patterns/product.h"

namespace systole::patterns {

namespace {

using lower::Strided;

constexpr std::string_view kForward = "attention", kGradient = "attention_grad";
constexpr std::size_t kLse = 4;  // the operand of a gradient that is not [b,h,length,depth]

// `shape` is that of the view; an axis of one element lies as in a dense array.
std::string read_view(const Shape& shape, const Strided& view, bool is_lse, const AttentionRules& rules,
                      Attention::Array& out) {
  out.offset = view.offset;
  std::int64_t dense = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    const Pieces pieces = joined(view.axes[i]);
    if (pieces.size() > 1) return "an axis of an operand has no single stride";
    const std::int64_t stride = pieces.empty() ? dense : pieces[0].stride;
    const bool may_repeat = rules.takes_repeats && i < 2;
    if (stride < (may_repeat ? 0 : 1)) return "an operand repeats its elements";
    const bool is_last = i + 1 == shape.size();
    if (is_lse && stride != dense) return "the log-sum-exp is not dense";
    if (!is_lse && is_last && stride != 1) return "the depth of an operand is not dense";
    if (!is_lse && !is_last && stride % rules.together != 0)
      return "rows do not begin at multiples of 16 bytes";
    out.strides[i] = stride;
    dense *= shape[i].value();
  }
  if (out.offset % (is_lse ? rules.lse_together : rules.together) != 0)
    return "an operand does not begin at a multiple of 16 bytes";
  return {};
}

std::string read_operand(const lower::Region& region, std::size_t which, const AttentionRules& rules,
                         Attention& out) {
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  const auto is_input = [&](std::int32_t i) { return graph.node(i).op == ir::Op::input; };
  const ir::ValueId operand = node.operands[which];
  const std::optional<Strided> view = lower::strided(graph, operand, is_input);
  if (!view) return "an operand is computed on the way";
  Attention::Array array;
  array.input = static_cast<std::size_t>(
      std::find(graph.inputs().begin(), graph.inputs().end(), view->source.node) - graph.inputs().begin());
  std::string reason = read_view(graph.type(operand).shape, *view, which == kLse, rules, array);
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

std::string read_sizes(const ir::Graph& graph, const ir::Node& node, const AttentionRules& rules,
                       Attention& out) {
  const Shape &q = graph.type(node.operands[0]).shape, &v = graph.type(node.operands[2]).shape;
  out.batch = q[0].value();
  out.heads = q[1].value();
  out.queries = q[2].value();
  out.depth = q[3].value();
  out.keys = v[2].value();
  out.width = v[3].value();
  if (out.batch * out.heads * out.queries * out.keys == 0) return "there is nothing to attend to";
  for (const std::int64_t depth : {out.depth, out.width})
    if (depth % rules.together != 0 || depth > rules.largest_depth || depth == 0)
      return fmt::format("a depth of {} is not taken: multiples of {} up to {}", depth, rules.together,
                         rules.largest_depth);
  // A loop may cut its arrays from longer ones, one after another.
  if (out.batch * out.heads * out.queries % rules.lse_together != 0)
    return "the log-sum-exp is no multiple of 16 bytes";
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

bool reads_attention_operand(const ir::Node& node, std::size_t operand, const Strided& view,
                             const AttentionRules& rules) {
  const Shape shape = node.graphs[0]->input_type(operand).shape;
  Attention::Array array;
  return read_view(shape, view, operand == kLse, rules, array).empty();
}

std::string read_attention(const lower::Region& region, Attention& out, const AttentionRules& rules) {
  const ir::Graph& graph = region.graph;
  const ir::Node& node = graph.node(region.anchor);
  if (!gives_results_only(region)) return "no work on its result is taken";
  out.is_gradient = node.as<ir::CompositeAttrs>().name == kGradient;
  out.dtype = graph.type(node.operands[0]).dtype;
  if (std::find(rules.dtypes.begin(), rules.dtypes.end(), out.dtype) == rules.dtypes.end()) {
    std::vector<std::string_view> taken;
    for (const DType dtype : rules.dtypes) taken.push_back(systole::name(dtype));
    return fmt::format("{} is not taken: {}", systole::name(out.dtype), fmt::join(taken, " or "));
  }
  if (std::string reason = read_sizes(graph, node, rules, out); !reason.empty()) return reason;
  out.arrays.clear();
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    if (std::string reason = read_operand(region, i, rules, out); !reason.empty()) return reason;
  return {};
}

}  // namespace systole::patterns
