// Rules of reductions: sums repeat their cotangent, extremes pass it to the elements that won, sorts send it
// back along the permutation.

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "autodiff/rules.h"

#pragma GCC diagnostic error "-Wswitch"  // an op without a rule does not compile

namespace systole::autodiff {

namespace {

using namespace ops;

Value along(Value x, const Shape& shape, const Ints& reduced) {
  Ints kept;
  for (std::int64_t i = 0; i < shape.rank(); ++i)
    if (std::find(reduced.begin(), reduced.end(), i) == reduced.end()) kept.push_back(i);
  return broadcast(x, shape, kept);
}

// The products of all elements before, and of all after, each one along an axis; no division, so zeros are
// fine.
Value product_of_others(Value x, std::int64_t axis) {
  const Dim size = x.shape()[static_cast<std::size_t>(axis)];
  if (size == Dim(0)) return x;
  const auto shifted = [&](bool from_end) {
    const Value running = cumulative(x, Combine::prod, axis, from_end);
    Ints low(static_cast<std::size_t>(x.rank()), 0), high = low;
    low[static_cast<std::size_t>(axis)] = from_end ? -1 : 1;
    high[static_cast<std::size_t>(axis)] = from_end ? 1 : -1;
    return pad(running, scalar_like(x, 1), low, high);
  };
  const Value before = shifted(false);
  return mul(before, shifted(true));
}

Cotangents reduce_rule(const Adjoint& a) {
  const auto& r = a.as<ir::ReduceAttrs>();
  const Value x = a.x[0], dy = a.dy();
  const Value spread = along(dy, x.shape(), r.axes);
  switch (r.kind) {
    case Combine::sum: return {spread};
    case Combine::max:
    case Combine::min: {
      // Elements that tie share the cotangent.
      const Value won = convert(equal(x, along(a.y[0], x.shape(), r.axes)), x.dtype());
      return {spread * won / along(sum(won, r.axes), x.shape(), r.axes)};
    }
    case Combine::prod: {
      // The reduced axes made one, last axis.
      Ints order;
      Shape outer;
      Dim inner = 1;
      for (std::int64_t i = 0; i < x.rank(); ++i)
        if (std::find(r.axes.begin(), r.axes.end(), i) == r.axes.end()) {
          order.push_back(i);
          outer.push_back(x.shape()[static_cast<std::size_t>(i)]);
        }
      Ints inverse(static_cast<std::size_t>(x.rank()));
      Ints sorted = r.axes;
      std::sort(sorted.begin(), sorted.end());
      for (std::int64_t i : sorted) {
        order.push_back(i);
        inner = inner * x.shape()[static_cast<std::size_t>(i)];
      }
      for (std::size_t i = 0; i < order.size(); ++i)
        inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
      const Value moved = transpose(x, order);
      outer.push_back(inner);
      const Value others = product_of_others(reshape(moved, outer), outer.rank() - 1);
      return {spread * transpose(reshape(others, moved.shape()), inverse)};
    }
    case Combine::set:
    case Combine::bitwise_and:
    case Combine::bitwise_or: break;
  }
  a.refuse("bits have no gradient");
}

// The places of a window one by one: for each, the elements of x that stand there, and the way back.
class WindowPlaces {
 public:
  WindowPlaces(const Adjoint& a, const ir::WindowAttrs& w, double padding)
      : a_(a), w_(w), rank_(static_cast<std::size_t>(a.x[0].rank())) {
    for (std::size_t i = 0; i < rank_; ++i) {
      low_.push_back(entry(w.pad_low, i, 0));
      high_.push_back(entry(w.pad_high, i, 0));
      interior_.push_back(entry(w.base_dilation, i, 1) - 1);
    }
    padding_ = scalar_like(a.x[0], padding);
    padded_ = pad(a.x[0], padding_, low_, high_, interior_);
    sum_ = zeros_like(padded_);
    Ints place(rank_, 0);
    do add(place);
    while (next(place));
  }
  std::size_t size() const { return places_.size(); }
  Value elements(std::size_t i) const {
    if (const std::optional<Value> near = sliced_first(places_[i])) return *near;
    return slice(padded_, places_[i].starts, places_[i].limits, strides());
  }
  void give(std::size_t i, Value cotangent) {
    Ints interior = strides();
    for (std::int64_t& n : interior) --n;
    sum_ = ops::add(sum_,
                    pad(cotangent, scalar_like(cotangent, 0), places_[i].starts, places_[i].rest, interior));
  }
  // What x gets: the sum without the padding.
  Value total() const {
    Ints low, high, stride;
    for (std::size_t i = 0; i < rank_; ++i) {
      low.push_back(-low_[i]);
      high.push_back(-high_[i]);
      stride.push_back(interior_[i] + 1);
    }
    const Value inner = pad(sum_, scalar_like(sum_, 0), low, high);
    return slice(inner, Ints(rank_, 0), inner.shape(), stride);
  }

