// Result types of reductions and contractions.

#include <fmt/format.h>
#include <algorithm>

#include "ir/infer.h"

namespace systole::ir {

namespace {

void check_number_kind(const Call& c, Combine kind) {
  if (kind == Combine::bitwise_and || kind == Combine::bitwise_or)
    c.fail_attr("kind", "sum, prod, max or min");
  c.check_kind(kind);
}

}  // namespace

Types infer_reduce(const Call& c) {
  const auto& a = c.as<ReduceAttrs>();
  c.check_kind(a.kind);
  c.check_axes(a.axes, c.in[0].shape.rank(), "axes");
  Shape shape;
  for (std::size_t i = 0; i < c.in[0].shape.size(); ++i)
    if (std::find(a.axes.begin(), a.axes.end(), static_cast<std::int64_t>(i)) == a.axes.end())
      shape.push_back(c.in[0].shape[i]);
  return {{c.in[0].dtype, shape}};
}

Types infer_arg_reduce(const Call& c) {
  const auto& a = c.as<ArgReduceAttrs>();
  c.check_dtype(0, info(c.op).dtypes);
  if (a.kind != Combine::max && a.kind != Combine::min) c.fail_attr("kind", "max or min");
  if (a.dtype != DType::i32 && a.dtype != DType::i64)
    c.fail(ErrorKind::kDType, "dtype of the index", "i32 or i64", std::string(name(a.dtype)));
  c.check_axis(a.axis, c.in[0].shape.rank(), "axis");
  Shape shape;
  for (std::size_t i = 0; i < c.in[0].shape.size(); ++i)
    if (static_cast<std::int64_t>(i) != a.axis)
      shape.push_back(c.in[0].shape[i]);
    else if (c.in[0].shape[i] == Dim(0))
      c.fail_shape("an empty axis has no largest or smallest element", "a size of 1 or more",
                   c.in[0].to_string());
  return {{a.dtype, shape}};
}

namespace {

std::int64_t entry(const Ints& list, std::size_t i, std::int64_t otherwise) {
  return list.empty() ? otherwise : list[i];
}

void check_optional_length(const Call& c, const Ints& list, std::size_t wanted, const char* what) {
  if (!list.empty()) c.check_length(list.size(), wanted, what);
}

}  // namespace

Types infer_reduce_window(const Call& c) {
  const auto& a = c.as<WindowAttrs>();
  const Shape& x = c.in[0].shape;
  check_number_kind(c, a.kind);
  c.check_length(a.window.size(), x.size(), "window");
  check_optional_length(c, a.strides, x.size(), "strides");
  check_optional_length(c, a.pad_low, x.size(), "pad_low");
  check_optional_length(c, a.pad_high, x.size(), "pad_high");
  check_optional_length(c, a.base_dilation, x.size(), "base_dilation");
  check_optional_length(c, a.window_dilation, x.size(), "window_dilation");
  Shape shape;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (a.window[i] < 1)
      c.fail_attr(fmt::format("window of axis {}", i), "1 or more", std::to_string(a.window[i]));
    shape.push_back(window_positions(c, x[i], a.window[i], entry(a.strides, i, 1), entry(a.pad_low, i, 0),
                                     entry(a.pad_high, i, 0), entry(a.base_dilation, i, 1),
                                     entry(a.window_dilation, i, 1)));
  }
  return {{c.in[0].dtype, shape}};
}

Types infer_cumulative(const Call& c) {
  const auto& a = c.as<CumulativeAttrs>();
  check_number_kind(c, a.kind);
  c.check_axis(a.axis, c.in[0].shape.rank(), "axis");
  return {c.in[0]};
}

Types infer_sort(const Call& c) {
  c.check_axis(c.as<SortAttrs>().axis, c.in[0].shape.rank(), "axis");
  for (const Type& t : c.in)
    if (!(t.shape == c.in[0].shape))
      c.fail_shape("operands differ in shape", c.in[0].to_string(), t.to_string());
  return {c.in.begin(), c.in.end()};
}

