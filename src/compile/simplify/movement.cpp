// Identities of sources and movement ops: moves that move nothing, chains of one kind merged into one, moves
// of a value that is the same everywhere, and dynamic positions that are known.

#include <algorithm>
#include <numeric>

#include "compile/simplify/rules.h"

namespace systole::passes {

namespace {

using M = const Match&;
using R = Replacement;

std::size_t index(std::int64_t axis) { return static_cast<std::size_t>(axis); }
bool is_unit(Dim d) { return d == Dim(1); }
bool all_zero(const Ints& list) {
  return std::all_of(list.begin(), list.end(), [](auto x) { return x == 0; });
}

// For these ops an unchanged type means unchanged elements.
R unmoved(M m) { return m[0].type() == m.type() ? m[0] : Value(); }

// Any arrangement of one scalar is that scalar broadcast.
R moved_scalar(M m) {
  if (!made_by(m[0], Op::broadcast) || operand(m[0]).rank() != 0) return {};
  return m.graph.add(Op::broadcast, {operand(m[0])}, ir::BroadcastAttrs{m.type().shape, {}});
}

R splat_constant(M m) {
  const Literal& value = m.attrs<ir::ConstantAttrs>().value;
  if (value.count() <= 1) return {};
  const Value compact = compact_constant(m.graph, value);
  return made_by(compact, Op::constant) ? Value() : compact;
}

R iota_of_one(M m) {
  const auto& a = m.attrs<ir::IotaAttrs>();
  return is_unit(a.shape[index(a.axis)]) ? filled(m, 0) : Value();
}

R reshape_chain(M m) {
  if (!made_by(m[0], Op::reshape)) return {};
  return m.graph.add(Op::reshape, {operand(m[0])}, m.attrs<ir::ReshapeAttrs>());
}

R transpose_of_nothing(M m) {
  const Ints& p = m.attrs<ir::TransposeAttrs>().permutation;
  return std::is_sorted(p.begin(), p.end()) ? m[0] : Value();
}

R transpose_chain(M m) {
  if (!made_by(m[0], Op::transpose)) return {};
  const Ints& inner = maker(m[0]).as<ir::TransposeAttrs>().permutation;
  Ints merged;
  for (std::int64_t axis : m.attrs<ir::TransposeAttrs>().permutation) merged.push_back(inner[index(axis)]);
  return m.graph.add(Op::transpose, {operand(m[0])}, ir::TransposeAttrs{merged});
}

// When only axes of size 1 change places the row-major order stays.
R transpose_of_units(M m) {
  Ints moved;
  for (std::int64_t axis : m.attrs<ir::TransposeAttrs>().permutation)
    if (!is_unit(m[0].shape()[index(axis)])) moved.push_back(axis);
  if (!std::is_sorted(moved.begin(), moved.end())) return {};
  return m.graph.add(Op::reshape, {m[0]}, ir::ReshapeAttrs{m.type().shape});
}

R broadcast_chain(M m) {
  if (!made_by(m[0], Op::broadcast)) return {};
  const auto& outer = m.attrs<ir::BroadcastAttrs>();
  Ints axes;
  for (std::int64_t axis : maker(m[0]).as<ir::BroadcastAttrs>().axes) axes.push_back(outer.axes[index(axis)]);
  return m.graph.add(Op::broadcast, {operand(m[0])}, ir::BroadcastAttrs{outer.shape, axes});
}

R slice_chain(M m) {
  if (!made_by(m[0], Op::slice) || !m.type().shape.is_static()) return {};
  const auto& inner = maker(m[0]).as<ir::SliceAttrs>();
  const auto& outer = m.attrs<ir::SliceAttrs>();
  ir::SliceAttrs merged;
  for (std::size_t i = 0; i < outer.starts.size(); ++i) {
    const std::int64_t size = m.type().shape[i].value();
    // Of an empty or single axis the stride has no meaning and might be huge; with two or more elements it is
    // below the operand's size, so nothing overflows.
    const std::int64_t stride = size < 2 ? 1 : inner.strides[i] * outer.strides[i];
    const std::int64_t start = size == 0 ? 0 : inner.starts[i] + outer.starts[i] * inner.strides[i];
    merged.starts.push_back(start);
    merged.limits.push_back(size == 0 ? 0 : start + (size - 1) * stride + 1);
    merged.strides.push_back(stride);
  }
  return m.graph.add(Op::slice, {operand(m[0])}, merged);
}

// The part is taken first, from the other end, and then turned.
R slice_of_reverse(M m) {
  if (!made_by(m[0], Op::reverse) || !m[0].shape().is_static() || !m.type().shape.is_static()) return {};
  ir::SliceAttrs part = m.attrs<ir::SliceAttrs>();
  const ir::AxesAttrs& turned = maker(m[0]).as<ir::AxesAttrs>();
  for (const std::int64_t axis : turned.axes) {
    const std::size_t i = index(axis);
    const std::int64_t size = m[0].shape()[i].value(), count = m.type().shape[i].value();
    if (count == 0) return {};
    if (count == 1) part.strides[i] = 1;  // it has no meaning and might be huge
    const std::int64_t first = part.starts[i], last = first + (count - 1) * part.strides[i];
    part.starts[i] = size - 1 - last;
    part.limits[i] = size - first;
  }
  return m.graph.add(Op::reverse, {m.graph.add(Op::slice, {operand(m[0])}, part)}, turned);
}

R pad_of_nothing(M m) {
  const auto& a = m.attrs<ir::PadAttrs>();
  return all_zero(a.low) && all_zero(a.high) && all_zero(a.interior) ? m[0] : Value();
}

// Nested concats of one axis are joined up to this many operands: every link of a chain copies the list of
// the one before it.
constexpr std::size_t kMaxJoined = 64;

// Operands that add nothing are left out, and nested concats of one axis joined.
R concat_operands(M m) {
  const std::int64_t axis = m.attrs<ir::AxisAttrs>().axis;
  Values kept;
  for (Value v : m.operands)
    if (!(v.shape()[index(axis)] == Dim(0))) kept.push_back(v);
  if (kept.empty()) return m[0];
  if (kept.size() == 1) return kept[0];
  Values parts;
  std::size_t count = kept.size();
  for (Value v : kept) {
    const std::size_t inner = made_by(v, Op::concat) ? maker(v).operands.size() : 0;
    const bool fits = inner != 0 && count - 1 + inner <= kMaxJoined;
    if (!fits || maker(v).as<ir::AxisAttrs>().axis != axis) {
      parts.push_back(v);
      continue;
    }
    for (std::size_t i = 0; i < inner; ++i) parts.push_back(operand(v, i));
    count += inner - 1;
  }
  return parts == m.operands ? Value() : m.graph.add(Op::concat, parts, ir::AxisAttrs{axis});
}

// Axes flipped once by this or the reverse before it, less those of size 1.
R reverse_axes(M m) {
  const Ints& own = m.attrs<ir::AxesAttrs>().axes;
  const bool chain = made_by(m[0], Op::reverse);
  const Value x = chain ? operand(m[0]) : m[0];
  const Ints before = chain ? maker(m[0]).as<ir::AxesAttrs>().axes : Ints{};
  const auto flips = [](const Ints& axes, std::int64_t a) {
    return std::find(axes.begin(), axes.end(), a) != axes.end();
  };
  Ints axes;
  for (std::int64_t a = 0; a < x.rank(); ++a)
    if (flips(own, a) != flips(before, a) && !is_unit(x.shape()[index(a)])) axes.push_back(a);
  if (axes.empty()) return x;
  return chain || axes.size() < own.size() ? m.graph.add(Op::reverse, {x}, ir::AxesAttrs{axes}) : Value();
}

// Last axes of which every slice has all are one axis: a loop over rows in place of loops over their parts.
R gather_of_rows(M m) {
  const Shape& shape = m[0].shape();
  if (!shape.is_static() || !m.type().shape.is_static()) return {};
  ir::GatherAttrs rows = m.attrs<ir::GatherAttrs>();
  const auto is_in = [](const Ints& axes, std::int64_t axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  std::int64_t joined = 0;
  for (std::int64_t i = m[0].rank() - 1, to = m.type().shape.rank() - 1; i >= 0; --i, --to, ++joined)
    if (!is_in(rows.offset_axes, to) || is_in(rows.collapsed_axes, i) || is_in(rows.operand_batch_axes, i) ||
        is_in(rows.start_index_map, i) || !(rows.slice_sizes[index(i)] == shape[index(i)]))
      break;
  if (joined < 2) return {};
  const auto kept = index(m[0].rank() - joined);
  std::int64_t size = 1;
  for (std::size_t i = kept; i < shape.size(); ++i) size *= shape[i].value();
  Shape from(std::span(shape.begin(), kept)), sizes(std::span(rows.slice_sizes.begin(), kept));
  from.push_back(size);
  sizes.push_back(size);
  rows.slice_sizes = sizes;
  rows.offset_axes.resize(rows.offset_axes.size() - index(joined - 1));
  const Value x = m.graph.add(Op::reshape, {m[0]}, ir::ReshapeAttrs{from});
  return m.graph.add(Op::reshape, {m.graph.add(Op::gather, {x, m[1]}, rows)},
                     ir::ReshapeAttrs{m.type().shape});
}

R slice_at_known_starts(M m) {
  if (!m[0].shape().is_static()) return {};
  ir::SliceAttrs slice;
  for (std::size_t i = 0; i < m.type().shape.size(); ++i) {
    const std::optional<std::int64_t> wanted = integer(m[i + 1]);
    if (!wanted) return {};
    const std::int64_t size = m.type().shape[i].value(), last = m[0].shape()[i].value() - size;
    const std::int64_t start = std::clamp<std::int64_t>(*wanted, 0, last);
    slice.starts.push_back(start);
    slice.limits.push_back(start + size);
    slice.strides.push_back(1);
  }
  return m.graph.add(Op::slice, {m[0]}, slice);
}

// An update as large as the operand replaces all of it, since its start is clamped to 0.
R update_of_everything(M m) { return m[1].type() == m.type() ? m[1] : Value(); }

// Combining one element with the identity gives the element, but 0 + -0 is +0: a float sum stays.
R reduce_of_units(M m) {
  const auto& a = m.attrs<ir::ReduceAttrs>();
  const bool units =
      std::all_of(a.axes.begin(), a.axes.end(), [&](auto i) { return is_unit(m[0].shape()[index(i)]); });
  if (!units || (a.kind == ir::Combine::sum && is_float(m.type().dtype))) return {};
  return m.graph.add(Op::reshape, {m[0]}, ir::ReshapeAttrs{m.type().shape});
}

R sort_of_units(M m) {
  return is_unit(m[0].shape()[index(m.attrs<ir::SortAttrs>().axis)]) ? R(m.operands) : R();
}

constexpr Rule kRules[] = {
    {Op::constant, splat_constant},
    {Op::iota, iota_of_one},
    {Op::reshape, unmoved},
    {Op::reshape, moved_scalar},
    {Op::reshape, reshape_chain},
    {Op::transpose, transpose_of_nothing},
    {Op::transpose, moved_scalar},
    {Op::transpose, transpose_chain},
    {Op::transpose, transpose_of_units},
    {Op::broadcast, unmoved},
    {Op::broadcast, broadcast_chain},
    {Op::slice, unmoved},
    {Op::slice, moved_scalar},
    {Op::slice, slice_chain},
    {Op::slice, slice_of_reverse},
    {Op::pad, pad_of_nothing},
    {Op::concat, concat_operands},
    {Op::reverse, moved_scalar},
    {Op::reverse, reverse_axes},
    {Op::gather, moved_scalar},
    {Op::gather, gather_of_rows},
    {Op::dynamic_slice, unmoved},
    {Op::dynamic_slice, moved_scalar},
    {Op::dynamic_slice, slice_at_known_starts},
    {Op::dynamic_update_slice, update_of_everything},
    {Op::reduce, reduce_of_units},
    {Op::sort, sort_of_units},
};

}  // namespace

std::span<const Rule> movement_rules() { return kRules; }

}  // namespace systole::passes