 private:
  struct Place {
    Ints starts, rest;
    Shape limits;
  };
  static std::int64_t entry(const Ints& list, std::size_t i, std::int64_t otherwise) {
    return list.empty() ? otherwise : list[i];
  }
  Ints strides() const {
    Ints out;
    for (std::size_t i = 0; i < rank_; ++i) out.push_back(entry(w_.strides, i, 1));
    return out;
  }
  bool next(Ints& place) const {
    for (std::size_t i = rank_; i-- > 0;) {
      if (++place[i] < w_.window[i]) return true;
      place[i] = 0;
    }
    return false;
  }
  // The same as a slice of x with the padding that it meets. A compiler need not see through the padding
  // then, which XLA's for the seventh TPU does wrongly.
  std::optional<Value> sliced_first(const Place& p) const {
    const Value x = a_.x[0];
    Ints starts(rank_, 0), low(rank_, 0), high(rank_, 0);
    Shape limits = x.shape();
    for (std::size_t i = 0; i < rank_; ++i) {
      const std::int64_t stride = entry(w_.strides, i, 1);
      if (w_.window[i] == 1 && stride == 1 && low_[i] == 0 && high_[i] == 0 && interior_[i] == 0) continue;
      if (interior_[i] != 0 || !x.shape()[i].is_static() || !a_.y[0].shape()[i].is_static())
        return std::nullopt;
      const std::int64_t count = a_.y[0].shape()[i].value(), size = x.shape()[i].value();
      const std::int64_t first = p.starts[i] - low_[i];
      low[i] = first < 0 ? (stride - 1 - first) / stride : 0;
      starts[i] = first + low[i] * stride;
      const std::int64_t inside = starts[i] < size ? (size - 1 - starts[i]) / stride + 1 : 0;
      const std::int64_t taken = std::min(inside, count - low[i]);
      if (taken <= 0) return std::nullopt;
      high[i] = count - low[i] - taken;
      limits[i] = Dim(starts[i] + (taken - 1) * stride + 1);
    }
    return pad(slice(x, starts, limits, strides()), padding_, low, high);
  }
  void add(const Ints& place) {
    Place p;
    for (std::size_t i = 0; i < rank_; ++i) {
      p.starts.push_back(place[i] * entry(w_.window_dilation, i, 1));
      const Dim covered = (a_.y[0].shape()[i] - Dim(1)) * Dim(entry(w_.strides, i, 1)) + Dim(1);
      p.limits.push_back(Dim(p.starts[i]) + covered);
      const Dim rest = padded_.shape()[i] - p.limits[i];
      if (!rest.is_static()) a_.refuse("a window over a symbolic axis that depends on its size");
      p.rest.push_back(rest.value());
    }
    places_.push_back(std::move(p));
  }

