// Functions that change shapes, and the methods of Tensor that name them.

#include "systole/tensor/shaping.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/creation.h"
#include "tensor/functions.h"
#include "tensor/record.h"

namespace systole {

using namespace recording;
using ir::Op;

namespace {

int rank_of(const Tensor& x, std::string_view where) { return checked(x, where).type.shape.rank(); }

Tensor cut(const Tensor& x, std::size_t axis, Dim start, Dim limit) {
  Ints starts(x.shape().size(), 0), strides(x.shape().size(), 1);
  Shape limits = x.shape();
  starts[axis] = start.value();
  limits[axis] = limit;
  return record(Op::slice, {x}, ir::SliceAttrs{starts, limits, strides});
}

std::int64_t static_size(const Tensor& x, std::size_t axis, std::string_view where) {
  const Dim d = x.shape()[axis];
  if (!d.is_static())
    throw Error(ErrorKind::kShape, std::string(where),
                fmt::format("the size of axis {} is not known yet", axis), {}, x.type().to_string());
  return d.value();
}

}  // namespace

Tensor reshape(const Tensor& x, Shape shape) {
  const Shape& from = checked(x, "reshape").type.shape;
  const auto fail = [&](const char* message) {
    throw Error(ErrorKind::kShape, "reshape", message, shape.to_string(), x.type().to_string());
  };
  const Shape wanted = shape;
  std::optional<std::size_t> open;
  Dim known = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != Dim(-1)) {
      known = known * shape[i];
      continue;
    }
    if (open) fail("more than one axis is -1");
    open = i;
  }
  if (open) {
    if (known == Dim(0)) fail("the axis of -1 could have any size");
    const std::optional<Dim> rest = exact_quotient(from.elements(), known);
    if (!rest) fail("the elements do not fill the shape");
    shape[*open] = *rest;
  } else if (shape.is_static() && from.is_static() && shape.count() != from.count()) {
    fail("the elements do not fill the shape");
  }
  return reshaped(x, std::move(shape));
}

Tensor flatten(const Tensor& x, std::int64_t first_axis, std::int64_t last_axis) {
  const int rank = rank_of(x, "flatten");
  if (rank == 0) return reshaped(x, {1});
  const auto first = static_cast<std::size_t>(normalize_axis(first_axis, rank, "flatten"));
  const auto last = static_cast<std::size_t>(normalize_axis(last_axis, rank, "flatten"));
  if (last < first)
    throw Error(ErrorKind::kInvalidArgument, "flatten", "the last axis stands before the first",
                fmt::format("{} or more", first), std::to_string(last));
  Shape shape;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    if (i > first && i <= last)
      shape[first] = shape[first] * x.shape()[i];
    else
      shape.push_back(x.shape()[i]);
  }
  return reshaped(x, std::move(shape));
}

Tensor squeeze(const Tensor& x, const Axes& which) {
  const Shape& from = checked(x, "squeeze").type.shape;
  const bool every = which.are_all();
  const Ints axes = every ? Ints() : ops::normalize_axes(which.list(), from.rank(), "squeeze");
  Shape shape;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
    if (named && from[i] != Dim(1))
      throw Error(ErrorKind::kShape, "squeeze", fmt::format("axis {} has another size", i), "1",
                  x.type().to_string());
    if (!named && !(every && from[i] == Dim(1))) shape.push_back(from[i]);
  }
  return reshaped(x, std::move(shape));
}

Tensor unsqueeze(const Tensor& x, std::int64_t axis) {
  const Shape& from = checked(x, "unsqueeze").type.shape;
  axis = normalize_axis(axis, from.rank() + 1, "unsqueeze");
  Shape shape;
  Ints axes;
  for (std::int64_t i = 0; i <= from.rank(); ++i) {
    if (i != axis) axes.push_back(i);
    shape.push_back(i == axis ? Dim(1) : from[static_cast<std::size_t>(i < axis ? i : i - 1)]);
  }
  return record(Op::broadcast, {x}, ir::BroadcastAttrs{std::move(shape), std::move(axes)});
}

Tensor broadcast_to(const Tensor& x, Shape shape) {
  const std::optional<Shape> joined = ops::broadcast_shape(checked(x, "broadcast_to").type.shape, shape);
  if (!joined || *joined != shape)
    throw Error(ErrorKind::kShape, "broadcast_to", "the shape does not stretch to the one wanted",
                shape.to_string(), x.type().to_string());
  return stretched(x, shape);
}

Tensor transpose(const Tensor& x, Ints permutation) {
  const int rank = rank_of(x, "transpose");
  if (permutation.empty())
    for (std::int64_t i = rank; i-- > 0;) permutation.push_back(i);
  return transposed(x, ops::normalize_axes(std::move(permutation), rank, "transpose"));
}

Tensor swap_axes(const Tensor& x, std::int64_t a, std::int64_t b) {
  const int rank = rank_of(x, "swap_axes");
  Ints order = ops::other_axes({}, rank);
  std::swap(order[static_cast<std::size_t>(normalize_axis(a, rank, "swap_axes"))],
            order[static_cast<std::size_t>(normalize_axis(b, rank, "swap_axes"))]);
  return transposed(x, std::move(order));
}

