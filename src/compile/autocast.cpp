// Mixed precision by class of op. An f32 value of the graph becomes one of f32 or of the low precision;
// values of every other dtype stay as they are, and so do ops that were given a low precision by hand.
//
//   low        contractions that take f32 and give f32, and the composites made of them: operands are
//              converted, the result is low
//   full       sums, products, the exp, log and pow family, softmax and losses: operands are converted back
//              to f32; norms too, and they give the precision they were given
//   following  other elementwise ops, movement, extremes and sorting: in the precision of the operands
//   as it is   everything else, and what has a signature to keep: loops, branches, remat, composites without
//              a class. Their sub-graphs are rewritten inside, between f32 inputs and f32 outputs
//
// Where low and f32 meet in a following op the result is f32, as promote() says, but for weak operands, which
// take the low precision: constants of one element, and inputs that are broadcast, moved or not. That is what
// makes a bias x·w + b, a scale or relu's 0 stay low while a residual in f32 stays f32.

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compile/subgraphs.h"
#include "systole/base/error.h"
#include "systole/compile.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"
#include "systole/ops.h"

namespace systole::passes {

namespace {

using ir::Combine;
using ir::Node;
using ir::Op;
using ir::OpClass;
using ir::Value;
using ir::Values;

enum class Precision { low, full, norm, following, as_it_is };

struct CompositePrecision {
  std::string_view name;
  Precision precision;
  std::size_t full_operand = kNone;  // of a low one: the operand that stays f32, as it was given
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
};
constexpr CompositePrecision kComposites[] = {
    {"attention", Precision::low},
    {"attention_grad", Precision::low, 4},
    {"avg_pool", Precision::following},
    {"batch_norm_grad", Precision::full},
    {"batch_norm_inference", Precision::norm},
    {"batch_norm_train", Precision::norm},
    {"conv_input_grad", Precision::low},
    {"conv_weight_grad", Precision::low},
    {"cross_entropy", Precision::full},
    {"embedding", Precision::following},
    {kFullPrecision, Precision::full},
    {"gelu", Precision::following},
    {"gru", Precision::low},
    {"gru_grad", Precision::low},
    {"layer_norm", Precision::norm},
    {"layer_norm_grad", Precision::full},
    {"log_softmax", Precision::full},
    {"lstm", Precision::low},
    {"lstm_grad", Precision::low},
    {"max_pool", Precision::following},
    {"softmax", Precision::full},
    {ir::kStopGradient, Precision::following},
};

bool adds_up(Combine kind) { return kind == Combine::sum || kind == Combine::prod; }

Precision for_reduction(const Node& node) {
  switch (node.op) {
    case Op::reduce: return adds_up(node.as<ir::ReduceAttrs>().kind) ? Precision::full : Precision::following;
    case Op::reduce_window:
      return adds_up(node.as<ir::WindowAttrs>().kind) ? Precision::full : Precision::following;
    case Op::cumulative:
      return adds_up(node.as<ir::CumulativeAttrs>().kind) ? Precision::full : Precision::following;
    default: return Precision::following;
  }
}

Precision for_elementwise(Op op) {
  switch (op) {
    case Op::exp:
    case Op::expm1:
    case Op::log:
    case Op::log1p:
    case Op::pow:
    case Op::rsqrt:
    case Op::tan:
    case Op::bitcast: return Precision::full;
    default: return Precision::following;
  }
}

CompositePrecision for_composite(const Node& node) {
  const std::string& name = node.as<ir::CompositeAttrs>().name;
  const auto* found = std::find_if(std::begin(kComposites), std::end(kComposites),
                                   [&](const CompositePrecision& c) { return c.name == name; });
  return found == std::end(kComposites) ? CompositePrecision{name, Precision::as_it_is} : *found;
}

Precision precision_of(const Node& node) {
  switch (ir::info(node.op).op_class) {
    case OpClass::elementwise: return for_elementwise(node.op);
    case OpClass::movement:
      return node.op == Op::scatter && adds_up(node.as<ir::ScatterAttrs>().combine) ? Precision::full
                                                                                    : Precision::following;
    case OpClass::reduction: return for_reduction(node);
    case OpClass::contraction:
      return node.op == Op::dot_general || node.op == Op::convolution ? Precision::low : Precision::full;
    case OpClass::control:
      return node.op == Op::composite ? for_composite(node).precision : Precision::as_it_is;
    default: return Precision::as_it_is;
  }
}

class Autocast {
 public:
  Autocast(const ir::Graph& graph, DType low, Subgraphs& subgraphs)
      : old_(graph), low_(low), subgraphs_(subgraphs), out_(graph.name()) {}

  ir::Graph run() {
    out_.set_comments(old_.comments());
    if (old_.mesh()) out_.set_mesh(*old_.mesh());
    mapped_.resize(static_cast<std::size_t>(old_.size()));
    for (std::int32_t i = 0; i < old_.size(); ++i) {
      const Node& node = old_.node(i);
      mapped_[static_cast<std::size_t>(i)] =
          node.op == Op::input ? Values{copy_input(node)} : rewritten(node);
    }
    for (const ir::Output& output : old_.outputs())
      out_.output(as(find(output.value), old_.type(output.value).dtype), output.name);
    return std::move(out_);
  }

 private:
  Value find(ir::ValueId v) const {
    return mapped_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  }

  Value copy_input(const Node& node) {
    const auto& attrs = node.as<ir::InputAttrs>();
    const Value input = out_.input(attrs.name, node.types[0], attrs.alias);
    if (!node.shardings.empty() && node.shardings[0]) out_.set_sharding(input, *node.shardings[0]);
    if (node.debug) out_.set_debug(input.id().node, *node.debug);
    return input;
  }

