// Ops that move elements. Indices narrower than 32 bits are widened, since bounds would not fit them, and
// unsigned ones become signed without losing that they are out of range.

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "codegen/stablehlo_emitter.h"
#include "systole/base/error.h"

namespace systole::codegen::hlo {

namespace {

DType index_dtype(DType dtype) { return size_of(dtype) < 4 || dtype == DType::i32 ? DType::i32 : DType::i64; }

Value as_index(Emitter& e, const Value& x, DType dtype) {
  if (x.type.dtype != DType::u64) return e.cast(x, dtype);
  const Value most = e.splat(x.type, std::numeric_limits<std::int64_t>::max());
  return e.cast(e.binary("minimum", x, most), dtype);
}

// The scalar starts from operand `first` on, in one dtype.
Values starts(Emitter& e, const Values& operands, std::size_t first) {
  DType dtype = DType::i32;
  for (std::size_t i = first; i < operands.size(); ++i)
    if (index_dtype(operands[i].type.dtype) == DType::i64) dtype = DType::i64;
  Values list;
  for (std::size_t i = first; i < operands.size(); ++i) list.push_back(as_index(e, operands[i], dtype));
  return list;
}

std::string axes_text(std::string_view name, const Ints& axes) {
  return fmt::format("{} = [{}]", name, list_text(axes));
}

// `type` has the operands' dtype, which need not be the node's.
Value moved(Emitter& e, const ir::Node& node, const Values& x, const Type& type) {
  using ir::Op;
  switch (node.op) {
    case Op::reshape: return e.reshape(x[0], type.shape);
    case Op::transpose:
      return e.op("transpose", x, type,
                  "permutation = " + array_text(node.as<ir::TransposeAttrs>().permutation));
    case Op::broadcast: return e.broadcast(x[0], type.shape, node.as<ir::BroadcastAttrs>().axes);
    case Op::slice: {
      const auto& a = node.as<ir::SliceAttrs>();
      return e.slice(x[0], a.starts, a.limits.dims(), a.strides);
    }
    case Op::pad: {
      const auto& a = node.as<ir::PadAttrs>();
      return e.pad(x[0], x[1], a.low, a.high, a.interior);
    }
    case Op::concat:
      return e.op("concatenate", x, type, fmt::format("dimension = {} : i64", node.as<ir::AxisAttrs>().axis));
    case Op::reverse:
      return e.op("reverse", x, type, "dimensions = " + array_text(node.as<ir::AxesAttrs>().axes));
    default: throw Error(ErrorKind::kInternal, std::string(ir::name(node.op)), "is no plain movement");
  }
}

struct Scatter {
  Value x, indices;
  ir::ScatterAttrs attrs;
};

// Without index components every window lies at the origin. XLA miscompiles that, so the operand gets an axis
// of size 1 that is indexed with zeros.
Scatter indexed(Emitter& e, const Value& x, const Value& indices, ir::ScatterAttrs attrs) {
  if (!attrs.index_map.empty())
    return {x, as_index(e, indices, index_dtype(indices.type.dtype)), std::move(attrs)};
  Shape shape{1}, places = indices.type.shape;
  for (const Dim& d : x.type.shape) shape.push_back(d);
  places[static_cast<std::size_t>(attrs.index_vector_axis)] = 1;
  Ints inserted{0};
  for (const std::int64_t axis : attrs.inserted_axes) inserted.push_back(axis + 1);
  for (std::int64_t& axis : attrs.operand_batch_axes) ++axis;
  attrs.inserted_axes = inserted;
  attrs.index_map = {0};
  return {e.reshape(x, shape), e.splat({DType::i32, places}, std::int64_t{0}), std::move(attrs)};
}

}  // namespace

Value movement(Emitter& e, const ir::Node& node, const Values& operands) {
  const DType dtype = node.types[0].dtype;
  // XLA takes 8-bit floats through wider ones in some of these, which changes NaNs; bytes stay as they are.
  const DType carrier = is_f8(dtype) ? DType::u8 : dtype;
  Values x;
  for (const Value& v : operands) x.push_back(bitcast(e, v, carrier));
  return bitcast(e, moved(e, node, x, with_dtype(node.types[0], carrier)), dtype);
}

Value gather(Emitter& e, const ir::Node& node, const Value& x, const Value& indices) {
  const auto& a = node.as<ir::GatherAttrs>();
  const std::string numbers = fmt::format(
      "#stablehlo.gather<{}, {}, {}, {}, {}, index_vector_dim = {}>", axes_text("offset_dims", a.offset_axes),
      axes_text("collapsed_slice_dims", a.collapsed_axes),
      axes_text("operand_batching_dims", a.operand_batch_axes),
      axes_text("start_indices_batching_dims", a.index_batch_axes),
      axes_text("start_index_map", a.start_index_map), a.index_vector_axis);
  return e.op("gather", {x, as_index(e, indices, index_dtype(indices.type.dtype))}, node.types[0],
              fmt::format("dimension_numbers = {}, slice_sizes = {}, indices_are_sorted = false", numbers,
                          array_text(a.slice_sizes.dims())));
}

Value scatter(Emitter& e, const ir::Node& node, const Values& operands) {
  const DType dtype = operands[0].type.dtype;
  const ir::Combine kind = node.as<ir::ScatterAttrs>().combine;
  const bool adds = kind == ir::Combine::sum || kind == ir::Combine::prod;
  const DType computed = kind == ir::Combine::set ? dtype : adds ? wide(dtype) : computable(dtype);
  const auto [x, indices, a] =
      indexed(e, e.cast(operands[0], computed), operands[1], node.as<ir::ScatterAttrs>());
  const std::string numbers =
      fmt::format("#stablehlo.scatter<{}, {}, {}, {}, {}, index_vector_dim = {}>",
                  axes_text("update_window_dims", a.update_window_axes),
                  axes_text("inserted_window_dims", a.inserted_axes),
                  axes_text("input_batching_dims", a.operand_batch_axes),
                  axes_text("scatter_indices_batching_dims", a.index_batch_axes),
                  axes_text("scatter_dims_to_operand_dims", a.index_map), a.index_vector_axis);
  const Values result = e.op_with_regions(
      "scatter", {x, indices, e.cast(operands[2], computed)}, {x.type},
      fmt::format("scatter_dimension_numbers = {}, indices_are_sorted = false, unique_indices = {}", numbers,
                  a.unique),
      {combination(e, kind, computed)});
  return e.cast(e.reshape(result[0], node.types[0].shape), dtype);
}

Value dynamic_slice(Emitter& e, const ir::Node& node, const Values& operands) {
  Values all = starts(e, operands, 1);
  all.insert(all.begin(), operands[0]);
  return e.op("dynamic_slice", all, node.types[0],
              "slice_sizes = " + array_text(node.as<ir::DynamicSliceAttrs>().sizes.dims()));
}

Value dynamic_update_slice(Emitter& e, const Values& operands) {
  Values all = starts(e, operands, 2);
  all.insert(all.begin(), operands.begin(), operands.begin() + 2);
  return e.op("dynamic_update_slice", all, operands[0].type);
}

}  // namespace systole::codegen::hlo
