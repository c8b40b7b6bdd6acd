#pragma once

// Random small graphs with their arguments. Every value carries a bound on its magnitude and on its rounding
// error, propagated as the graph is built. Values known without error feed comparisons and conversions to
// integers, so that no rounding decides a branch.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "systole/ir/composite.h"
#include "systole/ir/graph.h"
#include "systole/ops.h"

namespace systole::conformance {

struct RandomOptions {
  bool smooth = false;  // in f64, and nothing whose derivative a rounding could turn round: for gradients
  bool wide = false;    // also gathers, scatters, sorts, windows, running sums, convolutions and composites
};

struct Tracked {
  ir::Value value;
  double size;       // no element is larger in magnitude
  double error = 0;  // of any element
};
using Step = std::optional<Tracked>;

class RandomGraph {
  static constexpr int kInputs = 5, kSteps = 24, kOutputs = 6;
  static constexpr std::int64_t kMostElements = 2000;

 public:
  explicit RandomGraph(std::uint64_t seed, RandomOptions options = {}) : rng_(seed), options_(options) {
    for (int i = 0; i < kInputs; ++i) add_input(i);
    for (int i = 0; i < kSteps; ++i) {
      const Step made = step();
      // Values that grow too large are left to dead code elimination.
      const double most = made && size_of(made->value.dtype()) < 4 ? 1e3 : 1e6;
      if (made && made->size <= most && made->value.shape().count() <= kMostElements) pool_.push_back(*made);
    }
    for (int i = 0; i < kOutputs; ++i) {
      outputs_.push_back(i == 0 ? pool_.back() : any());
      graph_.output(outputs_.back().value, fmt::format("y{}", i));
    }
  }

  const ir::Graph& graph() const { return graph_; }
  const std::vector<Literal>& arguments() const { return arguments_; }
  double allowed(std::size_t output) const {
    const Tracked& t = outputs_[output];
    return is_float(t.value.dtype()) ? 2 * t.error : 0;
  }

