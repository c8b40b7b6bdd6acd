#include "backend/patterns/on_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compile/strided.h"
#include "systole/ir/composite.h"
#include "systole/ir/rewriter.h"

namespace systole::patterns {

namespace {

using ir::Op;
using ir::ValueId;

class Reader {
 public:
  Reader(const lower::Region& region, Product& product, OnResult& out)
      : graph_(region.graph),
        anchor_(region.anchor),
        product_(product),
        out_(out),
        depends_(static_cast<std::size_t>(graph_.size()), false),
        last_{anchor_, 0} {
    depends_[at(anchor_)] = true;
    for (std::int32_t i = anchor_ + 1; i < graph_.size(); ++i)
      for (const ValueId v : graph_.node(i).operands)
        depends_[at(i)] = depends_[at(i)] || depends_[at(v.node)];
  }

  std::string run() {
    take_linear();
    if (std::string reason = read_outputs(); !reason.empty()) return reason;
    return read_types();
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  DType dtype(ValueId v) const { return graph_.type(v).dtype; }
  std::int64_t count() const { return product_.outer * product_.batch * product_.rows * product_.columns; }

  std::int32_t output_of(ValueId v) const {
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k)
      if (graph_.outputs()[k].value == v) return static_cast<std::int32_t>(k);
    return -1;
  }
  std::int32_t input_of(std::int32_t node) const {
    const auto found = std::find(graph_.inputs().begin(), graph_.inputs().end(), node);
    return found == graph_.inputs().end() ? -1 : static_cast<std::int32_t>(found - graph_.inputs().begin());
  }

  // The node that alone reads the value; -1 when there are more, or it leaves the region.
  std::int32_t only_reader(ValueId v) const {
    if (output_of(v) >= 0) return -1;
    std::int32_t only = -1;
    for (std::int32_t i = v.node + 1; i < graph_.size(); ++i) {
      const auto& operands = graph_.node(i).operands;
      const auto times = std::count(operands.begin(), operands.end(), v);
      if (times == 0) continue;
      if (only >= 0 || times > 1) return -1;
      only = i;
    }
    return only;
  }

  // Scale, bias and sum: each at most once, as long as nothing else reads what is between.
  void take_linear() {
    for (;;) {
      const std::int32_t i = only_reader(last_);
      if (i < 0) return;
      const ir::Node& node = graph_.node(i);
      const bool first = node.operands[0] == last_;
      bool taken = false;
      switch (node.op) {
        case Op::reshape: taken = true; break;
        case Op::convert: taken = is_float(node.types[0].dtype); break;
        case Op::mul:
        case Op::div: taken = take_scale(node, first); break;
        case Op::add: taken = take_sum(node.operands[first ? 1 : 0]); break;
        default: break;
      }
      if (!taken) return;
      last_ = {i, 0};
    }
  }

  bool take_scale(const ir::Node& node, bool first) {
    if (out_.bias >= 0 || out_.added >= 0 || (node.op == Op::div && !first)) return false;
    const std::optional<double> number = splat_number(graph_, node.operands[first ? 1 : 0]);
    if (!number || *number == 0) return false;
    out_.scale = node.op == Op::mul ? out_.scale * *number : out_.scale / *number;
    return true;
  }

  bool take_sum(ValueId other) {
    const auto is_input = [&](std::int32_t i) { return graph_.node(i).op == Op::input; };
    const std::optional<lower::Strided> view = lower::strided(graph_, other, is_input);
    if (!view || view->offset != 0 || !is_input(view->source.node)) {
      reason_ = "what is added is computed on the way";
      return false;
    }
    const std::int64_t stored = graph_.type(view->source).shape.count();
    Pieces whole;
    for (const Pieces& axis : view->axes) whole.insert(whole.end(), axis.begin(), axis.end());
    const bool is_dense = joined(whole).size() == 1 && joined(whole)[0].stride == 1;
    if (stored == count() && is_dense && out_.added < 0) {
      out_.added = input_of(view->source.node);
      return true;
    }
    const bool is_bias = stored == product_.columns && repeats_columns(view->axes);
    if (!is_bias || out_.bias >= 0) {
      reason_ = "the sum is no bias of the columns";
      return false;
    }
    out_.bias = input_of(view->source.node);
    return true;
  }

