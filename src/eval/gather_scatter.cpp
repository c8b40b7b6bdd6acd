// gather and scatter with StableHLO's dimension numbers. Both are a walk over the slices' array (gather's
// result, scatter's updates) in row-major order: an axis of it steps through x (a window axis), or through
// the index vectors (an index axis; it steps through x too when paired with a batch axis), and each index
// vector adds its start offset.

#include <algorithm>
#include <utility>

#include "eval/combine.h"
#include "eval/internal.h"
#include "eval/strided.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

using ir::Node;

bool contains(const Ints& list, std::int64_t v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

// The dimension numbers of either op.
struct Numbers {
  const Ints& window_axes;   // of the slices' array
  const Ints& dropped_axes;  // of x
  const Ints& operand_batch_axes;
  const Ints& index_batch_axes;
  const Ints& index_map;
  std::int64_t index_vector_axis;
};

struct Walk {
  Ints dims;                         // of the slices' array
  Ints x_strides;                    // how each of its axes steps through x …
  Ints vector_strides;               // … and through the index vectors
  Ints window;                       // size of the slice along each axis of x
  std::int64_t vectors = 1;          // number of index vectors
  std::int64_t width = 1;            // components of each
  std::vector<std::int64_t> starts;  // [vectors, width]
};

std::vector<std::int64_t> load_indices(const Literal& indices) {
  if (is_signed_integer(indices.dtype())) return load_all<std::int64_t>(indices);
  const std::vector<std::uint64_t> raw = load_all<std::uint64_t>(indices);
  std::vector<std::int64_t> out(raw.size());
  std::transform(raw.begin(), raw.end(), out.begin(), [](std::uint64_t v) {
    return static_cast<std::int64_t>(std::min<std::uint64_t>(v, INT64_MAX));
  });
  return out;
}

Walk plan(const Numbers& n, const Ints& x_dims, const Literal& indices, const Ints& slices_dims) {
  Walk walk;
  walk.dims = slices_dims;
  walk.window = Ints(x_dims.size(), 1);
  const Ints x_strides = row_major_strides(x_dims), index_dims = indices.dims();

  // Index vectors last, so that a vector is contiguous.
  Ints permutation, batch_axes, batch_dims;
  for (std::size_t i = 0; i < index_dims.size(); ++i) {
    if (static_cast<std::int64_t>(i) == n.index_vector_axis) continue;
    permutation.push_back(static_cast<std::int64_t>(i));
    batch_dims.push_back(index_dims[i]);
  }
  batch_axes = permutation;
  if (n.index_vector_axis < indices.rank()) permutation.push_back(n.index_vector_axis);
  walk.starts = load_indices(transposed(indices, permutation));
  walk.width = static_cast<std::int64_t>(n.index_map.size());
  for (std::int64_t d : batch_dims) walk.vectors *= d;
  const Ints batch_strides = row_major_strides(batch_dims);

  std::size_t next_batch = 0, next_x = 0;
  for (std::size_t i = 0; i < slices_dims.size(); ++i) {
    std::int64_t x_axis = -1, vector_stride = 0;
    if (contains(n.window_axes, static_cast<std::int64_t>(i))) {
      while (contains(n.dropped_axes, static_cast<std::int64_t>(next_x)) ||
             contains(n.operand_batch_axes, static_cast<std::int64_t>(next_x)))
        ++next_x;
      x_axis = static_cast<std::int64_t>(next_x++);
      walk.window[static_cast<std::size_t>(x_axis)] = slices_dims[i];
    } else {
      vector_stride = batch_strides[next_batch];
      const auto* paired =
          std::find(n.index_batch_axes.begin(), n.index_batch_axes.end(), batch_axes[next_batch]);
      if (paired != n.index_batch_axes.end())
        x_axis = n.operand_batch_axes[static_cast<std::size_t>(paired - n.index_batch_axes.begin())];
      ++next_batch;
    }
    walk.x_strides.push_back(x_axis < 0 ? 0 : x_strides[static_cast<std::size_t>(x_axis)]);
    walk.vector_strides.push_back(vector_stride);
  }
  return walk;
}

// Elements that lie at even distances in both arrays; offsets and steps count elements.
struct Run {
  std::int64_t slices, x, length;
  std::int64_t slices_step = 1, x_step = 1;
};

// Calls apply(Run) in row-major order of the slices, where offsets[v] is what index vector v adds to the
// offset in x; vectors with kSkip are left out.
constexpr std::int64_t kSkip = INT64_MIN;

template <class Apply>
void for_each_slice_run(const Walk& walk, const std::vector<std::int64_t>& offsets, Apply&& apply) {
  for_each_run<3>(walk.dims, {row_major_strides(walk.dims), walk.x_strides, walk.vector_strides}, {0, 0, 0},
                  [&](auto at, std::int64_t length, auto step) {
                    if (step[2] == 0) {
                      const std::int64_t start = offsets[static_cast<std::size_t>(at[2])];
                      if (start != kSkip) apply(Run{at[0], at[1] + start, length, step[0], step[1]});
                      return;
                    }
                    for (std::int64_t i = 0; i < length; ++i) {
                      const std::int64_t start = offsets[static_cast<std::size_t>(at[2] + i * step[2])];
                      if (start != kSkip) apply(Run{at[0] + i * step[0], at[1] + i * step[1] + start, 1});
                    }
                  });
}

// Calls apply(…) as above for the updates of every window that lies wholly inside x.
template <class Apply>
void for_each_update(const Walk& walk, const Numbers& n, const Ints& x_dims, Apply&& apply) {
  const Ints x_strides = row_major_strides(x_dims);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(walk.vectors));
  for (std::size_t v = 0; v < offsets.size(); ++v) {
    for (std::size_t c = 0; c < n.index_map.size(); ++c) {
      const auto axis = static_cast<std::size_t>(n.index_map[c]);
      const std::int64_t start = walk.starts[v * static_cast<std::size_t>(walk.width) + c];
      if (start < 0 || start > x_dims[axis] - walk.window[axis]) {
        offsets[v] = kSkip;
        break;
      }
      offsets[v] += start * x_strides[axis];
    }
  }
  for_each_slice_run(walk, offsets, std::forward<Apply>(apply));
}