 private:
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n));
  }
  bool coin() { return below(2) == 0; }
  Tracked any() { return pool_[static_cast<std::size_t>(below(static_cast<std::int64_t>(pool_.size())))]; }
  Tracked any(const std::function<bool(const Tracked&)>& wanted, const Tracked& otherwise) {
    for (int i = 0; i < 20; ++i)
      if (const Tracked t = any(); wanted(t)) return t;
    return otherwise;
  }

  Shape random_shape() {
    constexpr std::int64_t kSizes[] = {1, 1, 2, 3, 3, 5, 7, 0};
    Shape shape;
    for (std::int64_t rank = below(4); rank > 0; --rank) shape.push_back(kSizes[below(std::size(kSizes))]);
    return shape;
  }

  void add_input(int i) {
    constexpr DType kDTypes[] = {DType::f32, DType::f32, DType::f64, DType::bf16,
                                 DType::f16, DType::i32, DType::i8};
    const DType dtype = options_.smooth ? DType::f64 : kDTypes[below(std::size(kDTypes))];
    const Type type{dtype, random_shape()};
    // Eighths up to 4 are exact in every float type here.
    Literal value(type);
    for (std::int64_t e = 0; e < value.count(); ++e) {
      const std::int64_t eighths = below(65) - 32;
      const Literal one = is_float(dtype) ? Literal::full({dtype, {}}, static_cast<double>(eighths) / 8)
                                          : Literal::full_int({dtype, {}}, eighths / 8);
      std::copy_n(one.bytes(), size_of(dtype),
                  value.mutable_bytes() + static_cast<std::size_t>(e) * size_of(dtype));
    }
    arguments_.push_back(std::move(value));
    pool_.push_back({graph_.input(fmt::format("x{}", i), type), 4});
  }

  static double rounding(const Tracked& t, ir::Op op) {
    return ir::info(op).tolerance * epsilon(t.value.dtype()) * t.size;
  }
  static Tracked rounded(Tracked t, ir::Op op) {
    t.error += rounding(t, op);
    return t;
  }

  Step step() {
    switch (below(options_.wide ? 24 : 12)) {
      case 0: return unary();
      case 1:
      case 2: return binary(any());
      case 3: return with_constant(any());
      case 4: return reshaped(any());
      case 5: return rearranged(any());
      case 6: return sliced(any());
      case 7: return joined(any());
      case 8: return reduced(any());
      case 9: return product(any());
      case 10: return selected();
      case 11: return converted(any());
      case 12:
      case 13: return gathered(any());
      case 14:
      case 15: return scattered(any());
      case 16:
      case 17: return sorted(any());
      case 18:
      case 19: return windowed(any());
      case 20: return running(any());
      case 21:
      case 22: return convolved();
      default: return composite();
    }
  }

  Step unary() {
    const Tracked x = any([](const Tracked& t) { return is_float(t.value.dtype()); }, pool_[0]);
    if (!is_float(x.value.dtype())) return {};
    switch (below(7)) {
      case 0: return Tracked{ops::neg(x.value), x.size, x.error};
      case 1: return is_rough(x) ? Step() : Tracked{ops::abs(x.value), x.size, x.error};
      case 2: return rounded({ops::tanh(x.value), 1, x.error}, ir::Op::tanh);
      case 3: return rounded({ops::logistic(x.value), 1, x.error}, ir::Op::logistic);
      case 4: return rounded({ops::sin(x.value), 1, x.error}, ir::Op::sin);
      case 5: return rounded({ops::cos(x.value), 1, x.error}, ir::Op::cos);
      default:
        if (x.size > 8) return {};
        return rounded({ops::exp(x.value), std::exp(x.size + x.error), x.error * std::exp(x.size + x.error)},
                       ir::Op::exp);
    }
  }

  // Whether numpy's rule makes one shape of two.
  static bool broadcastable(const Shape& a, const Shape& b) {
    for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
      const Dim x = a[a.size() - i], y = b[b.size() - i];
      if (!(x == y) && !(x == Dim(1)) && !(y == Dim(1))) return false;
    }
    return true;
  }

  Step arithmetic(const Tracked& a, const Tracked& b) {
    const std::int64_t which = below(is_rough(a) || is_rough(b) ? 3 : 5);
    switch (which) {
      case 0: return rounded({ops::add(a.value, b.value), a.size + b.size, a.error + b.error}, ir::Op::add);
      case 1: return rounded({ops::sub(a.value, b.value), a.size + b.size, a.error + b.error}, ir::Op::sub);
      case 2:
        return rounded({ops::mul(a.value, b.value), a.size * b.size,
                        a.size * b.error + b.size * a.error + a.error * b.error},
                       ir::Op::mul);
      case 3:
        return Tracked{ops::max(a.value, b.value), std::max(a.size, b.size), std::max(a.error, b.error)};
      default:
        return Tracked{ops::min(a.value, b.value), std::max(a.size, b.size), std::max(a.error, b.error)};
    }
  }

  Step binary(const Tracked& a) {
    if (a.value.dtype() == DType::boolean) return {};
    const Tracked b = any(
        [&](const Tracked& t) {
          return t.value.dtype() == a.value.dtype() && broadcastable(t.value.shape(), a.value.shape());
        },
        a);
    return coin() ? arithmetic(a, b) : arithmetic(b, a);
  }

  // Whether a rounding could decide which way a derivative goes.
  bool is_rough(const Tracked& x) const { return options_.smooth && x.error != 0; }

  // Identities and doublings, which passes like to rewrite.
  Step with_constant(const Tracked& x) {
    if (x.value.dtype() == DType::boolean) return {};
    const double number = static_cast<double>(below(3));
    const Tracked constant{
        coin() ? ops::scalar_like(x.value, number) : ops::full(graph_, x.value.type(), number), number};
    return coin() ? arithmetic(x, constant) : arithmetic(constant, x);
  }

  Step moved(const Tracked& x, ir::Value value) { return Tracked{value, x.size, x.error}; }

  Step reshaped(const Tracked& x) {
    const std::int64_t count = x.value.shape().count();
    for (const std::int64_t divisor : {7, 5, 3, 2})
      if (count % divisor == 0 && coin()) return moved(x, ops::reshape(x.value, {count / divisor, divisor}));
    return moved(x, ops::reshape(x.value, coin() ? Shape{count} : Shape{1, count}));
  }

  Step rearranged(const Tracked& x) {
    Ints order;
    for (std::int64_t i = 0; i < x.value.rank(); ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), rng_);
    if (coin()) return moved(x, ops::transpose(x.value, order));
    if (coin() && !order.empty()) return moved(x, ops::reverse(x.value, {order[0]}));
    Shape wider{Dim(below(3) + 1)};
    for (const Dim& d : x.value.shape()) wider.push_back(d);
    return moved(x, ops::broadcast_to(x.value, wider));
  }

  Step sliced(const Tracked& x) {
    if (x.value.rank() == 0) return {};
    const std::int64_t axis = below(x.value.rank());
    const std::int64_t size = x.value.shape()[static_cast<std::size_t>(axis)].value();
    const std::int64_t start = below(size + 1), limit = start + below(size - start + 1);
    return moved(x, ops::slice_axis(x.value, axis, start, limit, below(2) + 1));
  }

  Step joined(const Tracked& x) {
    if (x.value.rank() == 0) return {};
    const Tracked y = any([&](const Tracked& t) { return t.value.type() == x.value.type(); }, x);
    const ir::Value parts[] = {x.value, y.value, x.value};
    const std::size_t count = coin() ? 2 : 3;
    return Tracked{ops::concat(std::span(parts, count), below(x.value.rank())), std::max(x.size, y.size),
                   std::max(x.error, y.error)};
  }

  Step reduced(const Tracked& x) {
    if (x.value.dtype() == DType::boolean) return {};
    Ints axes;
    double count = 1;
    for (std::int64_t i = 0; i < x.value.rank(); ++i) {
      if (coin()) continue;
      axes.push_back(i);
      count *= static_cast<double>(x.value.shape()[static_cast<std::size_t>(i)].value());
    }
    const bool keep = coin();
    // The extremes of nothing are infinite; only sums are taken of it.
    if (count == 0 || coin() || is_rough(x)) {
      Tracked y{ops::sum(x.value, axes, keep), count * x.size, count * x.error};
      y.error += rounding(y, ir::Op::reduce) * std::sqrt(count);
      return y;
    }
    return moved(x, ops::reduce(x.value, coin() ? ops::Combine::max : ops::Combine::min, axes, keep));
  }

  // x as a matrix times a transposed matrix of as many columns.
  Step product(const Tracked& x) {
    if (x.value.dtype() == DType::boolean || x.value.rank() == 0) return {};
    const std::int64_t columns = x.value.shape()[x.value.shape().size() - 1].value();
    const Tracked y = any(
        [&](const Tracked& t) {
          return t.value.dtype() == x.value.dtype() && t.value.rank() > 0 &&
                 t.value.shape()[t.value.shape().size() - 1] == Dim(columns);
        },
        x);
    const auto matrix = [&](ir::Value v) {
      std::int64_t rows = 1;
      for (std::size_t i = 0; i + 1 < v.shape().size(); ++i) rows *= v.shape()[i].value();
      return ops::reshape(v, {rows, columns});
    };
    const auto k = static_cast<double>(columns);
    Tracked z{ops::dot_general(matrix(x.value), matrix(y.value), {1}, {1}), k * x.size * y.size,
              k * (x.size * y.error + y.size * x.error + x.error * y.error)};
    z.error += rounding(z, ir::Op::dot_general) * std::sqrt(k);
    return z;
  }

  Step selected() {
    const auto exact = [](const Tracked& t) { return t.error == 0 && t.value.dtype() != DType::boolean; };
    const Tracked left = any(exact, pool_[0]);
    const Tracked right =
        any([&](const Tracked& t) { return exact(t) && t.value.type() == left.value.type(); }, left);
    const ir::Value predicate =
        coin() ? ops::less(left.value, right.value) : ops::greater_equal(left.value, right.value);
    if (below(3) == 0) return Tracked{predicate, 1};
    const Tracked a = any([&](const Tracked& t) { return t.value.shape() == left.value.shape(); }, left);
    const Tracked b = any([&](const Tracked& t) { return t.value.type() == a.value.type(); }, a);
    return Tracked{ops::select(predicate, a.value, b.value), std::max(a.size, b.size),
                   std::max(a.error, b.error)};
  }

  Step converted(const Tracked& x) {
    constexpr DType kTo[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32};
    const DType to = kTo[below(std::size(kTo))];
    if (options_.smooth) return {};
    if (!is_float(to)) {
      if (x.error != 0) return {};
      return moved(x, ops::convert(x.value, to));
    }
    Tracked y{ops::convert(x.value, to), x.size, x.error};
    const bool narrower = !is_float(x.value.dtype()) || epsilon(to) > epsilon(x.value.dtype());
    if (narrower) y.error += epsilon(to) * y.size;
    return y;
  }

  std::int64_t size_of_axis(const Tracked& x, std::int64_t axis) const {
    return x.value.shape()[static_cast<std::size_t>(axis)].value();
  }

  // Indices of an axis of `size`; some lie outside.
  ir::Value random_indices(std::int64_t count, std::int64_t size) {
    std::vector<std::int32_t> indices;
    for (std::int64_t i = 0; i < count; ++i)
      indices.push_back(static_cast<std::int32_t>(below(size + 2) - 1));
    return graph_.constant(Literal::of<std::int32_t>({count}, indices));
  }

  Step gathered(const Tracked& x) {
    if (x.value.rank() == 0) return {};
    const std::int64_t axis = below(x.value.rank()), size = size_of_axis(x, axis);
    if (size == 0) return {};
    return moved(x, ops::take(x.value, random_indices(below(6), size), axis));
  }

  // Rows of y combined with those of x that the indices name; the same row may come several times.
  Step scattered(const Tracked& x) {
    if (x.value.rank() == 0 || x.value.dtype() == DType::boolean) return {};
    const std::int64_t size = size_of_axis(x, 0), count = below(5) + 1;
    if (size == 0) return {};
    const Tracked y = any([&](const Tracked& t) { return t.value.dtype() == x.value.dtype(); }, x);
    if (y.value.shape().count() == 0) return {};
    const ir::Value number = ops::slice_axis(ops::reshape(y.value, {y.value.shape().count()}), 0, 0, 1);
    Shape updates = x.value.shape();
    updates[0] = count;
    Ints windows;
    for (std::int64_t i = 1; i < x.value.rank(); ++i) windows.push_back(i);
    const std::int64_t which = below(is_rough(x) || is_rough(y) ? 2 : 4);
    constexpr ops::Combine kCombines[] = {ops::Combine::sum, ops::Combine::set, ops::Combine::max,
                                          ops::Combine::min};
    ir::ScatterAttrs attrs{.combine = kCombines[which],
                           .update_window_axes = windows,
                           .inserted_axes = {0},
                           .operand_batch_axes = {},
                           .index_batch_axes = {},
                           .index_map = {0},
                           .index_vector_axis = 1};
    const ir::Value value = ops::scatter(x.value, random_indices(count, size),
                                         ops::broadcast_to(ops::reshape(number, {}), updates), attrs);
    if (which != 0) return Tracked{value, std::max(x.size, y.size), std::max(x.error, y.error)};
    const auto times = static_cast<double>(count);
    Tracked z{value, x.size + times * y.size, x.error + times * y.error};
    z.error += times * rounding(z, ir::Op::scatter);
    return z;
  }

  // No number of a sorted axis moves further than the one that moved most.
  Step sorted(const Tracked& x) {
    if (x.value.rank() == 0 || x.value.dtype() == DType::boolean || is_rough(x)) return {};
    return moved(x, ops::sort(x.value, below(x.value.rank()), coin()));
  }

  Step windowed(const Tracked& x) {
    if (x.value.rank() == 0 || x.value.dtype() == DType::boolean || x.value.shape().count() == 0) return {};
    ir::WindowAttrs attrs;
    double count = 1;
    for (std::int64_t i = 0; i < x.value.rank(); ++i) {
      const std::int64_t window = below(std::min<std::int64_t>(3, size_of_axis(x, i))) + 1;
      attrs.window.push_back(window);
      attrs.strides.push_back(below(2) + 1);
      attrs.pad_low.push_back(below(window));  // every window has an element
      attrs.pad_high.push_back(below(window));
      count *= static_cast<double>(window);
    }
    if (!coin() && !is_rough(x)) {
      attrs.kind = coin() ? ops::Combine::max : ops::Combine::min;
      return moved(x, ops::reduce_window(x.value, attrs));
    }
    attrs.kind = ops::Combine::sum;
    Tracked y{ops::reduce_window(x.value, attrs), count * x.size, count * x.error};
    y.error += rounding(y, ir::Op::reduce_window) * std::sqrt(count);
    return y;
  }

  Step running(const Tracked& x) {
    if (x.value.rank() == 0 || x.value.dtype() == DType::boolean) return {};
    const std::int64_t axis = below(x.value.rank());
    if (!coin() && !is_rough(x))
      return moved(x, ops::cumulative(x.value, coin() ? ops::Combine::max : ops::Combine::min, axis, coin()));
    const auto count = static_cast<double>(size_of_axis(x, axis));
    Tracked y{ops::cumulative(x.value, ops::Combine::sum, axis, coin()), count * x.size, count * x.error};
    y.error += rounding(y, ir::Op::cumulative) * std::sqrt(count);
    return y;
  }

  // All of one value as a row, or as columns of three channels, under a kernel of another's first numbers.
  Step convolved() {
    const auto takes = [](const Tracked& t) {
      return is_float(t.value.dtype()) && t.value.shape().count() >= 3;
    };
    const Tracked x = any(takes, pool_[0]);
    const Tracked y =
        any([&](const Tracked& t) { return takes(t) && t.value.dtype() == x.value.dtype(); }, x);
    if (!takes(x)) return {};
    const std::int64_t channels = coin() ? 3 : 1, all = x.value.shape().count(), length = all / channels;
    const std::int64_t window = channels == 3 ? 1 : below(std::min<std::int64_t>(3, length)) + 1;
    const auto first = [](const Tracked& t, std::int64_t count) {
      return ops::slice_axis(ops::reshape(t.value, {t.value.shape().count()}), 0, 0, count);
    };
    ir::ConvolutionAttrs attrs;
    attrs.layout = "b0f_o0i->b0f";
    attrs.strides = {below(2) + 1};
    attrs.pad_low = {below(2)};
    attrs.pad_high = {below(2)};
    const auto k = static_cast<double>(window * channels);
    const ir::Value value =
        ops::convolution(ops::reshape(first(x, length * channels), {1, length, channels}),
                         ops::reshape(first(y, window * channels), {1, window, channels}), attrs);
    Tracked z{value, k * x.size * y.size, k * (x.size * y.error + y.size * x.error + x.error * y.error)};
    z.error += rounding(z, ir::Op::convolution) * std::sqrt(k);
    return z;
  }

  // An error of its operands grows by no more than 2 in a softmax or its logarithm, whose derivative by all
  // operands has rows that sum up to that at most.
  Step composite() {
    const Tracked x =
        any([](const Tracked& t) { return is_float(t.value.dtype()) && t.value.rank() > 0; }, pool_[0]);
    if (!is_float(x.value.dtype()) || x.value.rank() == 0) return {};
    const std::int64_t axis = below(x.value.rank());
    const char* const name = coin() ? "softmax" : "log_softmax";
    const double size =
        name[0] == 's' ? 1 : 2 * x.size + std::log(1.0 + static_cast<double>(size_of_axis(x, axis)));
    Tracked y{ir::add_composite(name, ir::Values{x.value}, {{"axis", axis}})[0], size, 2 * x.error};
    y.error += ir::find_composite(name)->tolerance * epsilon(x.value.dtype()) * std::max(1.0, size);
    return y;
  }

  std::mt19937_64 rng_;
  RandomOptions options_;
  ir::Graph graph_{"random"};
  std::vector<Literal> arguments_;
  std::vector<Tracked> pool_, outputs_;
};

// Empty when the arrays are as close as allowed; NaN equals NaN, and what is no float has equal bits.
std::string difference(const Literal& got, const Literal& want, double allowed);

}  // namespace systole::conformance
