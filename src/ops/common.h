#pragma once

// What the builders share: finding the graph, bringing axes into [0, rank), numpy's broadcasting rule, and
// the dtype in which statistics are computed. What a builder checks itself it checks before it adds a node.

#include <cstdint>
#include <optional>
#include <string_view>

#include "systole/base/literal.h"
#include "systole/ir/graph.h"
#include "systole/ops.h"

namespace systole::ops {

// The one graph of all values; throws kInvalidArgument naming `where` when there is none or more than one.
Graph& graph_of(std::string_view where, ValueList values);

// Each axis in [-rank, rank) as one in [0, rank), in the order given.
Ints normalize_axes(Ints axes, int rank, std::string_view where);
// The same in increasing order.
Ints sorted_axes(Ints axes, int rank, std::string_view where);
// The axes of [0, rank) that are not in `axes`, increasing.
Ints other_axes(const Ints& axes, int rank);

// `list`, or `count` times `value` when it is empty.
Ints filled(Ints list, std::size_t count, std::int64_t value);

// numpy's rule on two shapes, and the error when there is no such shape.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);
[[noreturn]] void refuse_broadcast(std::string_view where, ValueList values);

// `value` as a scalar of `dtype`: rounded to nearest for floats, truncated and saturated for integers.
Literal scalar_literal(DType dtype, double value);

// How many elements the reduction of `shape` over `axes` meets.
Value element_count(Graph& graph, const Shape& shape, const Ints& axes, DType dtype);

// Small floats compute in f32; every other dtype in itself.
DType compute_dtype(DType dtype);
inline Value widen(Value x) { return convert(x, compute_dtype(x.dtype())); }

// x + number and x · number. Where two arguments of one call would both add nodes, the compiler would pick
// their order: builders name one of them first, so that the graph is the same everywhere.
inline Value plus(Value x, double number) { return add(x, scalar_like(x, number)); }
inline Value times(Value x, double number) { return mul(x, scalar_like(x, number)); }

// What a reduction of `shape` over `axes` left, repeated along them again.
Value spread(Value reduced, const Shape& shape, const Ints& axes);

}  // namespace systole::ops