Tensor move_axis(const Tensor& x, std::int64_t from, std::int64_t to) {
  const int rank = rank_of(x, "move_axis");
  from = normalize_axis(from, rank, "move_axis");
  to = normalize_axis(to, rank, "move_axis");
  Ints order = ops::other_axes({from}, rank);
  order.insert(order.begin() + to, from);
  return transposed(x, std::move(order));
}

Tensor matrix_transpose(const Tensor& x) {
  if (rank_of(x, "matrix_transpose") < 2)
    throw Error(ErrorKind::kShape, "matrix_transpose", "not a matrix", "two axes or more",
                x.type().to_string());
  return swap_axes(x, -1, -2);
}

Tensor concat(std::span<const Tensor> parts, std::int64_t axis) {
  if (parts.empty()) throw Error(ErrorKind::kInvalidArgument, "concat", "no parts", "at least one");
  const std::int64_t along = normalize_axis(axis, rank_of(parts[0], "concat"), "concat");
  const std::vector<Tensor> same = promoted(parts, "concat");
  if (same.size() == 1) return same[0];
  return record_multi(Op::concat, same, ir::AxisAttrs{along})[0];
}

Tensor concat(std::initializer_list<Tensor> parts, std::int64_t axis) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis);
}

Tensor stack(std::span<const Tensor> parts, std::int64_t axis) {
  if (parts.empty()) throw Error(ErrorKind::kInvalidArgument, "stack", "no parts", "at least one");
  std::vector<Tensor> rows;
  for (const Tensor& x : parts) {
    if (checked(x, "stack").type.shape != parts[0].shape())
      throw Error(ErrorKind::kShape, "stack", "the shapes differ", parts[0].type().to_string(),
                  x.type().to_string());
    rows.push_back(x);
  }
  axis = normalize_axis(axis, parts[0].rank() + 1, "stack");
  for (Tensor& x : rows = promoted(rows, "stack")) x = unsqueeze(x, axis);
  return concat(rows, axis);
}

Tensor stack(std::initializer_list<Tensor> parts, std::int64_t axis) {
  return stack(std::span<const Tensor>(parts.begin(), parts.size()), axis);
}

std::vector<Tensor> split(const Tensor& x, Ints sizes, std::int64_t axis) {
  const auto along = static_cast<std::size_t>(normalize_axis(axis, rank_of(x, "split"), "split"));
  std::int64_t total = 0;
  bool negative = false;
  for (const std::int64_t n : sizes) {
    negative = negative || n < 0;
    total += n;
  }
  if (negative || total != static_size(x, along, "split"))
    throw Error(ErrorKind::kShape, "split", fmt::format("the sizes do not fill axis {}", along),
                x.type().to_string(), Shape(sizes).to_string());
  std::vector<Tensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t n : sizes) {
    parts.push_back(cut(x, along, start, start + n));
    start += n;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes, std::int64_t axis) {
  return split(x, Ints(sizes), axis);
}

std::vector<Tensor> split(const Tensor& x, std::int64_t parts, std::int64_t axis) {
  const auto along = static_cast<std::size_t>(normalize_axis(axis, rank_of(x, "split"), "split"));
  const std::int64_t size = static_size(x, along, "split");
  if (parts < 1 || size % parts != 0)
    throw Error(ErrorKind::kShape, "split",
                fmt::format("axis {} does not divide into {} parts", along, parts), {}, x.type().to_string());
  return split(x, Ints(static_cast<std::size_t>(parts), size / parts), axis);
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t parts, std::int64_t axis) {
  const auto along = static_cast<std::size_t>(normalize_axis(axis, rank_of(x, "chunk"), "chunk"));
  if (parts < 1)
    throw Error(ErrorKind::kInvalidArgument, "chunk", "the number of parts", "1 or more",
                std::to_string(parts));
  const std::int64_t size = static_size(x, along, "chunk");
  const std::int64_t step = std::max<std::int64_t>(size / parts + (size % parts != 0), 1);
  Ints sizes;
  for (std::int64_t start = 0; start < size; start += step) sizes.push_back(std::min(step, size - start));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, std::move(sizes), axis);
}

Tensor tile(const Tensor& x, Ints repetitions) {
  Shape from = checked(x, "tile").type.shape;
  for (const std::int64_t n : repetitions)
    if (n < 0)
      throw Error(ErrorKind::kInvalidArgument, "tile", "a number of repetitions", "0 or more",
                  std::to_string(n));
  while (repetitions.size() < from.size()) repetitions.insert(repetitions.begin(), 1);
  Shape wide, merged;  // (n, size) and (n·size) for every axis
  Ints axes;
  for (std::size_t i = 0; i < repetitions.size(); ++i) {
    const std::size_t added = repetitions.size() - from.size();
    const Dim size = i < added ? Dim(1) : from[i - added];
    wide.push_back(repetitions[i]);
    if (i >= added) axes.push_back(wide.rank());
    wide.push_back(size);
    merged.push_back(size * Dim(repetitions[i]));
  }
  return reshaped(record(Op::broadcast, {x}, ir::BroadcastAttrs{wide, axes}), merged);
}

