// reduce, arg_reduce, reduce_window and cumulative. Accumulators stay wide (f64 or 64-bit integers) until the
// end; elements are visited in row-major order, those of one run in eight interleaved lanes.

#include <algorithm>
#include <numeric>

#include "eval/combine.h"
#include "eval/internal.h"
#include "eval/strided.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

using ir::Node;

// An array seen as [outer, length, inner] around one axis.
struct Lanes {
  std::int64_t outer = 1, length = 1, inner = 1;
  Lanes(const Ints& dims, std::int64_t axis) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      (at < axis ? outer : at == axis ? length : inner) *= dims[i];
    }
  }
};

std::int64_t entry(const Ints& list, std::size_t i, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[i];
}

// All of a run, in lanes that do not wait for each other.
template <class W, class Op>
W combined(const W* values, std::int64_t n, W none, Op op) {
  constexpr std::int64_t kLanes = 8;
  W lanes[kLanes];
  std::fill_n(lanes, kLanes, none);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = op(lanes[lane], values[i + lane]);
  for (; i < n; ++i) lanes[0] = op(lanes[0], values[i]);
  for (std::int64_t lane = 1; lane < kLanes; ++lane) lanes[0] = op(lanes[0], lanes[lane]);
  return lanes[0];
}

// Along one axis, the windows that see an element at window position k: outputs first, first + step, … and
// the elements of x they see there.
struct Sight {
  std::int64_t count = 0;
  std::int64_t output = 0, output_step = 1;
  std::int64_t element = 0, element_step = 1;
};

Sight sight(const ir::WindowAttrs& a, std::size_t axis, std::int64_t k, std::int64_t size,
            std::int64_t outputs) {
  __extension__ using Wide = __int128;  // padding may be any 64-bit number
  const Wide stride = entry(a.strides, axis, 1), base = entry(a.base_dilation, axis, 1);
  const Wide shift = static_cast<Wide>(k) * entry(a.window_dilation, axis, 1) - entry(a.pad_low, axis, 0);
  const Wide last = (static_cast<Wide>(size) - 1) * base;  // place of the last element
  // Output o looks at place o·stride + shift, which must lie in [0, last] and be a multiple of base.
  Wide first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const Wide end = last < shift ? 0 : std::min<Wide>(outputs, (last - shift) / stride + 1);
  const Wide step = base / std::gcd(static_cast<std::int64_t>(stride), static_cast<std::int64_t>(base));
  const Wide give_up = std::min(end, first + step);
  while (first < give_up && (first * stride + shift) % base != 0) ++first;
  if (first >= give_up) return {};
  Sight s;
  s.count = static_cast<std::int64_t>((end - first + step - 1) / step);
  s.output = static_cast<std::int64_t>(first);
  s.element = static_cast<std::int64_t>((first * stride + shift) / base);
  if (s.count > 1) {
    s.output_step = static_cast<std::int64_t>(step);
    s.element_step = static_cast<std::int64_t>(step * stride / base);
  }
  return s;
}

}  // namespace

Literal reduce(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::ReduceAttrs>();
  const Ints dims = x[0].dims(), result_strides = row_major_strides(node.types[0].shape.dims());
  Ints into(dims.size(), 0);  // stride 0 on reduced axes
  std::size_t kept = 0;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (std::find(a.axes.begin(), a.axes.end(), static_cast<std::int64_t>(i)) == a.axes.end())
      into[i] = result_strides[kept++];
  const DType dtype = x[0].dtype();
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  return visit_wide(dtype, [&]<class W>() {
    const W none = identity<W>(a.kind, dtype);
    std::vector<W> sums(static_cast<std::size_t>(node.types[0].shape.count()), none);
    visit_combine<W>(a.kind, [&](auto op) {
      W buffer[kChunk];
      for_each_run<2>(dims, {row_major_strides(dims), into}, {0, 0},
                      [&](auto at, std::int64_t length, auto step) {
                        for (std::int64_t first = 0; first < length; first += kChunk) {
                          const std::int64_t n = std::min(kChunk, length - first);
                          load<W>(dtype, x[0].bytes() + (at[0] + first) * size, n, buffer);
                          W* sum = sums.data() + at[1] + first * step[1];
                          if (step[1] == 0) {
                            *sum = op(*sum, combined(buffer, n, none, op));
                          } else {
                            for (std::int64_t i = 0; i < n; ++i) sum[i] = op(sum[i], buffer[i]);
                          }
                        }
                      });
    });
    return store_all<W>(node.types[0], sums);
  });
}

