// Reductions, running ones, windows and sorts. Narrow floats are added in f32 and rounded once. A running
// reduction doubles the length it covers at each step: log2(n) passes instead of a window as long as the
// axis.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/stablehlo_emitter.h"
#include "systole/base/error.h"

namespace systole::codegen::hlo {

namespace {

using ir::Combine;

bool adds(Combine kind) { return kind == Combine::sum || kind == Combine::prod; }

DType accumulator(Combine kind, DType dtype) { return adds(kind) ? wide(dtype) : computable(dtype); }

Value identity(Emitter& e, Combine kind, DType of, DType as) {
  return e.splat({as, {}}, identity_text(kind, of, as));
}

Ints or_all(const Ints& list, std::size_t rank, std::int64_t otherwise) {
  return list.empty() ? Ints(rank, otherwise) : list;
}

// NaN above every number.
Value comes_before(Emitter& e, const Value& a, const Value& b) {
  const DType dtype = computable(a.type.dtype);
  const Value x = e.cast(a, dtype), y = e.cast(b, dtype);
  const Value less = e.compare("LT", x, y);
  if (!is_float(dtype)) return less;
  const Value y_nan = e.is_nan(y);
  const Value only_y_nan = e.binary("and", y_nan, e.compare("EQ", x, x));
  return e.binary("or", less, only_y_nan);
}

// Whether (a, i) wins over (b, j): the larger or smaller, the first NaN, the lower index among equals.
Value wins(Emitter& e, std::string_view direction, const Values& pair) {
  const Value &a = pair[0], &i = pair[1], &b = pair[2], &j = pair[3];
  Value better = e.compare(direction, a, b), equal = e.compare("EQ", a, b);
  if (is_float(a.type.dtype)) {
    const Value a_nan = e.is_nan(a), b_nan = e.is_nan(b);
    better = e.binary("or", better, e.binary("and", a_nan, e.unary("not", b_nan)));
    equal = e.binary("or", equal, e.binary("and", a_nan, b_nan));
  }
  return e.binary("or", better, e.binary("and", equal, e.compare("LT", i, j)));
}

}  // namespace

Value combined(Emitter& e, Combine kind, const Value& a, const Value& b) {
  switch (kind) {
    case Combine::set: return b;
    case Combine::sum: return e.binary("add", a, b);
    case Combine::prod: return e.binary("multiply", a, b);
    case Combine::max: return e.binary("maximum", a, b);
    case Combine::min: return e.binary("minimum", a, b);
    case Combine::bitwise_and: return e.binary("and", a, b);
    case Combine::bitwise_or: return e.binary("or", a, b);
  }
  throw Error(ErrorKind::kInternal, "stablehlo", "an unknown combination");
}

Region combination(Emitter& e, Combine kind, DType dtype) {
  const Type scalar{dtype, {}};
  return {{scalar, scalar}, [&e, kind](const Values& x) { return Values{combined(e, kind, x[0], x[1])}; }};
}

Value reduce(Emitter& e, const Value& x, Combine kind, const Ints& axes) {
  if (axes.empty()) return x;
  const DType dtype = x.type.dtype, computed = accumulator(kind, dtype);
  Shape shape;
  for (std::size_t i = 0; i < x.type.shape.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) == axes.end())
      shape.push_back(x.type.shape[i]);
  const Values result = e.op_with_regions("reduce", {e.cast(x, computed), identity(e, kind, dtype, computed)},
                                          {{computed, shape}}, "dimensions = " + array_text(axes),
                                          {combination(e, kind, computed)});
  return e.cast(result[0], dtype);
}

