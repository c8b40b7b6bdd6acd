// sort and top_k. Lanes are sorted as (key, index) pairs under a total order: NaN above every number and
// equal to itself, zeros equal.

#include <algorithm>

#include "eval/internal.h"
#include "eval/strided.h"
#include "eval/wide.h"

namespace systole::eval {

namespace {

using ir::Node;

template <class W>
struct Entry {
  W key;
  std::int64_t index;
};

template <class W>
bool below(W a, W b) {
  return a < b || (a == a && b != b);
}

// The order of entries; ties go by index, which makes any sort a stable one.
template <bool descending, class W>
bool precedes(const Entry<W>& l, const Entry<W>& r) {
  if (below(l.key, r.key)) return !descending;
  if (below(r.key, l.key)) return descending;
  return l.index < r.index;
}

// Calls f(offset of the lane's first element) for every lane along `axis`, in row-major order.
template <class F>
void for_each_lane(Ints dims, std::size_t axis, F&& f) {
  const Ints strides = row_major_strides(dims);
  if (dims[axis] == 0) return;
  dims[axis] = 1;
  for_each_run<1>(dims, {strides}, {0}, [&](auto at, std::int64_t n, auto step) {
    for (std::int64_t i = 0; i < n; ++i) f(at[0] + i * step[0]);
  });
}

// Reads the lane's keys; `step` counts elements.
template <class W>
void load_lane(const Literal& x, std::int64_t offset, std::int64_t step, std::vector<Entry<W>>& lane) {
  const auto size = static_cast<std::int64_t>(size_of(x.dtype()));
  if (step == 1) {
    std::vector<W> keys(lane.size());
    load<W>(x.dtype(), x.bytes() + offset * size, static_cast<std::int64_t>(lane.size()), keys.data());
    for (std::size_t i = 0; i < lane.size(); ++i) lane[i] = {keys[i], static_cast<std::int64_t>(i)};
    return;
  }
  for (std::size_t i = 0; i < lane.size(); ++i) {
    lane[i].index = static_cast<std::int64_t>(i);
    load<W>(x.dtype(), x.bytes() + (offset + lane[i].index * step) * size, 1, &lane[i].key);
  }
}

}  // namespace

Results sort(const Node& node, const Operands& x) {
  const auto& a = node.as<ir::SortAttrs>();
  Results out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(Literal::uninitialized(x[i].type()));
  if (x[0].count() == 0) return out;
  std::vector<std::byte*> dst;
  for (Literal& result : out) dst.push_back(result.mutable_bytes());
  const Ints dims = x[0].dims();
  const auto axis = static_cast<std::size_t>(a.axis);
  const std::int64_t step = row_major_strides(dims)[axis];
  visit_wide(x[0].dtype(), [&]<class W>() {
    std::vector<Entry<W>> lane(static_cast<std::size_t>(dims[axis]));
    for_each_lane(dims, axis, [&](std::int64_t offset) {
      load_lane<W>(x[0], offset, step, lane);
      std::sort(lane.begin(), lane.end(), [descending = a.descending](const Entry<W>& l, const Entry<W>& r) {
        return descending ? precedes<true>(l, r) : precedes<false>(l, r);
      });
      for (std::size_t i = 0; i < x.size(); ++i)
        visit_size(size_of(x[i].dtype()), [&]<class U>() {
          constexpr std::int64_t size = sizeof(U);
          std::int64_t at = offset * size;
          for (const Entry<W>& e : lane) {
            write<U>(dst[i] + at, read<U>(x[i].bytes() + (offset + e.index * step) * size));
            at += step * size;
          }
        });
    });
  });
  return out;
}

Results top_k(const Node& node, const Operands& x) {
  const std::int64_t k = node.as<ir::TopKAttrs>().k;
  Results out;
  for (const Type& type : node.types) out.push_back(Literal::uninitialized(type));
  if (out[0].count() == 0) return out;
  const Ints dims = x[0].dims();
  std::byte *values = out[0].mutable_bytes(), *indices = out[1].mutable_bytes();
  visit_wide(x[0].dtype(), [&]<class W>() {
    std::vector<Entry<W>> lane(static_cast<std::size_t>(dims.back()));
    std::int64_t at = 0;
    for_each_lane(dims, dims.size() - 1, [&](std::int64_t offset) {
      load_lane<W>(x[0], offset, 1, lane);
      std::partial_sort(lane.begin(), lane.begin() + k, lane.end(), precedes<true, W>);
      visit_size(size_of(x[0].dtype()), [&]<class U>() {
        constexpr std::int64_t size = sizeof(U);
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t from = lane[static_cast<std::size_t>(i)].index;
          write<U>(values + (at + i) * size, read<U>(x[0].bytes() + (offset + from) * size));
          write<std::int32_t>(indices + (at + i) * 4, static_cast<std::int32_t>(from));
        }
      });
      at += k;
    });
  });
  return out;
}

}  // namespace systole::eval