Types infer_top_k(const Call& c) {
  const std::int64_t k = c.as<TopKAttrs>().k;
  c.check_dtype(0, info(c.op).dtypes);
  Shape shape = c.in[0].shape;
  if (shape.empty()) c.fail_shape("operand", "at least one axis");
  const Dim last = shape[shape.size() - 1];
  if (k < 0 || (last.is_static() && k > last.value()))
    c.fail_attr("k", "0 to " + last.to_string(), std::to_string(k));
  shape[shape.size() - 1] = k;
  return {{c.in[0].dtype, shape}, {DType::i32, shape}};
}

namespace {

// What a contraction may return: the operands' own dtype, a wider float, or i32 / i64 / u32 / u64 for narrow
// integers.
DType contraction_dtype(const Call& c, std::optional<DType> wanted) {
  c.check_dtype(0, kNumbers);
  c.check_dtype(1, kNumbers);
  const DType a = c.in[0].dtype, b = c.in[1].dtype;
  const bool mixed_int8 = (a == DType::u8 || a == DType::i8) && (b == DType::u8 || b == DType::i8);
  const bool mixed_f8 = is_float(a) && is_float(b) && size_of(a) == 1 && size_of(b) == 1;
  if (a != b && !mixed_int8 && !mixed_f8)
    c.fail(ErrorKind::kDType, "the operands differ in dtype", c.in[0].to_string(), c.in[1].to_string());
  const DType result = wanted.value_or(a);
  const bool same = a == b && result == a;
  const bool wider_float = is_float(a) && is_float(result) && size_of(result) > size_of(a);
  const bool wider_int =
      is_integer(a) && is_integer(result) && size_of(result) > size_of(a) && size_of(result) >= 4;
  if (!same && !wider_float && !wider_int)
    c.fail(ErrorKind::kDType, "dtype of the result", "the operands' own or a wider one of its kind",
           std::string(name(result)));
  return result;
}

}  // namespace

Types infer_dot_general(const Call& c) {
  const auto& a = c.as<DotAttrs>();
  const DType dtype = contraction_dtype(c, a.dtype);
  const Shape &x = c.in[0].shape, &y = c.in[1].shape;
  c.check_length(a.b_batch.size(), a.a_batch.size(), "b_batch");
  c.check_length(a.b_contract.size(), a.a_contract.size(), "b_contract");
  const auto joined = [](Ints first, const Ints& second) {
    for (std::int64_t i : second) first.push_back(i);
    return first;
  };
  const Ints x_axes = joined(a.a_batch, a.a_contract), y_axes = joined(a.b_batch, a.b_contract);
  c.check_axes(x_axes, x.rank(), "a_batch with a_contract");
  c.check_axes(y_axes, y.rank(), "b_batch with b_contract");
  for (std::size_t i = 0; i < x_axes.size(); ++i)
    if (!(x[static_cast<std::size_t>(x_axes[i])] == y[static_cast<std::size_t>(y_axes[i])]))
      c.fail_shape(
          fmt::format("axis {} of the first operand and axis {} of the second differ", x_axes[i], y_axes[i]),
          "equal sizes");
  Shape shape;
  for (std::int64_t i : a.a_batch) shape.push_back(x[static_cast<std::size_t>(i)]);
  const auto add_free = [&](const Shape& s, const Ints& used) {
    for (std::size_t i = 0; i < s.size(); ++i)
      if (std::find(used.begin(), used.end(), static_cast<std::int64_t>(i)) == used.end())
        shape.push_back(s[i]);
  };
  add_free(x, x_axes);
  add_free(y, y_axes);
  return {{dtype, shape}};
}

namespace {

// a / b for a dimension that must split evenly.
Dim split(const Call& c, Dim a, std::int64_t b, const char* what) {
  if (a.offset() % b != 0 || a.scale() % b != 0)
    c.fail_shape(fmt::format("{} does not split into {} groups", what, b), fmt::format("a multiple of {}", b),
                 a.to_string());
  return floor_div(a, b);
}

}  // namespace

