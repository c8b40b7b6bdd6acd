#include "ops/common.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "systole/base/error.h"

namespace systole::ops {

Graph& graph_of(std::string_view where, ValueList values) {
  const auto fail = [&](const char* message) {
    throw Error(ErrorKind::kInvalidArgument, std::string(where), message);
  };
  if (values.empty()) fail("needs at least one operand to know its graph");
  for (const Value& v : values) {
    if (!v.valid()) fail("an operand is not a value of any graph");
    if (&v.graph() != &values[0].graph()) fail("the operands belong to different graphs");
  }
  return values[0].graph();
}

Ints normalize_axes(Ints axes, int rank, std::string_view where) {
  for (std::int64_t& axis : axes) axis = normalize_axis(axis, rank, where);
  return axes;
}

Ints sorted_axes(Ints axes, int rank, std::string_view where) {
  Ints sorted = normalize_axes(std::move(axes), rank, where);
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

Ints other_axes(const Ints& axes, int rank) {
  Ints others;
  for (std::int64_t i = 0; i < rank; ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) others.push_back(i);
  return others;
}

Ints filled(Ints list, std::size_t count, std::int64_t value) {
  return list.empty() ? Ints(count, value) : list;
}

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto at = [&](const Shape& s) { return i + s.size() < rank ? Dim(1) : s[i + s.size() - rank]; };
    const Dim x = at(a), y = at(b);
    if (x != y && x != Dim(1) && y != Dim(1)) return std::nullopt;
    result.push_back(x == Dim(1) ? y : x);
  }
  return result;
}

void refuse_broadcast(std::string_view where, ValueList values) {
  std::string got;
  for (const Value& v : values) got += (got.empty() ? "" : ", ") + v.type().to_string();
  throw Error(ErrorKind::kShape, std::string(where), "the shapes do not broadcast together",
              "equal sizes or 1 in every axis, counted from the last", std::move(got));
}

Literal scalar_literal(DType dtype, double value) {
  return visit_dtype(dtype, [&]<class T>() {
    T converted{};
    if constexpr (std::is_same_v<T, bool>) {
      converted = value != 0;
    } else if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      if (value <= static_cast<double>(Limits::min()))
        converted = Limits::min();
      else if (value >= static_cast<double>(Limits::max()))
        converted = Limits::max();
      else if (!std::isnan(value))
        converted = static_cast<T>(value);
    } else {
      converted = static_cast<T>(value);
    }
    return Literal::of<T>({}, std::span<const T>(&converted, 1));
  });
}

Value element_count(Graph& graph, const Shape& shape, const Ints& axes, DType dtype) {
  Dim known = 1;
  Value count;
  for (const std::int64_t axis : axes) {
    const Dim dim = shape[static_cast<std::size_t>(axis)];
    if (dim.is_static()) {
      known = known * dim;
    } else {
      const Value size = dimension(graph, dim, dtype);
      count = count.valid() ? mul(count, size) : size;
    }
  }
  if (count.valid() && known == Dim(1)) return count;
  const Value factor = dimension(graph, known, dtype);
  return count.valid() ? mul(count, factor) : factor;
}

DType compute_dtype(DType dtype) { return is_float(dtype) && size_of(dtype) < 4 ? DType::f32 : dtype; }

Value spread(Value reduced, const Shape& shape, const Ints& axes) {
  return broadcast(reduced, shape, other_axes(axes, shape.rank()));
}

}  // namespace systole::ops