  const Adjoint& a_;
  const ir::WindowAttrs& w_;
  std::size_t rank_;
  Ints low_, high_, interior_;
  Value padding_, padded_, sum_;
  std::vector<Place> places_;
};

// dy goes to the first element of the window that equals the result.
Cotangents window_extreme_rule(const Adjoint& a, const ir::WindowAttrs& w) {
  const Value dy = a.dy(), y = a.y[0];
  if (y.shape().elements() == Dim(0)) return {zeros_like(a.x[0])};
  const double infinity = std::numeric_limits<double>::infinity();
  WindowPlaces places(a, w, w.kind == Combine::max ? -infinity : infinity);
  Value taken = broadcast_to(constant(a.graph, Literal::scalar(false)), y.shape());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Value meets = equal(places.elements(i), y);
    const Value wins = bitwise_and(meets, bitwise_not(taken));
    taken = bitwise_or(taken, wins);
    places.give(i, where(wins, dy));
  }
  return {places.total()};
}

// Each element gets dy times the product of those before and of those after it in the window.
Cotangents window_product_rule(const Adjoint& a, const ir::WindowAttrs& w) {
  if (a.y[0].shape().elements() == Dim(0)) return {zeros_like(a.x[0])};
  WindowPlaces places(a, w, 1);
  Values before{a.dy()};
  for (std::size_t i = 0; i + 1 < places.size(); ++i)
    before.push_back(mul(before.back(), places.elements(i)));
  std::optional<Value> after;
  for (std::size_t i = places.size(); i-- > 0;) {
    places.give(i, after ? mul(before[i], *after) : before[i]);
    after = after ? mul(*after, places.elements(i)) : places.elements(i);
  }
  return {places.total()};
}

// The transpose of a sum over windows: dy with holes for the strides, summed over the same windows, and the
// dilation of x as the stride.
Cotangents window_sum_rule(const Adjoint& a, const ir::WindowAttrs& w) {
  const Value x = a.x[0], dy = a.dy();
  const auto rank = static_cast<std::size_t>(x.rank());
  const auto entry = [](const Ints& list, std::size_t i, std::int64_t otherwise) {
    return list.empty() ? otherwise : list[i];
  };
  if (dy.shape().elements() == Dim(0) || x.shape().elements() == Dim(0)) return {zeros_like(x)};
  ir::WindowAttrs back;
  back.kind = Combine::sum;
  back.window = w.window;
  back.window_dilation = w.window_dilation;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t stride = entry(w.strides, i, 1), dilation = entry(w.base_dilation, i, 1);
    const std::int64_t extent = (w.window[i] - 1) * entry(w.window_dilation, i, 1) + 1;
    back.base_dilation.push_back(stride);
    back.strides.push_back(dilation);
    const std::int64_t low = extent - 1 - entry(w.pad_low, i, 0);
    back.pad_low.push_back(low);
    const Dim spread = (dy.shape()[i] - Dim(1)) * Dim(stride) + Dim(1);
    const Dim wanted = (x.shape()[i] - Dim(1)) * Dim(dilation) + Dim(extent);
    const Dim high = wanted - spread - Dim(low);
    if (!high.is_static()) a.refuse("a window over a symbolic axis that depends on its size");
    back.pad_high.push_back(high.value());
  }
  return {reduce_window(dy, back)};
}

// Running products: dx[j] is the product before j times r[j], where r[j] = dy[j] + x[j+1]·r[j+1].
Value cumulative_product_rule(const Adjoint& a, std::int64_t axis, bool reversed) {
  const Value x = reversed ? reverse(a.x[0], {axis}) : a.x[0],
              dy = reversed ? reverse(a.dy(), {axis}) : a.dy();
  const Dim length = x.shape()[static_cast<std::size_t>(axis)];
  Ints front{axis};
  for (std::int64_t i = 0; i < x.rank(); ++i)
    if (i != axis) front.push_back(i);
  Ints back(front.size());
  for (std::size_t i = 0; i < front.size(); ++i)
    back[static_cast<std::size_t>(front[i])] = static_cast<std::int64_t>(i);
  Ints low(static_cast<std::size_t>(x.rank()), 0), high = low;
  low[static_cast<std::size_t>(axis)] = -1;
  high[static_cast<std::size_t>(axis)] = 1;
  if (length == Dim(0)) return x;
  const Value following = pad(x, scalar_like(x, 0), low, high);
  const Value steps = transpose(dy, front), factors = transpose(following, front);
  Shape row;
  for (std::size_t i = 1; i < steps.shape().size(); ++i) row.push_back(steps.shape()[i]);
  const Type type{x.dtype(), row};
  const std::vector<Type> types(3, type);
  const ir::GraphRef body = ir::make_graph("running_product", types, [](const Values& in) {
    const Value r = add(in[1], mul(in[2], in[0]));
    return Values{r, r};
  });
  const Value r = transpose(scan(body, zeros(a.graph, type), {steps, factors}, {}, length, true)[1], back);
  std::swap(low, high);
  low[static_cast<std::size_t>(axis)] = 1;
  high[static_cast<std::size_t>(axis)] = -1;
  const Value before = pad(cumulative(x, Combine::prod, axis), scalar_like(x, 1), low, high);
  const Value dx = mul(before, r);
  return reversed ? reverse(dx, {axis}) : dx;
}