Types infer_convolution(const Call& c) {
  const auto& a = c.as<ConvolutionAttrs>();
  const DType dtype = contraction_dtype(c, a.dtype);
  const ConvolutionAxes axes = parse_convolution_layout(a.layout);
  const std::size_t spatial = axes.operand_spatial.size();
  const Shape &x = c.in[0].shape, &k = c.in[1].shape;
  for (const Type& t : c.in)
    if (t.shape.size() != spatial + 2)
      c.fail_shape(fmt::format("layout \"{}\" wants {} axes", a.layout, spatial + 2), {}, t.to_string());
  check_optional_length(c, a.strides, spatial, "strides");
  check_optional_length(c, a.pad_low, spatial, "pad_low");
  check_optional_length(c, a.pad_high, spatial, "pad_high");
  check_optional_length(c, a.operand_dilation, spatial, "operand_dilation");
  check_optional_length(c, a.kernel_dilation, spatial, "kernel_dilation");
  check_optional_length(c, a.reverse, spatial, "reverse");
  for (std::int64_t flag : a.reverse)
    if (flag != 0 && flag != 1) c.fail_attr("reverse", "entries 0 or 1", std::to_string(flag));
  if (a.feature_groups < 1 || a.batch_groups < 1 || (a.feature_groups > 1 && a.batch_groups > 1))
    c.fail_attr("groups", "1 or more, and not both above 1",
                fmt::format("feature_groups {} batch_groups {}", a.feature_groups, a.batch_groups));
  const auto at = [](const Shape& s, std::int64_t i) { return s[static_cast<std::size_t>(i)]; };
  const Dim inputs = split(c, at(x, axes.operand_feature), a.feature_groups, "the operand's feature axis");
  if (!(inputs == at(k, axes.kernel_input)))
    c.fail_shape("the kernel's input features", inputs.to_string(), at(k, axes.kernel_input).to_string());
  const Dim outputs = at(k, axes.kernel_output);
  split(c, outputs, a.feature_groups, "the kernel's output axis");
  split(c, outputs, a.batch_groups, "the kernel's output axis");
  Shape shape = x;
  shape[static_cast<std::size_t>(axes.result_batch)] =
      split(c, at(x, axes.operand_batch), a.batch_groups, "the batch axis");
  shape[static_cast<std::size_t>(axes.result_feature)] = outputs;
  for (std::size_t i = 0; i < spatial; ++i) {
    const Dim window = at(k, axes.kernel_spatial[i]);
    if (!window.is_static())
      c.fail_shape("the kernel's spatial sizes must be numbers", {}, window.to_string());
    shape[static_cast<std::size_t>(axes.result_spatial[i])] = window_positions(
        c, at(x, axes.operand_spatial[i]), window.value(), entry(a.strides, i, 1), entry(a.pad_low, i, 0),
        entry(a.pad_high, i, 0), entry(a.operand_dilation, i, 1), entry(a.kernel_dilation, i, 1));
  }
  return {{dtype, shape}};
}

namespace {

void check_square(const Call& c) {
  const Shape& a = c.in[0].shape;
  c.check_dtype(0, info(c.op).dtypes);
  if (a.rank() < 2 || !(a[a.size() - 1] == a[a.size() - 2]))
    c.fail_shape("the last two axes must form a square", "[…, n, n]", c.in[0].to_string());
}

}  // namespace

Types infer_cholesky(const Call& c) {
  check_square(c);
  return {c.in[0]};
}

Types infer_triangular_solve(const Call& c) {
  check_square(c);
  const Shape &a = c.in[0].shape, &b = c.in[1].shape;
  bool fits = c.in[0].dtype == c.in[1].dtype && a.size() == b.size();
  for (std::size_t i = 0; fits && i + 2 < a.size(); ++i) fits = a[i] == b[i];
  const std::size_t row = c.as<TriangularSolveAttrs>().left_side ? 2 : 1;
  if (fits) fits = b[b.size() - row] == a[a.size() - 1];
  if (!fits)
    c.fail_shape("a and b do not fit",
                 row == 2 ? "a […, n, n] and b […, n, m]" : "a […, n, n] and b […, m, n]");
  return {c.in[1]};
}

}  // namespace systole::ir
