// Reductions, running sums and sorting, and the methods of Tensor that name them.

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/math.h"
#include "systole/tensor/shaping.h"
#include "tensor/functions.h"
#include "tensor/record.h"

namespace systole {

using namespace recording;
using ir::Combine;
using ir::Op;

namespace {

// Small floats are computed in f32 and rounded once at the end.
Tensor widened(const Tensor& x) {
  const Tensor y = as_float(x);
  return as_dtype(y, ops::compute_dtype(y.dtype()));
}

// Statistics of x come back in its dtype, those of integers in f32.
Tensor narrowed(const Tensor& statistic, const Tensor& x) {
  return is_float(x.dtype()) ? as_dtype(statistic, x.dtype()) : statistic;
}

// The number of elements behind each result, as a scalar like x.
Tensor count(const Tensor& x, const Ints& axes) {
  return built({x}, [&](const ir::Values& v) {
    return ops::element_count(v[0].graph(), v[0].shape(), axes, v[0].dtype());
  });
}

Tensor extreme(const Tensor& x, Combine kind, const Axes& axes, bool keep, std::string_view where) {
  if (checked(x, where).type.dtype != DType::boolean) return reduced(x, kind, axes, keep, where);
  return reduced(x, kind == Combine::max ? Combine::bitwise_or : Combine::bitwise_and, axes, keep, where);
}

// As Axes reads braces: empty ones are all axes.
Axes braced(std::initializer_list<std::int64_t> axes) { return axes.size() == 0 ? Axes() : Axes(axes); }

Tensor arg(const Tensor& x, Combine kind, std::optional<std::int64_t> axis, bool keep,
           std::string_view where) {
  Tensor y = checked(x, where).type.dtype == DType::boolean ? as_dtype(x, DType::u8) : x;
  if (!axis) y = flatten(y);
  const std::int64_t along = axis ? normalize_axis(*axis, y.rank(), where) : 0;
  const Tensor index = record(Op::arg_reduce, {y}, ir::ArgReduceAttrs{kind, along, DType::i32});
  if (!keep) return index;
  return axis ? unsqueeze(index, along) : reshaped(index, Shape(Ints(static_cast<std::size_t>(x.rank()), 1)));
}

// What sums and products take: integers and bools wide, as numpy's, since a sum of u8 rarely fits u8.
Tensor wide(const Tensor& x, std::optional<DType> asked, std::string_view where) {
  const DType dtype = checked(x, where).type.dtype;
  if (asked == DType::boolean)
    throw Error(ErrorKind::kDType, std::string(where), "the dtype", "a number",
                "bool; any() and all() are of truth");
  if (asked) return as_dtype(x, *asked);
  if (is_float(dtype)) return x;
  return as_dtype(x, is_unsigned_integer(dtype) ? DType::u64 : DType::i64);
}

Tensor running(const Tensor& x, Combine kind, std::int64_t axis, RunningOptions options,
               std::string_view where) {
  const Tensor y = wide(x, options.dtype, where);
  return record(Op::cumulative, {y},
                ir::CumulativeAttrs{kind, normalize_axis(axis, y.rank(), where), options.reverse});
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, SumOptions options) {
  return reduced(wide(x, options.dtype, "sum"), Combine::sum, axes, options.keep, "sum");
}
Tensor sum(const Tensor& x, const Axes& axes, Flag keep) { return sum(x, axes, SumOptions{.keep = keep}); }

Tensor prod(const Tensor& x, const Axes& axes, SumOptions options) {
  return reduced(wide(x, options.dtype, "prod"), Combine::prod, axes, options.keep, "prod");
}
Tensor prod(const Tensor& x, const Axes& axes, Flag keep) { return prod(x, axes, SumOptions{.keep = keep}); }

Tensor mean(const Tensor& x, const Axes& which, Flag keep) {
  const Ints axes = reduced_axes(which, x, "mean");
  const Tensor y = widened(x);
  if (axes.empty()) return narrowed(y, x);
  return narrowed(binary(Op::div, reduced(y, Combine::sum, axes, keep, "mean"), count(y, axes)), x);
}

Tensor amax(const Tensor& x, const Axes& axes, Flag keep) {
  return extreme(x, Combine::max, axes, keep, "max");
}
Tensor amin(const Tensor& x, const Axes& axes, Flag keep) {
  return extreme(x, Combine::min, axes, keep, "min");
}
Tensor max(const Tensor& x) { return amax(x); }
Tensor max(const Tensor& x, Ints axes, Flag keep) { return amax(x, std::move(axes), keep); }
Tensor max(const Tensor& x, std::initializer_list<std::int64_t> axes, Flag keep) {
  return amax(x, braced(axes), keep);
}
Tensor min(const Tensor& x) { return amin(x); }
Tensor min(const Tensor& x, Ints axes, Flag keep) { return amin(x, std::move(axes), keep); }
Tensor min(const Tensor& x, std::initializer_list<std::int64_t> axes, Flag keep) {
  return amin(x, braced(axes), keep);
}

Tensor var(const Tensor& x, const Axes& which, VarOptions options) {
  const Ints axes = reduced_axes(which, x, "var");
  const Tensor y = widened(x);
  const Tensor size = count(y, axes);
  const Tensor centered = y - binary(Op::div, reduced(y, Combine::sum, axes, true, "var"), size);
  const Tensor total = reduced(centered * centered, Combine::sum, axes, options.keep, "var");
  const Tensor divisor = options.correction == 0
                             ? size
                             : max(size - constant_like(size, options.correction), constant_like(size, 0));
  return narrowed(total / divisor, x);
}

Tensor stddev(const Tensor& x, const Axes& axes, VarOptions options) {
  return narrowed(sqrt(var(widened(x), axes, options)), x);
}

Tensor norm(const Tensor& x, const Axes& axes, NormOptions options) {
  const auto [order, keep] = options;
  const Tensor y = widened(x);
  const auto total = [&, keep = keep](const Tensor& terms) {
    return reduced(terms, Combine::sum, axes, keep, "norm");
  };
  if (order == 2) return narrowed(sqrt(total(y * y)), x);
  const Tensor size = abs(y);
  if (order == 1) return narrowed(total(size), x);
  if (std::isinf(order))
    return narrowed(reduced(size, order > 0 ? Combine::max : Combine::min, axes, keep, "norm"), x);
  if (order == 0 || std::isnan(order))
    throw Error(ErrorKind::kInvalidArgument, "norm", "no norm has this order", "a number other than 0",
                std::to_string(order));
  return narrowed(pow(total(pow(size, order)), 1 / order), x);
}

Tensor logsumexp(const Tensor& x, const Axes& which, Flag keep) {
  const Ints axes = reduced_axes(which, x, "logsumexp");
  const Tensor y = widened(x);
  const Tensor peak = reduced(y, Combine::max, axes, true, "logsumexp");
  // An infinite maximum would make NaN of infinity less infinity.
  const Tensor shift = where(is_finite(peak), peak, constant_like(peak, 0));
  const Tensor result = log(reduced(exp(y - shift), Combine::sum, axes, true, "logsumexp")) + shift;
  return narrowed(keep || axes.empty() ? result : squeeze(result, axes), x);
}

Tensor any(const Tensor& x, const Axes& axes, Flag keep) {
  return reduced(as_bool(x), Combine::bitwise_or, axes, keep, "any");
}

Tensor All::operator()(const Tensor& x, const Axes& axes, Flag keep) const {
  return reduced(as_bool(x), Combine::bitwise_and, axes, keep, "all");
}

Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, Flag keep) {
  return arg(x, Combine::max, axis, keep, "argmax");
}

Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, Flag keep) {
  return arg(x, Combine::min, axis, keep, "argmin");
}

