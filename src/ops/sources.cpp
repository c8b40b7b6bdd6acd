// Builders of constants and index ranges.

#include <utility>

#include "ops/common.h"
#include "systole/base/error.h"

namespace systole::ops {

Value constant(Graph& graph, Literal value) { return graph.constant(std::move(value)); }

Value full(Graph& graph, Type type, double value) {
  check_type(type, "full");
  return broadcast_to(graph.constant(scalar_literal(type.dtype, value)), std::move(type.shape));
}

Value scalar_like(Value x, double value) {
  return graph_of("scalar_like", {x}).constant(scalar_literal(x.dtype(), value));
}

Value dimension(Graph& graph, Dim dim, DType dtype) {
  if (dim.is_static()) return graph.constant(scalar_literal(dtype, static_cast<double>(dim.value())));
  return graph.add(ir::Op::dimension, {}, ir::DimensionAttrs{dim, dtype});
}

Value iota(Graph& graph, Type type, std::int64_t axis) {
  axis = normalize_axis(axis, type.shape.rank(), "iota");
  return graph.add(ir::Op::iota, {}, ir::IotaAttrs{type.dtype, std::move(type.shape), axis});
}

Value one_hot(Value indices, std::int64_t classes, DType dtype) {
  Graph& graph = graph_of("one_hot", {indices});
  if (!is_integer(indices.dtype()))
    throw Error(ErrorKind::kDType, "one_hot", "the indices", "an integer dtype", indices.type().to_string());
  // The index range must not wrap in a narrow dtype, or one index would hit two classes.
  const bool narrow = size_of(indices.dtype()) < 4 || indices.dtype() == DType::i32;
  const DType index_dtype = narrow && classes <= 0x7fffffff ? DType::i32 : DType::i64;
  Shape shape = indices.shape();
  shape.push_back(classes);
  check_type({dtype, shape}, "one_hot");
  const Ints leading = other_axes({indices.rank()}, indices.rank() + 1);
  const Value wanted = broadcast(convert(indices, index_dtype), shape, leading);
  return convert(equal(wanted, iota(graph, {index_dtype, shape}, -1)), dtype);
}

}  // namespace systole::ops