Tensor repeat(const Tensor& x, std::int64_t times, std::int64_t axis) {
  const auto along = static_cast<std::size_t>(normalize_axis(axis, rank_of(x, "repeat"), "repeat"));
  if (times < 0)
    throw Error(ErrorKind::kInvalidArgument, "repeat", "how many times", "0 or more", std::to_string(times));
  Shape wide, merged = x.shape();
  Ints axes;
  for (std::size_t i = 0; i < x.shape().size(); ++i) {
    axes.push_back(wide.rank());
    wide.push_back(x.shape()[i]);
    if (i == along) wide.push_back(times);
  }
  merged[along] = merged[along] * Dim(times);
  return reshaped(record(Op::broadcast, {x}, ir::BroadcastAttrs{wide, axes}), merged);
}

Tensor flip(const Tensor& x, const Axes& which) {
  Ints axes = reduced_axes(which, x, "flip");
  return axes.empty() ? x : record(Op::reverse, {x}, ir::AxesAttrs{std::move(axes)});
}

Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis) {
  const auto along = static_cast<std::size_t>(normalize_axis(axis, rank_of(x, "roll"), "roll"));
  const std::int64_t size = static_size(x, along, "roll");
  if (size == 0) return x;
  const std::int64_t forward = (shift % size + size) % size;
  if (forward == 0) return x;
  return concat({cut(x, along, size - forward, size), cut(x, along, 0, size - forward)},
                static_cast<std::int64_t>(along));
}

Tensor roll(const Tensor& x, Ints shifts, Ints axes) {
  if (shifts.size() != axes.size())
    throw Error(ErrorKind::kInvalidArgument, "roll", "a shift for every axis", std::to_string(axes.size()),
                std::to_string(shifts.size()));
  Tensor y = x;
  for (std::size_t i = 0; i < axes.size(); ++i) y = roll(y, shifts[i], axes[i]);
  return y;
}

Tensor pad(const Tensor& x, Ints low, Ints high, const Tensor& value) {
  const DType dtype = checked(x, "pad").type.dtype;
  return record(Op::pad, {x, as_dtype(value, dtype)},
                ir::PadAttrs{std::move(low), std::move(high), Ints(x.shape().size(), 0)});
}

Tensor pad(const Tensor& x, Ints low, Ints high, PadMode mode) {
  if (mode == PadMode::constant) return pad(x, std::move(low), std::move(high), Tensor(0));
  const auto rank = static_cast<std::size_t>(rank_of(x, "pad"));
  if (low.size() != rank || high.size() != rank)
    throw Error(ErrorKind::kShape, "pad", "an entry for every axis", std::to_string(rank),
                fmt::format("{} and {}", low.size(), high.size()));
  Tensor y = x;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (low[axis] == 0 && high[axis] == 0) continue;
    const std::int64_t size = static_size(x, axis, "pad");
    const std::int64_t most = mode == PadMode::reflect ? size - 1 : std::numeric_limits<std::int64_t>::max();
    if (size == 0 || low[axis] < 0 || high[axis] < 0 || low[axis] > most || high[axis] > most)
      throw Error(
          ErrorKind::kShape, "pad", fmt::format("axis {} cannot be continued this far", axis),
          mode == PadMode::reflect ? "0 to one less than its size" : "0 or more, of an axis with elements",
          fmt::format("{} and {} of {}", low[axis], high[axis], x.type().to_string()));
    const auto side = [&](std::int64_t count, bool before) {
      if (mode == PadMode::edge)
        return repeat(cut(y, axis, before ? 0 : size - 1, before ? 1 : size), count,
                      static_cast<std::int64_t>(axis));
      const Tensor mirrored = before ? cut(y, axis, 1, count + 1) : cut(y, axis, size - 1 - count, size - 1);
      return flip(mirrored, {static_cast<std::int64_t>(axis)});
    };
    std::vector<Tensor> parts;
    if (low[axis] > 0) parts.push_back(side(low[axis], true));
    parts.push_back(y);
    if (high[axis] > 0) parts.push_back(side(high[axis], false));
    y = concat(parts, static_cast<std::int64_t>(axis));
  }
  return y;
}

Tensor Tensor::reshape(Shape shape) const { return systole::reshape(*this, std::move(shape)); }
Tensor Tensor::transpose(Ints permutation) const { return systole::transpose(*this, std::move(permutation)); }
Tensor Tensor::flatten(std::int64_t first_axis) const { return systole::flatten(*this, first_axis); }
Tensor Tensor::squeeze(const Axes& axes) const { return systole::squeeze(*this, axes); }
Tensor Tensor::unsqueeze(std::int64_t axis) const { return systole::unsqueeze(*this, axis); }

}  // namespace systole
