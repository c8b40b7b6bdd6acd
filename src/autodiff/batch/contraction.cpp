// Rules of products. dot_general has batch axes for the case that both sides are mapped. A convolution has
// none: the examples become part of the batch axis (operand mapped), of the output features (kernel mapped)
// or groups (both). With groups, what a group is made of stays together.

#include <algorithm>
#include <utility>

#include "autodiff/batch/batch.h"

namespace systole::autodiff::batch {

namespace {

Value both_mapped(const Mapped& m, const ir::ConvolutionAxes& axes) {
  if (!m.size().is_static()) return map_by_scan(m)[0];  // the number of groups is a number
  const std::int64_t size = m.size().value();
  const Type& result = m.node.types[0];
  if (size == 0) return ops::full(m.graph, {result.dtype, m.with_axis(result.shape)}, 0);
  ir::ConvolutionAttrs a = m.as<ir::ConvolutionAttrs>();
  const bool batch_groups = a.batch_groups > 1;
  (batch_groups ? a.batch_groups : a.feature_groups) *= size;
  const Value x = fold(m.x[0], batch_groups ? axes.operand_batch : axes.operand_feature);
  const Value y = m.add({x, fold(m.x[1], axes.kernel_output)}, std::move(a));
  return unfold(y, result.shape, m.size(), axes.result_feature);
}

}  // namespace

Value move_axis(Value x, std::int64_t from, std::int64_t to) {
  if (from == to) return x;
  Ints permutation;
  for (std::int64_t i = 0; i < x.rank(); ++i)
    if (i != from) permutation.push_back(i);
  permutation.insert(permutation.begin() + to, from);
  return ops::transpose(x, std::move(permutation));
}

Value fold(Value x, std::int64_t axis, std::int64_t groups) {
  const Dim size = x.shape()[0];
  Shape merged, split{size};
  for (std::int64_t i = 1; i < x.rank(); ++i) {
    const Dim d = x.shape()[static_cast<std::size_t>(i)];
    merged.push_back(i == axis + 1 ? size * d : d);
    if (i == axis + 1 && groups > 1) split.push_back(groups);
    split.push_back(i == axis + 1 ? floor_div(d, groups) : d);
  }
  const Value cut = groups > 1 ? ops::reshape(x, std::move(split)) : x;
  return ops::reshape(move_axis(cut, 0, groups > 1 ? axis + 1 : axis), std::move(merged));
}

Value unfold(Value y, const Shape& example, Dim size, std::int64_t axis, std::int64_t groups) {
  Shape split, result{size};
  for (std::int64_t i = 0; i < example.rank(); ++i) {
    const Dim d = example[static_cast<std::size_t>(i)];
    result.push_back(d);
    if (i == axis && groups > 1) split.push_back(groups);
    if (i == axis) split.push_back(size);
    split.push_back(i == axis ? floor_div(d, groups) : d);
  }
  const Value moved = move_axis(ops::reshape(y, std::move(split)), groups > 1 ? axis + 1 : axis, 0);
  return groups > 1 ? ops::reshape(moved, std::move(result)) : moved;
}

Value map_dot_general(const Mapped& m) {
  ir::DotAttrs a = m.as<ir::DotAttrs>();
  const auto batch = static_cast<std::int64_t>(a.a_batch.size());
  const std::int64_t a_free = m.example(0).rank() - batch - static_cast<std::int64_t>(a.a_contract.size());
  for (const bool side : {false, true})
    if (m.batched[side]) {
      Ints &batch_axes = side ? a.b_batch : a.a_batch, &contract_axes = side ? a.b_contract : a.a_contract;
      batch_axes = shifted(batch_axes);
      contract_axes = shifted(contract_axes);
    }
  if (m.batched[0] && m.batched[1]) {
    a.a_batch = with_front(0, a.a_batch);
    a.b_batch = with_front(0, a.b_batch);
    return m.add(m.x, std::move(a));
  }
  // The new axis is the first of its side's free axes.
  return move_axis(m.add(m.x, std::move(a)), m.batched[0] ? batch : batch + a_free, 0);
}

Value map_convolution(const Mapped& m) {
  const auto& a = m.as<ir::ConvolutionAttrs>();
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(a.layout);
  if (m.batched[0] && m.batched[1]) return both_mapped(m, axes);
  const Shape& result = m.node.types[0].shape;
  if (m.batched[0]) {
    const Value y = m.add({fold(m.x[0], axes.operand_batch, a.batch_groups), m.x[1]}, a);
    return unfold(y, result, m.size(), axes.result_batch);
  }
  const std::int64_t groups = std::max(a.feature_groups, a.batch_groups);
  const Value y = m.add({m.x[0], fold(m.x[1], axes.kernel_output, groups)}, a);
  return unfold(y, result, m.size(), axes.result_feature, groups);
}

}  // namespace systole::autodiff::batch
