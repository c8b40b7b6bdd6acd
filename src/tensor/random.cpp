// Random numbers on Tensors. Everything is integer arithmetic on random_bits and elementwise functions, so
// the bits are the same on every backend. Normal numbers come in pairs from two uniform ones (Box and
// Muller): no function but log, sqrt, sin and cos is needed. Small floats are drawn as f32 and rounded.

#include "systole/tensor/random.h"

#include <cmath>
#include <limits>
#include <mutex>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/lasting.h"
#include "eval/philox.h"
#include "ops/common.h"
#include "systole/base/error.h"
#include "systole/ops.h"
#include "tensor/any_size.h"
#include "tensor/frame.h"
#include "tensor/record.h"

namespace systole::random {

namespace {

using ir::Value;
using ir::Values;
using ops::plus, ops::scalar_like, ops::times;

void check_key(const Tensor& key, std::string_view where) {
  if (!(recording::checked(key, where).type == Type{DType::u32, {2}}))
    throw Error(ErrorKind::kShape, std::string(where), "the key", "u32[2]", key.type().to_string());
}

void check_float(DType dtype, std::string_view where) {
  if (!is_float(dtype) || size_of(dtype) < 2)
    throw Error(ErrorKind::kDType, std::string(where), "the dtype", "f64, f32, f16 or bf16",
                std::string(name(dtype)));
}

// A function of a key: `draw` in the dtype of the computation, then mean, deviation and dtype.
template <class Draw>
Tensor drawn(std::string_view where, const Tensor& key, DType dtype, double factor, double offset,
             Draw draw) {
  check_key(key, where);
  check_float(dtype, where);
  return recording::built({key}, [&](const Values& v) {
    Value x = draw(v[0], ops::compute_dtype(dtype));
    if (factor != 1) x = times(x, factor);
    if (offset != 0) x = plus(x, offset);
    return ops::convert(x, dtype);
  });
}

// In (0, 1].
Value positive_uniform(Value key, Shape shape, DType dtype) {
  const Value u = ops::random_uniform(key, std::move(shape), dtype);
  return ops::sub(scalar_like(u, 1), u);
}

// The same numbers as standard_normal's by a graph that is the same for every count: number i belongs to pair
// i or i - pairs.
Value standard_normal_of_any_count(Value key, const Shape& shape, DType dtype) {
  ir::Graph& graph = key.graph();
  const std::int64_t count = shape.count();
  const Value u = positive_uniform(key, {count + 1}, dtype);
  const Value pairs = ops::div(ops::dimension(graph, count + 1), ops::constant(graph, Literal::scalar(2)));
  const Value place = ops::iota(graph, {DType::i32, {count}}, 0);
  const Value is_left = ops::less(place, pairs);
  const Value pair = ops::select(is_left, place, ops::sub(place, pairs));
  const Value radius = ops::sqrt(times(ops::log(ops::take(u, pair, 0)), -2));
  const Value angle = times(ops::take(u, ops::add(pair, pairs), 0), 2 * std::numbers::pi);
  return ops::reshape(ops::mul(radius, ops::select(is_left, ops::cos(angle), ops::sin(angle))), shape);
}

Value standard_normal(Value key, const Shape& shape, DType dtype) {
  if (recording::AnySizeScope::is_on()) return standard_normal_of_any_count(key, shape, dtype);
  const std::int64_t count = shape.count(), pairs = (count + 1) / 2;
  const Value u = positive_uniform(key, {2 * pairs}, dtype);
  const Value first = ops::slice_axis(u, 0, 0, pairs), second = ops::slice_axis(u, 0, pairs, 2 * pairs);
  const Value radius = ops::sqrt(times(ops::log(first), -2));
  const Value angle = times(second, 2 * std::numbers::pi);
  const Value left = ops::mul(radius, ops::cos(angle)), right = ops::mul(radius, ops::sin(angle));
  return ops::reshape(ops::slice_axis(ops::concat({left, right}, 0), 0, 0, count), shape);
}

// The number whose error function is y, for |y| < 1: a first guess by Winitzki's formula, then Newton's
// steps, each of which doubles the digits. The guess is within 0.2 %, so three steps reach f64.
Value inverse_erf(Value y) {
  constexpr double kA = 0.147, kB = 2 / (std::numbers::pi * kA);
  const Value logarithm = ops::log1p(ops::neg(ops::square(y)));  // of 1 - y²
  const Value half = plus(times(logarithm, 0.5), kB);
  const Value root = ops::sqrt(ops::sub(ops::square(half), times(logarithm, 1 / kA)));
  Value x = ops::mul(ops::sign(y), ops::sqrt(ops::sub(root, half)));
  for (int step = 0; step < 3; ++step) {
    const Value slope = times(ops::exp(ops::neg(ops::square(x))), 2 * std::numbers::inv_sqrtpi);
    x = ops::sub(x, ops::div(ops::sub(ops::erf(x), y), slope));
  }
  return x;
}

Value standard_gumbel(Value key, Shape shape, DType dtype) {
  const Value u = ops::random_uniform(key, std::move(shape), dtype);
  const double least = dtype == DType::f64 ? std::numeric_limits<double>::min()
                                           : static_cast<double>(std::numeric_limits<float>::min());
  const Value positive = ops::max(u, scalar_like(u, least));
  return ops::neg(ops::log(ops::neg(ops::log(positive))));
}

bool fits(std::int64_t value, DType dtype) {
  return visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return std::in_range<T>(value);
    else
      return false;
  });
}

