#include "compile/flops.h"

#include <algorithm>
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

double node_flops(const ir::Node& node, std::span<const Type> in) {
  switch (node.op) {
    case Op::dot_general:
    case Op::convolution: return contraction_flops(node, in);
    case Op::reduce_window: {
      double window = 1;
      for (const std::int64_t size : node.as<ir::WindowAttrs>().window) window *= static_cast<double>(size);
      return count(node.types[0]) * window;
    }
    case Op::scan:
      return static_cast<double>(node.as<ir::ScanAttrs>().length.value()) * flops(*node.graphs[0]);
    case Op::cond: return std::max(flops(*node.graphs[0]), flops(*node.graphs[1]));
    case Op::while_loop: return flops(*node.graphs.back());
    case Op::composite: return flops(*node.graphs[0]);
    case Op::kernel_call: return node.graphs.empty() ? 0 : flops(*node.graphs[0]);
    default: break;
  }
  const ir::OpClass op_class = ir::info(node.op).op_class;
  if (op_class == ir::OpClass::elementwise) return count(node.types[0]);
  if (op_class == ir::OpClass::reduction && !in.empty()) return count(in[0]);
  return 0;
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

void find_largest(const ir::Graph& graph, double& most, DType& dtype) {
  visit(graph, [&](const ir::Node& node, const std::vector<Type>& in) {
    for (const ir::GraphRef& sub : node.graphs) find_largest(*sub, most, dtype);
    if (const double own = contraction_flops(node, in); own > most) {
      most = own;
      dtype = in[0].dtype;
    }
  });
}

}  // namespace

double flops(const ir::Graph& graph) {
  double all = 0;
  visit(graph, [&](const ir::Node& node, const std::vector<Type>& in) { all += node_flops(node, in); });
  return all;
}

DType flops_dtype(const ir::Graph& graph) {
  DType dtype = graph.outputs().empty() ? DType::f32 : graph.output_type(0).dtype;
  double most = 0;
  find_largest(graph, most, dtype);
  return dtype;
}

double convolution_meetings(std::int64_t in, std::int64_t kernel, std::int64_t out,
                            const ir::ConvolutionAttrs& attrs, std::size_t axis) {
  const auto entry = [&](const Ints& list, std::int64_t unset) { return list.empty() ? unset : list[axis]; };
  const std::int64_t stride = entry(attrs.strides, 1), low = entry(attrs.pad_low, 0),
                     holes = entry(attrs.operand_dilation, 1), spread = entry(attrs.kernel_dilation, 1);
  std::int64_t meetings = 0;
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t place = o * stride + k * spread - low;
      meetings += place >= 0 && place <= (in - 1) * holes && place % holes == 0 ? 1 : 0;
    }
  return static_cast<double>(meetings);
}

}  // namespace systole::passes
