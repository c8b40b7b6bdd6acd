#include "compile/strided.h"

namespace systole::lower {

namespace {

using Pieces = std::vector<Strided::Piece>;

// The pieces of all axes, cut anew for another shape of as many elements.
std::optional<std::vector<Pieces>> cut(const std::vector<Pieces>& axes, const Shape& shape) {
  Pieces left;  // the outermost last
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis)
    left.insert(left.end(), axis->rbegin(), axis->rend());
  std::vector<Pieces> out(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t wanted = shape[i].value();
    while (wanted > 1) {
      if (left.empty()) return std::nullopt;
      Strided::Piece& next = left.back();
      if (wanted % next.size == 0) {
        wanted /= next.size;
        out[i].push_back(next);
        left.pop_back();
      } else if (next.size % wanted == 0) {
        const std::int64_t inner = next.size / wanted;
        out[i].push_back({wanted, next.stride * inner});
        next.size = inner;
        wanted = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  return out;
}

}  // namespace

Strided whole(const ir::Graph& graph, ir::ValueId v) {
  const Shape& shape = graph.type(v).shape;
  const Ints strides = row_major_strides(shape.dims());
  Strided out{v, 0, std::vector<Pieces>(shape.size())};
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i].value() != 1) out.axes[i].push_back({shape[i].value(), strides[i]});
  return out;
}

std::optional<Strided> moved(const ir::Graph&, const ir::Node& node, const Strided& operand) {
  const Shape& shape = node.types[0].shape;
  if (shape.count() == 0) return std::nullopt;
  Strided out{operand.source, operand.offset, std::vector<Pieces>(shape.size())};
  switch (node.op) {
    case ir::Op::reshape: {
      std::optional<std::vector<Pieces>> axes = cut(operand.axes, shape);
      if (!axes) return std::nullopt;
      out.axes = *std::move(axes);
      return out;
    }
    case ir::Op::transpose: {
      const Ints& permutation = node.as<ir::TransposeAttrs>().permutation;
      for (std::size_t i = 0; i < shape.size(); ++i)
        out.axes[i] = operand.axes[static_cast<std::size_t>(permutation[i])];
      return out;
    }
    case ir::Op::broadcast: {
      const Ints& axes = node.as<ir::BroadcastAttrs>().axes;
      for (std::size_t i = 0; i < axes.size(); ++i)
        out.axes[static_cast<std::size_t>(axes[i])] = operand.axes[i];
      for (std::size_t i = 0; i < shape.size(); ++i)
        if (out.axes[i].empty() && shape[i].value() != 1) out.axes[i].push_back({shape[i].value(), 0});
      return out;
    }
    case ir::Op::slice: {
      const auto& a = node.as<ir::SliceAttrs>();
      for (std::size_t i = 0; i < shape.size(); ++i) {
        if (operand.axes[i].empty()) continue;
        if (operand.axes[i].size() > 1) return std::nullopt;
        const std::int64_t stride = operand.axes[i][0].stride;
        out.offset += a.starts[i] * stride;
        if (shape[i].value() != 1)
          out.axes[i].push_back({shape[i].value(), stride * (a.strides.empty() ? 1 : a.strides[i])});
      }
      return out;
    }
    default: return std::nullopt;
  }
}

}  // namespace systole::lower