Literal arg_reduce(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::ArgReduceAttrs>();
  const DType dtype = x[0].dtype();
  const Lanes lanes(x[0].dims(), a.axis);
  std::vector<std::int64_t> result(static_cast<std::size_t>(node.types[0].shape.count()), 0);
  if (result.empty()) return store_all<std::int64_t>(node.types[0], result);
  if (lanes.length == 0)
    throw Error(ErrorKind::kShape, "arg_reduce", "an empty axis has no largest or smallest element", {},
                x[0].type().to_string());
  const auto block = static_cast<std::size_t>(lanes.length * lanes.inner);
  const auto block_bytes = static_cast<std::int64_t>(block * size_of(dtype));
  visit_wide(dtype, [&]<class W>() {
    std::vector<W> values(block);
    const auto better = [largest = a.kind == ir::Combine::max](W v, W best) {
      if (best != best) return false;  // the first NaN stays
      return v != v || (largest ? v > best : v < best);
    };
    for (std::int64_t o = 0; o < lanes.outer; ++o) {
      load<W>(dtype, x[0].bytes() + o * block_bytes, static_cast<std::int64_t>(block), values.data());
      std::int64_t* index = result.data() + o * lanes.inner;
      for (std::int64_t i = 1; i < lanes.length; ++i)
        for (std::int64_t j = 0; j < lanes.inner; ++j)
          if (better(values[static_cast<std::size_t>(i * lanes.inner + j)],
                     values[static_cast<std::size_t>(index[j] * lanes.inner + j)]))
            index[j] = i;
    }
  });
  return store_all<std::int64_t>(node.types[0], result);
}

Literal cumulative(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::CumulativeAttrs>();
  const DType dtype = x[0].dtype();
  const Lanes lanes(x[0].dims(), a.axis);
  Literal out = Literal::uninitialized(node.types[0]);
  if (out.count() == 0) return out;
  const std::int64_t block = lanes.length * lanes.inner;
  const std::int64_t block_bytes = block * static_cast<std::int64_t>(size_of(dtype));
  std::byte* dst = out.mutable_bytes();
  visit_wide(dtype, [&]<class W>() {
    visit_combine<W>(a.kind, [&](auto op) {
      std::vector<W> values(static_cast<std::size_t>(block));
      for (std::int64_t o = 0; o < lanes.outer; ++o) {
        load<W>(dtype, x[0].bytes() + o * block_bytes, block, values.data());
        for (std::int64_t i = 1; i < lanes.length; ++i) {
          W* row = values.data() + (a.reverse ? lanes.length - 1 - i : i) * lanes.inner;
          const W* before = a.reverse ? row + lanes.inner : row - lanes.inner;
          for (std::int64_t j = 0; j < lanes.inner; ++j) row[j] = op(before[j], row[j]);
        }
        store<W>(dtype, values.data(), block, dst + o * block_bytes);
      }
    });
  });
  return out;
}

// For each position inside the window, one pass over all outputs that see an element there.
Literal reduce_window(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::WindowAttrs>();
  const Ints dims = x[0].dims(), result_dims = node.types[0].shape.dims();
  const Ints strides = row_major_strides(dims), result_strides = row_major_strides(result_dims);
  const std::size_t rank = dims.size();
  return visit_wide(x[0].dtype(), [&]<class W>() {
    const auto count = static_cast<std::size_t>(node.types[0].shape.count());
    std::vector<W> sums(count, identity<W>(a.kind, x[0].dtype()));
    if (count == 0 || x[0].count() == 0) return store_all<W>(node.types[0], sums);
    const std::vector<W> values = load_all<W>(x[0]);
    visit_combine<W>(a.kind, [&](auto op) {
      Ints k(rank, 0), counts(rank), from(rank), into(rank);
      std::size_t axis;
      do {
        std::int64_t element = 0, output = 0;
        for (axis = 0; axis < rank; ++axis) {
          const Sight s = sight(a, axis, k[axis], dims[axis], result_dims[axis]);
          counts[axis] = s.count;
          if (s.count == 0) break;
          from[axis] = s.element_step * strides[axis];
          into[axis] = s.output_step * result_strides[axis];
          element += s.element * strides[axis];
          output += s.output * result_strides[axis];
        }
        if (axis == rank)
          for_each_run<2>(counts, {from, into}, {element, output}, [&](auto at, std::int64_t n, auto step) {
            const W* v = values.data() + at[0];
            W* sum = sums.data() + at[1];
            for (std::int64_t i = 0; i < n; ++i) sum[i * step[1]] = op(sum[i * step[1]], v[i * step[0]]);
          });
        for (axis = rank; axis-- > 0;) {
          if (++k[axis] < a.window[axis]) break;
          k[axis] = 0;
        }
      } while (axis < rank);  // wraps past 0 when every window position was visited
    });
    return store_all<W>(node.types[0], sums);
  });
}

}  // namespace systole::eval