Value arg_reduce(Emitter& e, const ir::Node& node, const Value& x) {
  const auto& a = node.as<ir::ArgReduceAttrs>();
  const DType dtype = x.type.dtype, computed = computable(dtype);
  const Type value{computed, {}}, index{a.dtype, {}};
  const Value indices = e.iota({a.dtype, x.type.shape}, a.axis);
  // The start loses against every element: those that equal it have a lower index.
  const Value no_index = e.splat(index, identity_text(Combine::min, a.dtype, a.dtype));
  const std::string_view direction = a.kind == Combine::max ? "GT" : "LT";
  const Region choice{{value, index, value, index}, [&](const Values& pair) {
                        const Value first = wins(e, direction, pair);
                        return Values{e.select(first, pair[0], pair[2]), e.select(first, pair[1], pair[3])};
                      }};
  return e.op_with_regions("reduce",
                           {e.cast(x, computed), indices, identity(e, a.kind, dtype, computed), no_index},
                           {with_dtype(node.types[0], computed), node.types[0]},
                           "dimensions = " + array_text({a.axis}), {choice})[1];
}

Value reduce_window(Emitter& e, const ir::Node& node, const Value& x) {
  const auto& a = node.as<ir::WindowAttrs>();
  const std::size_t rank = a.window.size();
  if (rank == 0) return x;
  const DType dtype = x.type.dtype, computed = accumulator(a.kind, dtype);
  const Ints low = or_all(a.pad_low, rank, 0), high = or_all(a.pad_high, rank, 0);
  Ints padding;
  for (std::size_t i = 0; i < rank; ++i) {
    padding.push_back(low[i]);
    padding.push_back(high[i]);
  }
  const std::string attrs = fmt::format(
      "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = {}",
      array_text(a.window), array_text(or_all(a.strides, rank, 1)),
      array_text(or_all(a.base_dilation, rank, 1)), array_text(or_all(a.window_dilation, rank, 1)),
      table_text(padding, 2));
  const Values result =
      e.op_with_regions("reduce_window", {e.cast(x, computed), identity(e, a.kind, dtype, computed)},
                        {with_dtype(node.types[0], computed)}, attrs, {combination(e, a.kind, computed)});
  return e.cast(result[0], dtype);
}

Value cumulative(Emitter& e, const ir::Node& node, const Value& x) {
  const auto& a = node.as<ir::CumulativeAttrs>();
  const DType dtype = x.type.dtype, computed = accumulator(a.kind, dtype);
  const auto axis = static_cast<std::size_t>(a.axis);
  const std::int64_t length = x.type.shape[axis].value();
  const Ints none(x.type.shape.size(), 0);
  const Value start = identity(e, a.kind, dtype, computed);
  Value sums = e.cast(x, computed);
  for (std::int64_t covered = 1; covered < length; covered *= 2) {
    Ints low = none, high = none;
    low[axis] = a.reverse ? -covered : covered;
    high[axis] = -low[axis];
    sums = combined(e, a.kind, sums, e.pad(sums, start, low, high, none));
  }
  return e.cast(sums, dtype);
}

Values sort(Emitter& e, const Values& operands, std::int64_t axis, bool descending) {
  std::vector<Type> types, scalars;
  for (const Value& x : operands) {
    types.push_back(x.type);
    scalars.insert(scalars.end(), 2, {x.type.dtype, {}});
  }
  const Region order{
      scalars, [&](const Values& pair) {
        return Values{descending ? comes_before(e, pair[1], pair[0]) : comes_before(e, pair[0], pair[1])};
      }};
  return e.op_with_regions("sort", operands, types,
                           fmt::format("dimension = {} : i64, is_stable = true", axis), {order});
}

Values top_k(Emitter& e, const ir::Node& node, const Value& x) {
  const std::int64_t last = x.type.shape.rank() - 1;
  const Value indices = e.iota(with_dtype(x.type, DType::i32), last);
  Values sorted = sort(e, {x, indices}, last, true);
  const Ints first(x.type.shape.size(), 0), strides(x.type.shape.size(), 1);
  for (Value& v : sorted) v = e.slice(v, first, node.types[0].shape.dims(), strides);
  return sorted;
}

}  // namespace systole::codegen::hlo