  // Columns side by side, the same for every row.
  bool repeats_columns(const std::vector<Pieces>& axes) const {
    Pieces pieces;
    for (const Pieces& axis : axes)
      for (const auto& piece : axis)
        if (piece.size != 1 && (piece.stride != 0 || !pieces.empty())) pieces.push_back(piece);
    if (product_.columns == 1) return pieces.empty();
    const Pieces one = joined(pieces);
    return one.size() == 1 && one[0].size == product_.columns && one[0].stride == 1;
  }

  std::string read_outputs() {
    std::vector<std::int32_t> further;  // nodes that are more than linear
    std::vector<ValueId> variables{last_};
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const ir::Node& node = graph_.node(i);
      const bool computes = node.op == Op::reshape || ir::info(node.op).op_class == ir::OpClass::elementwise;
      if (!computes || (depends_[at(i)] && i <= last_.node)) continue;
      further.push_back(i);
      for (const ValueId v : node.operands)
        if (graph_.node(v.node).op == Op::input && graph_.type(v).shape.count() == count() &&
            is_elementwise_input(v) && std::find(variables.begin(), variables.end(), v) == variables.end())
          variables.push_back(v);
    }
    if (variables.size() > 2) return "the work on the result reads more than the library would";
    for (const ValueId v : variables)
      if (!is_float(graph_.type(v).dtype)) return "the work on the result reads a mask";
    const Samples samples(graph_, variables, further);
    bool has_result = false;
    for (std::size_t k = 0; k < graph_.outputs().size(); ++k) {
      const ValueId v = graph_.outputs()[k].value;
      const auto position = static_cast<std::int32_t>(k);
      if (graph_.node(v.node).op == Op::reduce) {
        if (std::string reason = read_sum(graph_.node(v.node), position); !reason.empty()) return reason;
        continue;
      }
      if (v == last_) {
        out_.before = position;  // or the result, where there is nothing more
        continue;
      }
      if (has_result) return "two values of the work on the result are wanted";
      has_result = true;
      out_.result = position;
      out_.function = samples.function(v.node);
      if (variables.size() == 2) out_.gelu_of = input_of(variables[1].node);
    }
    if (!has_result) {
      if (out_.before < 0) return "the result is not wanted";
      out_.result = out_.before;
      out_.before = -1;
      return {};
    }
    switch (out_.function) {
      case Pointwise::relu:
        return out_.before < 0 ? "" : "relu's operand is wanted too, of which the library keeps only a bit";
      case Pointwise::gelu: return {};
      case Pointwise::gelu_gradient:
        if (out_.before >= 0) return "the product itself is wanted too";
        if (out_.bias >= 0 || out_.added >= 0) return "a sum before gelu's gradient";
        return {};
      case Pointwise::gelu_erf: return "gelu is the one by erf; the library has the one by tanh";
      default: return reason_.empty() ? "no such work on the result" : reason_;
    }
  }

  // Read by work on the result, and not a factor of the product.
  bool is_elementwise_input(ValueId v) const {
    const std::int32_t position = input_of(v.node);
    if (position == out_.added) return false;
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const ir::Node& node = graph_.node(i);
      if (ir::info(node.op).op_class != ir::OpClass::elementwise) continue;
      if (std::find(node.operands.begin(), node.operands.end(), v) != node.operands.end()) return true;
    }
    return false;
  }

  std::string read_sum(const ir::Node& node, std::int32_t position) {
    const auto& attrs = node.as<ir::ReduceAttrs>();
    if (attrs.kind != ir::Combine::sum) return "a reduction that is no sum";
    if (product_.outer * product_.batch != 1) return "sums of batches";
    Ints axes = attrs.axes;
    std::sort(axes.begin(), axes.end());
    const ir::Node& dot = graph_.node(anchor_);
    for (std::int32_t k = 0; k < 2; ++k) {
      Ints contracted = k == 0 ? dot.as<ir::DotAttrs>().a_contract : dot.as<ir::DotAttrs>().b_contract;
      std::sort(contracted.begin(), contracted.end());
      if (!(node.operands[0] == dot.operands[at(k)]) || axes != contracted) continue;
      if (out_.operand_sum >= 0) return "two sums are wanted";
      out_.operand_sum = position;
      out_.summed = k;
      return {};
    }
    const ValueId summed = node.operands[0];
    const auto rank = static_cast<std::int64_t>(graph_.type(summed).shape.rank());
    if (output_of(summed) < 0 || static_cast<std::int64_t>(axes.size()) != rank - 1 ||
        axes.back() != rank - 2 || node.types[0].shape.count() != product_.columns || out_.row_sum >= 0)
      return "a sum that is not over the rows";
    out_.row_sum = position;
    row_sum_of_ = summed;
    return {};
  }