// Sums and products of floats narrower than f64 are kept wide until all updates of an element are in, so that
// they round once. Dense: all of x is widened. Sparse, when few elements are touched: updates are grouped by
// place instead, which leaves the rest of x alone. Both apply the updates of an element in the same order.
template <class Op>
void combine_rounding_once(Literal& x, const Literal& updates, const Walk& walk, const Numbers& n, Op op) {
  const Ints x_dims = x.dims();
  const DType dtype = x.dtype();
  const std::vector<double> values = load_all<double>(updates);
  const auto value = [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
  if (updates.count() >= x.count() / 8) {
    std::vector<double> sums = load_all<double>(x);
    for_each_update(walk, n, x_dims, [&](const Run& run) {
      for (std::int64_t i = 0; i < run.length; ++i) {
        double& sum = sums[static_cast<std::size_t>(run.x + i * run.x_step)];
        sum = op(sum, value(run.slices + i * run.slices_step));
      }
    });
    store<double>(dtype, sums.data(), x.count(), x.mutable_bytes());
    return;
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> touched;  // place in x, update
  touched.reserve(values.size());
  for_each_update(walk, n, x_dims, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.length; ++i)
      touched.emplace_back(run.x + i * run.x_step, run.slices + i * run.slices_step);
  });
  std::sort(touched.begin(),
            touched.end());  // updates rise in row-major order, so this is their order of application
  std::byte* bytes = x.mutable_bytes();
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  for (std::size_t i = 0; i < touched.size();) {
    const std::int64_t place = touched[i].first;
    double sum;
    load<double>(dtype, bytes + place * size, 1, &sum);
    for (; i < touched.size() && touched[i].first == place; ++i) sum = op(sum, value(touched[i].second));
    store<double>(dtype, &sum, 1, bytes + place * size);
  }
}