Tensor cumsum(const Tensor& x, std::int64_t axis, RunningOptions options) {
  return running(x, Combine::sum, axis, options, "cumsum");
}
Tensor cumsum(const Tensor& x, std::int64_t axis, Flag reverse) {
  return cumsum(x, axis, RunningOptions{.reverse = reverse});
}

Tensor cumprod(const Tensor& x, std::int64_t axis, RunningOptions options) {
  return running(x, Combine::prod, axis, options, "cumprod");
}
Tensor cumprod(const Tensor& x, std::int64_t axis, Flag reverse) {
  return cumprod(x, axis, RunningOptions{.reverse = reverse});
}

Tensor sort(const Tensor& x, std::int64_t axis, Flag descending) {
  return record(
      Op::sort, {x},
      ir::SortAttrs{normalize_axis(axis, checked(x, "sort").type.shape.rank(), "sort"), descending});
}

Tensor argsort(const Tensor& x, std::int64_t axis, Flag descending) {
  axis = normalize_axis(axis, checked(x, "argsort").type.shape.rank(), "argsort");
  const Tensor operands[] = {x, iota({DType::i32, x.shape()}, axis)};
  return record_multi(Op::sort, operands, ir::SortAttrs{axis, descending})[1];
}

std::pair<Tensor, Tensor> top_k(const Tensor& x, std::int64_t k) {
  const std::vector<Tensor> results = record_multi(Op::top_k, {&x, 1}, ir::TopKAttrs{k});
  return {results[0], results[1]};
}

Tensor Tensor::sum(const Axes& axes, Flag keep) const { return systole::sum(*this, axes, keep); }
Tensor Tensor::sum(const Axes& axes, SumOptions options) const { return systole::sum(*this, axes, options); }
Tensor Tensor::mean(const Axes& axes, Flag keep) const { return systole::mean(*this, axes, keep); }
Tensor Tensor::max(const Axes& axes, Flag keep) const { return amax(*this, axes, keep); }
Tensor Tensor::min(const Axes& axes, Flag keep) const { return amin(*this, axes, keep); }
Tensor Tensor::argmax(std::int64_t axis) const { return systole::argmax(*this, axis); }
Tensor Tensor::to(DType dtype) const { return as_dtype(*this, dtype); }

}  // namespace systole
