// Builders of elementwise ops. Those without attributes come from ops.def, one function per line there: two
// operands are promoted to a common dtype and broadcast to a common shape first.

#include <fmt/format.h>
#include <optional>
#include <string>

#include "ops/common.h"
#include "systole/base/error.h"

namespace systole::ops {

namespace {

using ir::Op;

Value unary(Op op, Value x) { return graph_of(ir::name(op), {x}).add(op, {x}); }

Value binary(Op op, Value a, Value b) {
  const std::string_view where = ir::name(op);
  Graph& graph = graph_of(where, {a, b});
  const std::optional<DType> dtype = promote(a.dtype(), b.dtype());
  const auto both = [&] { return fmt::format("{} and {}", a.type().to_string(), b.type().to_string()); };
  if (!dtype)
    throw Error(ErrorKind::kDType, std::string(where), "the dtypes have no common one; convert first", {},
                both());
  if (!ir::info(op).dtypes.contains(*dtype))
    throw Error(ErrorKind::kDType, std::string(where), fmt::format("does not take {}", name(*dtype)), {},
                both());
  const std::optional<Shape> shape = broadcast_shape(a.shape(), b.shape());
  if (!shape) refuse_broadcast(where, {a, b});
  return graph.add(op, {broadcast_to(convert(a, *dtype), *shape), broadcast_to(convert(b, *dtype), *shape)});
}

}  // namespace

#define SYSTOLE_UNARY(name, ...) \
  Value name(Value x) { return unary(Op::name, x); }
#define SYSTOLE_BINARY(name, ...) \
  Value name(Value a, Value b) { return binary(Op::name, a, b); }
#include "systole/ir/ops.def"

Value select(Value predicate, Value on_true, Value on_false) {
  Graph& graph = graph_of("select", {predicate, on_true, on_false});
  if (predicate.dtype() != DType::boolean || on_true.dtype() != on_false.dtype())
    throw Error(ErrorKind::kDType, "select", "the predicate must be bool and both branches of one dtype", {},
                fmt::format("{}, {} and {}", predicate.type().to_string(), on_true.type().to_string(),
                            on_false.type().to_string()));
  const std::optional<Shape> branches = broadcast_shape(on_true.shape(), on_false.shape());
  const std::optional<Shape> shape = branches ? broadcast_shape(predicate.shape(), *branches) : branches;
  if (!shape) refuse_broadcast("select", {predicate, on_true, on_false});
  if (predicate.rank() != 0) predicate = broadcast_to(predicate, *shape);  // a scalar predicate stays one
  return graph.add(Op::select, {predicate, broadcast_to(on_true, *shape), broadcast_to(on_false, *shape)});
}

Value clamp(Value low, Value x, Value high) {
  return graph_of("clamp", {low, x, high}).add(Op::clamp, {low, x, high});
}

Value convert(Value x, DType dtype) {
  Graph& graph = graph_of("convert", {x});
  return x.dtype() == dtype ? x : graph.add(Op::convert, {x}, ir::ConvertAttrs{dtype});
}

Value bitcast(Value x, DType dtype) {
  return graph_of("bitcast", {x}).add(Op::bitcast, {x}, ir::ConvertAttrs{dtype});
}

Value square(Value x) { return mul(x, x); }

Value reciprocal(Value x) { return div(scalar_like(x, 1), x); }

Value relu(Value x) { return max(x, scalar_like(x, 0)); }

}  // namespace systole::ops