template <class W, class Op>
void combine_in_place(Literal& x, const Literal& updates, const Walk& walk, const Numbers& n, Op op) {
  const Ints x_dims = x.dims();
  const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
  std::byte* dst = x.mutable_bytes();
  W a[kChunk], b[kChunk];
  for_each_update(walk, n, x_dims, [&](const Run& run) {
    const std::int64_t chunk = run.slices_step == 1 && run.x_step == 1 ? kChunk : 1;
    for (std::int64_t i = 0; i < run.length; i += chunk) {
      const std::int64_t m = std::min(chunk, run.length - i);
      std::byte* place = dst + (run.x + i * run.x_step) * size;
      load<W>(x.dtype(), place, m, a);
      load<W>(x.dtype(), updates.bytes() + (run.slices + i * run.slices_step) * size, m, b);
      for (std::int64_t j = 0; j < m; ++j) a[j] = op(a[j], b[j]);
      store<W>(x.dtype(), a, m, place);
    }
  });
}

}  // namespace

Literal gather(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::GatherAttrs>();
  Literal out = Literal::uninitialized(node.types[0]);
  if (out.count() == 0) return out;
  if (x[0].count() == 0)
    throw Error(ErrorKind::kShape, "gather", "elements are taken from an operand that has none", {},
                x[0].type().to_string());
  const Numbers n{a.offset_axes,      a.collapsed_axes,  a.operand_batch_axes,
                  a.index_batch_axes, a.start_index_map, a.index_vector_axis};
  const Ints x_dims = x[0].dims(), x_strides = row_major_strides(x_dims);
  const Walk walk = plan(n, x_dims, x[1], out.dims());
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(walk.vectors));
  for (std::size_t v = 0; v < offsets.size(); ++v)
    for (std::size_t c = 0; c < n.index_map.size(); ++c) {
      const auto axis = static_cast<std::size_t>(n.index_map[c]);
      const std::int64_t start = walk.starts[v * static_cast<std::size_t>(walk.width) + c];
      offsets[v] += x_strides[axis] * std::clamp<std::int64_t>(start, 0, x_dims[axis] - walk.window[axis]);
    }
  std::byte* dst = out.mutable_bytes();
  visit_size(size_of(out.dtype()), [&]<class U>() {
    for_each_slice_run(walk, offsets, [&](const Run& run) {
      copy_run<U>(x[0].bytes(), run.x, run.x_step, dst, run.slices, run.slices_step, run.length);
    });
  });
  return out;
}

Literal scatter(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::ScatterAttrs>();
  Literal out = x.take(0);
  const Literal& updates = x[2];
  if (updates.count() == 0 || out.count() == 0) return out;
  const Numbers n{a.update_window_axes, a.inserted_axes, a.operand_batch_axes,
                  a.index_batch_axes,   a.index_map,     a.index_vector_axis};
  const Ints x_dims = out.dims();
  const Walk walk = plan(n, x_dims, x[1], updates.dims());
  if (a.combine == ir::Combine::set) {
    std::byte* dst = out.mutable_bytes();
    visit_size(size_of(out.dtype()), [&]<class U>() {
      for_each_update(walk, n, x_dims, [&](const Run& run) {
        copy_run<U>(updates.bytes(), run.slices, run.slices_step, dst, run.x, run.x_step, run.length);
      });
    });
    return out;
  }
  const bool rounds = is_float(out.dtype()) && out.dtype() != DType::f64 &&
                      (a.combine == ir::Combine::sum || a.combine == ir::Combine::prod);
  visit_wide(out.dtype(), [&]<class W>() {
    visit_combine<W>(a.combine, [&](auto op) {
      if constexpr (is_real<W>)
        if (rounds) return combine_rounding_once(out, updates, walk, n, op);
      combine_in_place<W>(out, updates, walk, n, op);
    });
  });
  return out;
}

}  // namespace systole::eval
