#include "backend/splits.h"

#include <algorithm>

namespace systole::tpu {

namespace {

using ir::Op;

// The major dimension of each group of dimensions that hold the same elements keeps its split.
Parts reshaped(const Type& from, const Parts& parts, const Type& to) {
  Parts result = whole(to);
  std::size_t i = 0, j = 0;
  while (i < from.shape.size() && j < to.shape.size()) {
    const std::size_t first = i, target = j;
    std::int64_t a = from.shape[i++].value(), b = to.shape[j++].value();
    while (a != b) {
      if (a < b && i < from.shape.size())
        a *= from.shape[i++].value();
      else if (b < a && j < to.shape.size())
        b *= to.shape[j++].value();
      else
        return result;
    }
    if (to.shape[target].value() % parts[first] == 0) result[target] = parts[first];
  }
  return result;
}

Parts through_dot(const ir::DotAttrs& dot, const std::vector<Parts>& operands) {
  const Parts &a = operands[0], &b = operands[1];
  Parts result;
  for (std::size_t i = 0; i < dot.a_batch.size(); ++i)
    result.push_back(std::max(a[at(dot.a_batch[i])], b[at(dot.b_batch[i])]));
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!is_in(dot.a_batch, i) && !is_in(dot.a_contract, i)) result.push_back(a[i]);
  for (std::size_t i = 0; i < b.size(); ++i)
    if (!is_in(dot.b_batch, i) && !is_in(dot.b_contract, i)) result.push_back(b[i]);
  return result;
}

// Result axes that hold no slices follow the axes of the indices.
Parts through_gather(const ir::GatherAttrs& gather, const Parts& indices, Parts result) {
  std::size_t axis = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (is_in(gather.offset_axes, i)) continue;
    if (static_cast<std::int64_t>(axis) == gather.index_vector_axis) ++axis;
    if (axis < indices.size()) result[i] = indices[axis++];
  }
  return result;
}

// Dimensions that an op leaves as long as they were keep their split.
Parts same_sizes(const Type& from, const Parts& parts, const Type& to) {
  Parts result = whole(to);
  if (from.shape.size() != to.shape.size()) return result;
  for (std::size_t i = 0; i < result.size(); ++i)
    if (from.shape[i] == to.shape[i]) result[i] = parts[i];
  return result;
}

}  // namespace

Parts whole(const Type& type) { return Parts(type.shape.size(), 1); }

Parts joined(Parts a, const Parts& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) a[i] = std::max(a[i], b[i]);
  return a;
}

std::optional<Parts> own_parts(const ir::Node& node, std::size_t result,
                               const std::optional<ir::Mesh>& mesh) {
  if (!mesh || node.shardings.empty() || !node.shardings[result]) return std::nullopt;
  Parts parts = whole(node.types[result]);
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (const std::string& axis : node.shardings[result]->dims[i]) parts[i] *= mesh->axis(axis).size;
  return parts;
}

Parts parts_through(const ir::Graph& graph, const ir::Node& node, const std::vector<Parts>& operands) {
  const Type& to = node.types[0];
  Parts result = whole(to);
  if (operands.empty()) return result;
  const Type& from = graph.type(node.operands[0]);
  switch (node.op) {
    case Op::reshape: return reshaped(from, operands[0], to);
    case Op::transpose: {
      const Ints& permutation = node.as<ir::TransposeAttrs>().permutation;
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = operands[0][at(permutation[i])];
      return result;
    }
    case Op::broadcast: {
      const Ints& axes = node.as<ir::BroadcastAttrs>().axes;
      for (std::size_t i = 0; i < axes.size(); ++i)
        if (from.shape[i] == to.shape[at(axes[i])]) result[at(axes[i])] = operands[0][i];
      return result;
    }
    case Op::reduce: {
      const Ints& axes = node.as<ir::ReduceAttrs>().axes;
      std::size_t kept = 0;
      for (std::size_t i = 0; i < operands[0].size(); ++i)
        if (!is_in(axes, i)) result[kept++] = operands[0][i];
      return result;
    }
    case Op::arg_reduce: {
      const std::size_t axis = at(node.as<ir::ArgReduceAttrs>().axis);
      for (std::size_t i = 0; i < result.size(); ++i) result[i] = operands[0][i < axis ? i : i + 1];
      return result;
    }
    case Op::dot_general: return through_dot(node.as<ir::DotAttrs>(), operands);
    case Op::convolution: {
      const ir::ConvolutionAxes axes = ir::parse_convolution_layout(node.as<ir::ConvolutionAttrs>().layout);
      result[at(axes.result_batch)] = operands[0][at(axes.operand_batch)];
      result[at(axes.result_feature)] = operands[1][at(axes.kernel_output)];
      return result;
    }
    case Op::gather: return through_gather(node.as<ir::GatherAttrs>(), operands[1], result);
    default: break;
  }
  const ir::OpClass kind = ir::info(node.op).op_class;
  if (kind == ir::OpClass::collective || node.op == Op::kernel_call) return result;
  if (kind != ir::OpClass::elementwise) return same_sizes(from, operands[0], to);
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (operands[k].size() == result.size()) result = joined(result, operands[k]);
  return result;
}

}  // namespace systole::tpu