Tensor key_of_words(std::uint32_t low, std::uint32_t high) {
  return Tensor(Literal::of<std::uint32_t>({2}, {low, high}));
}

std::mutex& stream_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

Tensor key(std::uint64_t seed) {
  return key_of_words(static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

Tensor split_rows(const Tensor& key, std::int64_t n) {
  check_key(key, "split");
  if (n < 1)
    throw Error(ErrorKind::kInvalidArgument, "split", "the number of keys", "1 or more", std::to_string(n));
  return recording::built({key}, [&](const Values& v) { return ops::split_key(v[0], n); });
}

std::vector<Tensor> split(const Tensor& key, std::int64_t n) {
  check_key(key, "split");
  if (n < 1)
    throw Error(ErrorKind::kInvalidArgument, "split", "the number of keys", "1 or more", std::to_string(n));
  const Tensor operands[] = {key};
  return recording::record_built(operands, [&](ir::Graph&, const Values& v) {
    const Value rows = ops::split_key(v[0], n);
    Values keys;
    for (std::int64_t i = 0; i < n; ++i)
      keys.push_back(ops::reshape(ops::slice_axis(rows, 0, i, i + 1), {2}));
    return keys;
  });
}

Variable default_key() {
  static const Variable& stream = lasting<Variable>([] {
    Variable made(key(0), "random.key", false);
    made.cell()->roams = true;
    return made;
  }());
  return stream;
}

Tensor next_key() {
  const std::lock_guard lock(stream_mutex());
  Variable stream = default_key();
  const Tensor now = stream.value();
  if (!now.evaluated()) {  // in a trace
    const std::vector<Tensor> parts = random::split(now, 2);
    stream.assign(parts[0]);
    return parts[1];
  }
  // A key that is there is split on the host: making a model would otherwise record a long chain of splits.
  const Literal literal = now.literal();
  const std::span<const std::uint32_t> words = literal.values<std::uint32_t>();
  const auto part = [&](std::uint32_t i) {
    const auto block = eval::philox({i, 0, 0, 1}, {words[0], words[1]});
    return key_of_words(block[0], block[1]);
  };
  stream.assign(part(0));
  return part(1);
}

void seed(std::uint64_t seed) {
  const std::lock_guard lock(stream_mutex());
  default_key().assign(key(seed));
}

Tensor bits(const Tensor& key, Shape shape, DType dtype) {
  check_key(key, "bits");
  return recording::built({key}, [&](const Values& v) { return ops::random_bits(v[0], shape, dtype); });
}

Tensor uniform(const Tensor& key, Shape shape, double low, double high, DType dtype) {
  if (!(low <= high))
    throw Error(ErrorKind::kInvalidArgument, "uniform", "the bounds", "low <= high",
                fmt::format("{} and {}", low, high));
  check_key(key, "uniform");
  check_float(dtype, "uniform");
  return recording::built({key}, [&](const Values& v) {
    const Value u = ops::random_uniform(v[0], shape, dtype);
    if (low == 0 && high == 1) return u;
    // Rounding could reach `high`.
    const Value moved = plus(times(u, high - low), low);
    const Value last = ops::constant(u.graph(), ops::scalar_literal(dtype, high));
    return ops::select(ops::less(moved, last), moved, scalar_like(u, low));
  });
}

Tensor normal(const Tensor& key, Shape shape, double mean, double stddev, DType dtype) {
  return drawn("normal", key, dtype, stddev, mean,
               [&](Value k, DType computed) { return standard_normal(k, shape, computed); });
}

Tensor truncated_normal(const Tensor& key, Shape shape, double low, double high, double mean, double stddev,
                        DType dtype) {
  if (!(low < high))
    throw Error(ErrorKind::kInvalidArgument, "truncated_normal", "the bounds", "low < high",
                fmt::format("{} and {}", low, high));
  return drawn("truncated_normal", key, dtype, stddev, mean, [&](Value k, DType computed) {
    // The share of the distribution between the bounds, as values of the error function.
    const double from = std::erf(low / std::numbers::sqrt2), to = std::erf(high / std::numbers::sqrt2);
    const Value u = ops::random_uniform(k, shape, computed);
    const Value inside = plus(times(u, to - from), from);
    const Value z = times(inverse_erf(inside), std::numbers::sqrt2);
    const Value least = scalar_like(z, low), most = scalar_like(z, high);
    return ops::clamp(least, z, most);
  });
}

Tensor gumbel(const Tensor& key, Shape shape, DType dtype) {
  return drawn("gumbel", key, dtype, 1, 0,
               [&](Value k, DType computed) { return standard_gumbel(k, shape, computed); });
}

Tensor randint(const Tensor& key, Shape shape, std::int64_t low, std::int64_t high, DType dtype) {
  check_key(key, "randint");
  if (!is_integer(dtype))
    throw Error(ErrorKind::kDType, "randint", "the dtype", "an integer", std::string(name(dtype)));
  if (!(low < high))
    throw Error(ErrorKind::kInvalidArgument, "randint", "the bounds", "low < high",
                fmt::format("{} and {}", low, high));
  for (const std::int64_t bound : {low, high - 1})
    if (!fits(bound, dtype))
      throw Error(ErrorKind::kInvalidArgument, "randint", "a bound that the dtype cannot hold",
                  std::string(name(dtype)), std::to_string(bound));
  return recording::built({key}, [&](const Values& v) {
    // The remainder of 64 bits: no count below 2³² is more likely than another by more than 2⁻³².
    const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    const Value drawn = ops::random_bits(v[0], shape, DType::u64);
    const Value counts = ops::rem(drawn, ops::constant(drawn.graph(), Literal::scalar(span)));
    const Value first = ops::constant(drawn.graph(), Literal::scalar(static_cast<std::uint64_t>(low)));
    return ops::convert(ops::add(counts, first), dtype);
  });
}

Tensor bernoulli(const Tensor& key, const Tensor& p, Shape shape) {
  check_key(key, "bernoulli");
  recording::checked(p, "bernoulli");
  const Tensor chance = recording::as_float(p);
  return recording::built({key, chance}, [&](const Values& v) {
    const Value u = ops::random_uniform(v[0], shape, v[1].dtype());
    return ops::less(u, ops::broadcast_to(v[1], shape));
  });
}

Tensor permutation(const Tensor& key, std::int64_t n) {
  check_key(key, "permutation");
  return recording::built({key}, [&](const Values& v) {
    const Value order = ops::random_bits(v[0], {n}, DType::u64);
    return ops::sort({order, ops::iota(order.graph(), {DType::i32, {n}}, 0)}, 0)[1];
  });
}

Tensor permutation(const Tensor& key, const Tensor& x, std::int64_t axis) {
  const std::int64_t at =
      normalize_axis(axis, recording::checked(x, "permutation").type.shape.rank(), "permutation");
  const Tensor order = permutation(key, x.size(at));
  return recording::built({x, order}, [&](const Values& v) { return ops::take(v[0], v[1], at); });
}

Tensor categorical(const Tensor& key, const Tensor& logits, std::int64_t axis) {
  check_key(key, "categorical");
  const std::int64_t at =
      normalize_axis(axis, recording::checked(logits, "categorical").type.shape.rank(), "categorical");
  return recording::built({key, recording::as_float(logits)}, [&](const Values& v) {
    const Value wide = ops::widen(v[1]);
    const Value noise = standard_gumbel(v[0], wide.shape(), wide.dtype());
    return ops::arg_reduce(ops::add(wide, noise), ir::Combine::max, at);
  });
}

}  // namespace systole::random