  std::string read_types() {
    const ValueId result = graph_.outputs()[at(out_.result)].value;
    product_.result = dtype(result);
    const auto differs = [&](DType other) { return other != product_.result; };
    const auto input_dtype = [&](std::int32_t i) { return graph_.input_type(at(i)).dtype; };
    const auto output_dtype = [&](std::int32_t i) { return dtype(graph_.outputs()[at(i)].value); };
    if (out_.bias >= 0 && differs(input_dtype(out_.bias))) return "the bias has another dtype";
    if (out_.added >= 0 && differs(input_dtype(out_.added))) return "what is added has another dtype";
    if (out_.gelu_of >= 0 && differs(input_dtype(out_.gelu_of))) return "gelu's operand has another dtype";
    if (out_.before >= 0 && differs(output_dtype(out_.before))) return "gelu's operand has another dtype";
    if (out_.row_sum >= 0 && differs(output_dtype(out_.row_sum))) return "the sum has another dtype";
    if (out_.operand_sum >= 0 && differs(output_dtype(out_.operand_sum))) return "the sum has another dtype";
    if (out_.row_sum >= 0 && (out_.function != Pointwise::gelu_gradient || !(row_sum_of_ == result)))
      return "the sum is of something else";
    if (out_.operand_sum >= 0 && (out_.function != Pointwise::identity || out_.bias >= 0 || out_.added >= 0))
      return "the sum of an operand comes with nothing else";
    constexpr std::int64_t kAligned = 8;  // elements between rows of what gelu is taken of
    if ((out_.before >= 0 || out_.gelu_of >= 0) && product_.columns % kAligned != 0)
      return fmt::format("gelu's operand has rows of {}, no multiple of {}", product_.columns, kAligned);
    return {};
  }

  const ir::Graph& graph_;
  const std::int32_t anchor_;
  Product& product_;
  OnResult& out_;
  std::vector<bool> depends_;  // on the product, by node
  ValueId last_;               // of what is linear
  ValueId row_sum_of_;
  std::string reason_;
};

}  // namespace

std::string OnResult::text() const {
  std::string text;
  if (scale != 1) text += fmt::format("+scale {}", scale);
  if (added >= 0) text += "+array";
  if (bias >= 0) text += "+bias";
  if (function != Pointwise::identity) text += fmt::format("+{}", name(function));
  if (before >= 0) text += "+before";
  if (row_sum >= 0) text += "+sum of rows";
  if (operand_sum >= 0) text += fmt::format("+sum of operand {}", summed);
  return text;
}

bool is_product(const ir::Node& node) {
  return node.op == Op::dot_general ||
         (node.op == Op::composite && node.as<ir::CompositeAttrs>().name == kProductComposite);
}

lower::Region flat(const lower::Region& region) {
  const ir::Graph& graph = region.graph;
  if (graph.node(region.anchor).op != Op::composite) return region;
  lower::Region out;
  std::vector<ir::Values> made(static_cast<std::size_t>(graph.size()));
  const auto value = [&](ValueId v) {
    return made[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  };
  std::size_t inputs = 0;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph.node(i);
    ir::Values operands;
    for (const ValueId v : node.operands) operands.push_back(value(v));
    ir::Values& results = made[static_cast<std::size_t>(i)];
    if (node.op == Op::input) {
      results = {out.graph.input(graph.input_name(inputs), node.types[0])};
      ++inputs;
    } else if (i == region.anchor) {
      const std::int32_t first = out.graph.size();
      results = ir::inline_graph(out.graph, *node.graphs[0], operands);
      for (std::int32_t n = first; n < out.graph.size(); ++n)
        if (out.graph.node(n).op == Op::dot_general) out.anchor = n;
    } else {
      results = ir::copy_node(out.graph, node, operands, node.graphs);
    }
  }
  for (const ir::Output& output : graph.outputs()) out.graph.output(value(output.value));
  return out;
}

std::string read_on_result(const lower::Region& region, Product& product, OnResult& out) {
  if (region.anchor < 0) return kNoProduct;
  return Reader(region, product, out).run();
}

}  // namespace systole::patterns
