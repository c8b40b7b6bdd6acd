// Contractions. XLA adds products of narrow floats in f32 and rounds once; 8-bit floats go through bf16,
// which holds all of them.

#include <fmt/format.h>

#include <limits>

#include "codegen/stablehlo_emitter.h"

namespace systole::codegen::hlo {

namespace {

struct Factors {
  Value a, b;
  DType result;           // of the StableHLO op
  std::string precision;  // an attribute, or nothing
};

// XLA wants operands of one dtype; integers of different signedness are widened.
Factors factors(Emitter& e, const Value& a, const Value& b, DType result) {
  const auto both = [&](DType dtype) { return Factors{e.cast(a, dtype), e.cast(b, dtype), result, {}}; };
  const DType dtype = a.type.dtype;
  if (is_f8(dtype)) {
    Factors f = both(DType::bf16);
    f.result = is_f8(result) || size_of(result) == 2 ? DType::f32 : result;
    return f;
  }
  if (dtype != b.type.dtype) return both(result);
  Factors f{a, b, result, {}};
  if (dtype == DType::f32 && !e.options().reduced_precision)
    f.precision = ", precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]";
  return f;
}

// "b01f_01io->b01f" as "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]".
std::string layout_text(std::string_view layout) {
  std::string text = "[";
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] == '_') {
      text += "]x[";
    } else if (layout[i] == '-') {
      text += "]->[";
      ++i;
    } else {
      if (text.back() != '[') text += ", ";
      text += layout[i];
    }
  }
  return text + "]";
}

}  // namespace

Value dot_general(Emitter& e, const ir::Node& node, const Value& a, const Value& b) {
  const auto& attrs = node.as<ir::DotAttrs>();
  const DType dtype = node.types[0].dtype;
  const Factors f = factors(e, a, b, dtype);
  const std::string numbers = fmt::format(
      "#stablehlo.dot<lhs_batching_dimensions = [{}], rhs_batching_dimensions = [{}], "
      "lhs_contracting_dimensions = [{}], rhs_contracting_dimensions = [{}]>",
      list_text(attrs.a_batch), list_text(attrs.b_batch), list_text(attrs.a_contract),
      list_text(attrs.b_contract));
  const Value product = e.op("dot_general", {f.a, f.b}, with_dtype(node.types[0], f.result),
                             "dot_dimension_numbers = " + numbers + f.precision);
  return e.cast(product, dtype);
}

Value convolution(Emitter& e, const ir::Node& node, const Value& x, const Value& kernel) {
  const auto& a = node.as<ir::ConvolutionAttrs>();
  const DType dtype = node.types[0].dtype;
  const Factors f = factors(e, x, kernel, dtype);
  const std::size_t spatial = x.type.shape.size() - 2;
  const auto full = [&](const Ints& list, std::int64_t otherwise) {
    return list.empty() ? Ints(spatial, otherwise) : list;
  };
  const Ints low = full(a.pad_low, 0), high = full(a.pad_high, 0);
  Ints padding;
  for (std::size_t i = 0; i < spatial; ++i) {
    padding.push_back(low[i]);
    padding.push_back(high[i]);
  }
  // XLA's GPU compiler knows the gradient of a strided convolution by its reversed kernel, not by a reversed
  // window.
  Value window = f.b;
  Ints reversed;
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(a.layout);
  for (std::size_t i = 0; i < a.reverse.size(); ++i) {
    const std::int64_t axis = axes.kernel_spatial[i];
    if (a.reverse[i] != 0 && window.type.shape[static_cast<std::size_t>(axis)].value() > 1)
      reversed.push_back(axis);
  }
  if (!reversed.empty())
    window = e.op("reverse", {window}, window.type, "dimensions = " + array_text(reversed));
  const std::string attrs = fmt::format(
      "window_strides = {}, padding = {}, lhs_dilation = {}, rhs_dilation = {}, "
      "dimension_numbers = #stablehlo.conv<{}>, feature_group_count = {} : i64, batch_group_count = {} : i64",
      array_text(full(a.strides, 1)), table_text(padding, 2), array_text(full(a.operand_dilation, 1)),
      array_text(full(a.kernel_dilation, 1)), layout_text(a.layout), a.feature_groups, a.batch_groups);
  const Value result =
      e.op("convolution", {f.a, window}, with_dtype(node.types[0], f.result), attrs + f.precision);
  return e.cast(result, dtype);
}

Value cholesky(Emitter& e, const ir::Node& node, const Value& x) {
  if (x.type.shape.count() == 0) return x;
  const bool lower = node.as<ir::CholeskyAttrs>().lower;
  const Value a = e.cast(x, wide(x.type.dtype));
  const Value factor = e.op("cholesky", {a}, a.type, fmt::format("lower = {}", lower));
  const std::int64_t rank = x.type.shape.rank();
  const Type index = with_dtype(a.type, DType::i32);
  const Value row = e.iota(index, rank - 2), column = e.iota(index, rank - 1);
  const Value outside = e.compare(lower ? "LT" : "GT", row, column);
  const Value diagonal = e.compare("EQ", row, column);
  const Value zero = e.splat(a.type, std::int64_t{0});
  const Value triangle = e.select(outside, zero, factor);
  // A matrix that is not positive definite has a pivot that is not above zero.
  const Value positive = e.compare("GT", triangle, zero);
  const Value bad = e.binary("and", diagonal, e.unary("not", positive));
  Ints batch;
  for (std::int64_t i = 0; i < rank - 2; ++i) batch.push_back(i);
  const Value any =
      e.broadcast(reduce(e, bad, ir::Combine::bitwise_or, {rank - 2, rank - 1}), a.type.shape, batch);
  const Value nan = e.splat(a.type, number_text(a.type.dtype, std::numeric_limits<double>::quiet_NaN()));
  const Value result = e.select(any, nan, triangle);
  return e.cast(result, x.type.dtype);
}

Value triangular_solve(Emitter& e, const ir::Node& node, const Value& a, const Value& b) {
  if (b.type.shape.count() == 0) return b;
  const auto& attrs = node.as<ir::TriangularSolveAttrs>();
  const DType computed = wide(b.type.dtype);
  const Value solution = e.op(
      "triangular_solve", {e.cast(a, computed), e.cast(b, computed)}, with_dtype(b.type, computed),
      fmt::format("left_side = {}, lower = {}, unit_diagonal = {}, transpose_a = #stablehlo<transpose {}>",
                  attrs.left_side, attrs.lower, attrs.unit_diagonal,
                  attrs.transpose_a ? "TRANSPOSE" : "NO_TRANSPOSE"));
  return e.cast(solution, b.type.dtype);
}

}  // namespace systole::codegen::hlo
