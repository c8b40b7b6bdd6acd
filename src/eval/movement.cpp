// Movement ops other than gather and scatter: each says where an element comes from by dims, strides and an
// offset, and copy() moves it, so none looks at a dtype.

#include <algorithm>

#include "eval/internal.h"
#include "eval/strided.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

using ir::Node;

// A scalar integer as int64; unsigned values above the range become the largest.
std::int64_t scalar_index(const Literal& x) {
  if (is_signed_integer(x.dtype())) {
    std::int64_t v;
    load<std::int64_t>(x.dtype(), x.bytes(), 1, &v);
    return v;
  }
  std::uint64_t v;
  load<std::uint64_t>(x.dtype(), x.bytes(), 1, &v);
  return static_cast<std::int64_t>(std::min<std::uint64_t>(v, INT64_MAX));
}

// The offset in `dims` of a block of `sizes` whose starts are operands from `first` on, clamped to lie
// inside.
std::int64_t block_offset(const Ints& dims, const Ints& sizes, const Operands& x, std::size_t first) {
  const Ints strides = row_major_strides(dims);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < dims.size(); ++i)
    offset += strides[i] * std::clamp<std::int64_t>(scalar_index(x[first + i]), 0, dims[i] - sizes[i]);
  return offset;
}

void fill(Literal& out, const Literal& scalar) {
  const Ints dims{out.count()};
  copy(dims, {scalar.bytes(), 0, {0}}, {out.mutable_bytes(), 0, {1}}, size_of(out.dtype()));
}

}  // namespace

Literal reshape(const Node& node, const Operands& x) { return x[0].reshaped(node.types[0].shape); }

Literal transpose(const Node& node, const Operands& x) {
  return transposed(x[0], node.as<ir::TransposeAttrs>().permutation);
}

Literal broadcast(const Node& node, const Operands& x) {
  const Ints& axes = node.as<ir::BroadcastAttrs>().axes;
  const Ints from = x[0].dims(), from_strides = row_major_strides(from), dims = node.types[0].shape.dims();
  Ints strides(dims.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (from[i] != 1) strides[static_cast<std::size_t>(axes[i])] = from_strides[i];
  return rearranged(x[0], dims, strides);
}

Literal slice(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::SliceAttrs>();
  const Ints dims = node.types[0].shape.dims();
  Ints strides = row_major_strides(x[0].dims());
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    offset += a.starts[i] * strides[i];
    // A stride longer than the axis picks one element; multiplying could overflow.
    if (dims[i] > 1) strides[i] *= a.strides[i];
  }
  return rearranged(x[0], dims, strides, offset);
}

Literal pad(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::PadAttrs>();
  Literal out = Literal::uninitialized(node.types[0]);
  fill(out, x[1]);
  if (out.count() == 0) return out;
  const Ints dims = out.dims();
  Ints kept = x[0].dims();
  SourceView from = view_of(x[0]);
  TargetView to{out.mutable_bytes(), 0, row_major_strides(dims)};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    // Element e lands at low + e·step; those outside [0, dims) are cut off.
    __extension__ using Wide = __int128;
    const Wide step = static_cast<Wide>(a.interior[i]) + 1, low = a.low[i];
    const Wide first = low >= 0 ? 0 : (-low + step - 1) / step;
    const Wide end = dims[i] - 1 < low ? 0 : std::min<Wide>(kept[i], (dims[i] - 1 - low) / step + 1);
    if (end <= first) return out;
    kept[i] = static_cast<std::int64_t>(end - first);
    from.offset += static_cast<std::int64_t>(first) * from.strides[i];
    to.offset += static_cast<std::int64_t>(low + first * step) * to.strides[i];
    if (kept[i] > 1) to.strides[i] *= static_cast<std::int64_t>(step);
  }
  copy(kept, from, to, size_of(out.dtype()));
  return out;
}

Literal joined(std::span<const Literal* const> parts, std::int64_t axis) {
  const auto at = static_cast<std::size_t>(axis);
  Ints dims = parts[0]->dims();
  for (const Literal* part : parts.subspan(1)) dims[at] += part->dims()[at];
  Literal out = Literal::uninitialized({parts[0]->dtype(), Shape(dims)});
  const Ints strides = row_major_strides(dims);
  TargetView to{out.mutable_bytes(), 0, strides};
  for (const Literal* part : parts) {
    const Ints part_dims = part->dims();
    copy(part_dims, view_of(*part), to, size_of(out.dtype()));
    to.offset += part_dims[at] * strides[at];
  }
  return out;
}

Literal part_of(const Literal& x, std::int64_t axis, std::int64_t start, std::int64_t count) {
  Ints dims = x.dims();
  const Ints strides = row_major_strides(dims);
  dims[static_cast<std::size_t>(axis)] = count;
  return rearranged(x, dims, strides, start * strides[static_cast<std::size_t>(axis)]);
}

Literal concat(const Node& node, const Operands& x) {
  std::vector<const Literal*> parts;
  for (std::size_t i = 0; i < x.size(); ++i) parts.push_back(&x[i]);
  return joined(parts, node.as<ir::AxisAttrs>().axis);
}

Literal reverse(const Node& node, const Operands& x) {
  const Ints dims = x[0].dims();
  Ints strides = row_major_strides(dims);
  std::int64_t offset = 0;
  for (std::int64_t axis : node.as<ir::AxesAttrs>().axes) {
    const auto i = static_cast<std::size_t>(axis);
    offset += (dims[i] - 1) * strides[i];
    strides[i] = -strides[i];
  }
  return rearranged(x[0], dims, strides, offset);
}

Literal dynamic_slice(const Node& node, const Operands& x) {
  const Ints dims = x[0].dims(), sizes = node.types[0].shape.dims();
  return rearranged(x[0], sizes, row_major_strides(dims), block_offset(dims, sizes, x, 1));
}

Literal dynamic_update_slice(const Node&, const Operands& x) {
  Literal out = x.take(0);
  const Ints dims = out.dims(), sizes = x[1].dims();
  if (x[1].count() == 0) return out;
  copy(sizes, view_of(x[1]), {out.mutable_bytes(), block_offset(dims, sizes, x, 2), row_major_strides(dims)},
       size_of(out.dtype()));
  return out;
}

}  // namespace systole::eval
