#include "compile/flops.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <vector>

namespace systole::passes {

namespace {

using ir::Op;

double count(const Type& type) { return static_cast<double>(type.shape.count()); }

double length(const Type& type, std::int64_t axis) {
  return static_cast<double>(type.shape[static_cast<std::size_t>(axis)].value());
}

double convolution_flops(const ir::Node& node, std::span<const Type> in) {
  const auto& attrs = node.as<ir::ConvolutionAttrs>();
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(attrs.layout);
  const Type &x = in[0], &w = in[1], &y = node.types[0];
  double pairs = 1;
  for (std::size_t i = 0; i < axes.operand_spatial.size(); ++i)
    pairs *= convolution_meetings(static_cast<std::int64_t>(length(x, axes.operand_spatial[i])),
                                  static_cast<std::int64_t>(length(w, axes.kernel_spatial[i])),
                                  static_cast<std::int64_t>(length(y, axes.result_spatial[i])), attrs, i);
  return 2 * length(y, axes.result_batch) * length(w, axes.kernel_input) * length(w, axes.kernel_output) *
         pairs;
}

double contraction_flops(const ir::Node& node, std::span<const Type> in) {
  if (node.op == Op::convolution) return convolution_flops(node, in);
  if (node.op != Op::dot_general) return 0;
  double depth = 1;
  for (const std::int64_t axis : node.as<ir::DotAttrs>().a_contract) depth *= length(in[0], axis);
  return 2 * count(node.types[0]) * depth;
}

template <class Visit>
void visit(const ir::Graph& graph, const Visit& visit_node) {
  std::vector<Type> operands;
  for (const ir::Node& node : graph.nodes()) {
    operands.clear();
    for (const ir::ValueId v : node.operands) operands.push_back(graph.type(v));
    visit_node(node, operands);
  }
}

// Graphs may stand in each other many times: each is counted once.
class Counter {
 public:
  double of(const ir::Graph& graph) {
    if (const auto known = known_.find(&graph); known != known_.end()) return known->second;
    double all = 0;
    visit(graph, [&](const ir::Node& node, std::span<const Type> in) { all += of(node, in); });
    return known_[&graph] = all;
  }

 private:
  double of(const ir::Node& node, std::span<const Type> in) {
    switch (node.op) {
      case Op::dot_general:
      case Op::convolution: return contraction_flops(node, in);
      case Op::reduce_window: {
        double window = 1;
        for (const std::int64_t size : node.as<ir::WindowAttrs>().window) window *= static_cast<double>(size);
        return count(node.types[0]) * window;
      }
      case Op::scan:
        return static_cast<double>(node.as<ir::ScanAttrs>().length.value()) * of(*node.graphs[0]);
      case Op::cond: return std::max(of(*node.graphs[0]), of(*node.graphs[1]));
      case Op::while_loop: return of(*node.graphs.back());
      case Op::composite: return of(*node.graphs[0]);
      case Op::kernel_call: return node.graphs.empty() ? 0 : of(*node.graphs[0]);
      default: break;
    }
    const ir::OpClass op_class = ir::info(node.op).op_class;
    if (op_class == ir::OpClass::elementwise) return count(node.types[0]);
    if (op_class == ir::OpClass::reduction && !in.empty()) return count(in[0]);
    return 0;
  }

  std::map<const ir::Graph*, double> known_;
};

struct Largest {
  double flops = 0;
  DType dtype;
  std::set<const ir::Graph*> seen = {};

  void look_at(const ir::Graph& graph) {
    if (!seen.insert(&graph).second) return;
    visit(graph, [&](const ir::Node& node, std::span<const Type> in) {
      for (const ir::GraphRef& sub : node.graphs) look_at(*sub);
      if (const double own = contraction_flops(node, in); own > flops) {
        flops = own;
        dtype = in[0].dtype;
      }
    });
  }
};

}  // namespace

double flops(const ir::Graph& graph) { return Counter().of(graph); }

DType flops_dtype(const ir::Graph& graph) {
  Largest largest{.dtype = graph.outputs().empty() ? DType::f32 : graph.output_type(0).dtype};
  largest.look_at(graph);
  return largest.dtype;
}

// For each kernel position, results o with 0 <= o·stride + at <= last, every one or in steps of a period.
double convolution_meetings(std::int64_t in, std::int64_t kernel, std::int64_t out,
                            const ir::ConvolutionAttrs& attrs, std::size_t axis) {
  const auto entry = [&](const Ints& list, std::int64_t unset) { return list.empty() ? unset : list[axis]; };
  const std::int64_t stride = entry(attrs.strides, 1), low = entry(attrs.pad_low, 0),
                     holes = entry(attrs.operand_dilation, 1), spread = entry(attrs.kernel_dilation, 1);
  const std::int64_t last = (in - 1) * holes, period = holes / std::gcd(stride, holes);
  double meetings = 0;
  for (std::int64_t k = 0; k < kernel; ++k) {
    const std::int64_t at = k * spread - low;
    if (at > last) break;
    std::int64_t first = at >= 0 ? 0 : (-at + stride - 1) / stride;
    const std::int64_t end = std::min(out, (last - at) / stride + 1);
    for (std::int64_t i = 0; i < period && (first * stride + at) % holes != 0; ++i) ++first;
    if (first < end && (first * stride + at) % holes == 0)
      meetings += static_cast<double>((end - 1 - first) / period + 1);
  }
  return meetings;
}

}  // namespace systole::passes