// Sends dy from sorted places back to where `order` says they came from, along an axis; no two from one place
// when it is a permutation.
Value unsort(Value like, Value order, Value dy, std::int64_t axis, bool permutation) {
  const int rank = like.rank();
  Ints batch;
  for (std::int64_t i = 0; i < rank; ++i)
    if (i != axis) batch.push_back(i);
  ir::ScatterAttrs s;
  s.combine = Combine::sum;
  s.inserted_axes = {axis};
  s.operand_batch_axes = batch;
  s.index_batch_axes = batch;
  s.index_map = {axis};
  s.index_vector_axis = rank;
  s.unique = permutation;
  return scatter(zeros_like(like), order, dy, s);
}

Cotangents sort_rule(const Adjoint& a) {
  const auto& s = a.as<ir::SortAttrs>();
  const Value places = iota(a.graph, {DType::i64, a.x[0].shape()}, s.axis);
  const Value order = sort({a.x[0], places}, s.axis, s.descending)[1];
  Cotangents out;
  for (std::size_t i = 0; i < a.x.size(); ++i)
    out.push_back(a.cotangents[i] ? std::optional(unsort(a.x[i], order, *a.cotangents[i], s.axis, true))
                                  : std::nullopt);
  return out;
}

Cotangents cumulative_rule(const Adjoint& a) {
  const auto& c = a.as<ir::CumulativeAttrs>();
  switch (c.kind) {
    case Combine::sum: return {cumulative(a.dy(), Combine::sum, c.axis, !c.reverse)};
    case Combine::prod: return {cumulative_product_rule(a, c.axis, c.reverse)};
    default: {
      // The place of the extreme so far is the latest place where x met it.
      const Value x = a.x[0];
      const Value places = iota(a.graph, {DType::i64, x.shape()}, c.axis);
      const Value size = broadcast_to(
          dimension(a.graph, x.shape()[static_cast<std::size_t>(c.axis)], DType::i64), x.shape());
      const Value met = equal(x, a.y[0]);
      const Value latest = c.reverse
                               ? cumulative(select(met, places, size), Combine::min, c.axis, true)
                               : cumulative(select(met, places, neg(size)), Combine::max, c.axis, false);
      return {unsort(x, latest, a.dy(), c.axis, false)};
    }
  }
}

}  // namespace

Cotangents reduction_rule(const Adjoint& a) {
  switch (a.node.op) {
    case Op::reduce: return reduce_rule(a);
    case Op::reduce_window: {
      const auto& w = a.as<ir::WindowAttrs>();
      if (w.kind == Combine::sum) return window_sum_rule(a, w);
      return w.kind == Combine::prod ? window_product_rule(a, w) : window_extreme_rule(a, w);
    }
    case Op::cumulative: return cumulative_rule(a);
    case Op::sort: return sort_rule(a);
    case Op::top_k: {
      const Value x = a.x[0];
      return {unsort(x, a.y[1], a.dy(), x.rank() - 1, true)};
    }
    case Op::arg_reduce: a.refuse("an index has no gradient");
#define SYSTOLE_CASE_reduction(name)
#include "autodiff/other_ops.def"
      break;
  }
  a.refuse("it has no rule here");
}

}  // namespace systole::autodiff