  // v in another precision, made once. What is broadcast is converted before, where it is small.
  Value as(Value v, DType dtype) {
    if (v.dtype() == dtype) return v;
    const CastKey key{v.id().node, v.id().index, dtype};
    if (const auto found = casts_.find(key); found != casts_.end()) return found->second;
    const Node& node = out_.node(v.id().node);
    Value result;
    if (node.op == Op::convert && dtype == low_ && out_.type(node.operands[0]).dtype == low_)
      result = out_.value(node.operands[0]);  // widening lost nothing
    else if (node.op == Op::broadcast && node.shardings.empty())
      result = ir::copy_node(out_, node, {as(out_.value(node.operands[0]), dtype)}, {})[0];
    else
      result = ops::convert(v, dtype);
    casts_.emplace(key, result);
    return result;
  }

  // Whether f32 value v takes the precision of what it meets.
  bool is_weak(Value v) const {
    bool broadcasts = false;
    for (ir::ValueId at = v.id();; at = out_.node(at.node).operands[0]) {
      const Node& node = out_.node(at.node);
      if (node.op == Op::constant) return node.types[0].shape.elements() == Dim(1);
      if (node.op == Op::input) return broadcasts;
      if (node.op == Op::broadcast)
        broadcasts |= !(out_.type(node.operands[0]).shape.elements() == node.types[0].shape.elements());
      else if (node.op != Op::reshape && node.op != Op::transpose)
        return false;
    }
  }

  bool is_low(Value v) const { return v.dtype() == low_; }

  // The operands of the old node in f32 where they were f32 there.
  Values in_full(const Node& node) {
    Values operands;
    for (ir::ValueId v : node.operands) operands.push_back(as(find(v), old_.type(v).dtype));
    return operands;
  }

  Values in_low(const Node& node, std::size_t but = CompositePrecision::kNone) {
    Values operands;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ir::ValueId v = node.operands[i];
      const DType dtype = old_.type(v).dtype;
      operands.push_back(as(find(v), dtype == DType::f32 && i != but ? low_ : dtype));
    }
    return operands;
  }

  // Those that were f32 in one precision: low when one is and no other stands against it.
  Values in_common(const Node& node) {
    bool low = false, against = false;
    for (ir::ValueId v : node.operands) {
      if (old_.type(v).dtype != DType::f32) continue;
      const Value operand = find(v);
      (is_low(operand) ? low : against) |= is_low(operand) || !is_weak(operand);
    }
    return low && !against ? in_low(node) : in_full(node);
  }

  bool all_f32(const Node& node) const {
    for (ir::ValueId v : node.operands)
      if (old_.type(v).dtype != DType::f32) return false;
    return node.types[0].dtype == DType::f32;
  }

  // The node on operands of other precisions; a composite gets the body for them.
  Values rebuilt(const Node& node, const Values& operands) {
    bool same = true;
    for (std::size_t i = 0; i < operands.size(); ++i)
      same &= operands[i].dtype() == old_.type(node.operands[i]).dtype;
    if (same || node.op != Op::composite) return ir::copy_node(out_, node, operands, node.graphs);
    const auto& attrs = node.as<ir::CompositeAttrs>();
    const Values results = ir::add_composite(attrs.name, operands, attrs.attrs);
    for (std::size_t r = 0; r < node.shardings.size(); ++r)
      if (node.shardings[r]) out_.set_sharding(results[r], *node.shardings[r]);
    if (node.debug) out_.set_debug(out_.size() - 1, *node.debug);
    return results;
  }

  Values contracted(const Node& node) {
    if (node.op == Op::composite) return rebuilt(node, in_low(node, for_composite(node).full_operand));
    if (!all_f32(node)) return rebuilt(node, in_full(node));
    Node changed = node;  // the result's dtype is the operands' own
    if (node.op == Op::dot_general)
      changed.attrs.get<ir::DotAttrs>().dtype.reset();
    else
      changed.attrs.get<ir::ConvolutionAttrs>().dtype.reset();
    return ir::copy_node(out_, changed, in_low(node), {});
  }

  Values rewritten(const Node& node) {
    switch (precision_of(node)) {
      case Precision::low: return contracted(node);
      case Precision::full: return rebuilt(node, in_full(node));
      case Precision::norm: {
        Values results = rebuilt(node, in_full(node));
        if (is_low(find(node.operands[0])) && results[0].dtype() == DType::f32)
          results[0] = as(results[0], low_);
        return results;
      }
      case Precision::following: return rebuilt(node, in_common(node));
      case Precision::as_it_is: break;
    }
    return ir::copy_node(out_, node, in_full(node), subgraphs_.turned(node, [&](const ir::Graph& g) {
      return Autocast(g, low_, subgraphs_).run();
    }));
  }

  struct CastKey {
    std::int32_t node, index;
    DType dtype;
    auto operator<=>(const CastKey&) const = default;
  };

  const ir::Graph& old_;
  const DType low_;
  Subgraphs& subgraphs_;
  ir::Graph out_;
  std::vector<Values> mapped_;
  std::map<CastKey, Value> casts_;
};

}  // namespace

ir::Graph autocast(const ir::Graph& graph, DType dtype) {
  if (dtype != DType::bf16 && dtype != DType::f16)
    throw Error(ErrorKind::kDType, "autocast", "no precision to compute in", "bf16 or f16",
                std::string(name(dtype)));
  Subgraphs subgraphs;
  return Autocast(graph, dtype, subgraphs).run();
}

}  // namespace systole::passes
