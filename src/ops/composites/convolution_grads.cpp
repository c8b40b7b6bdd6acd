// The gradients of a convolution, each of them one convolution. With y[p] = Σk x[p·stride + k·dilation -
// low]·w[k]:
//
// by x: the strided result grows holes, the kernel is flipped, and the pads complete each window; the
// operand's
//       dilation becomes the stride. Input and output features of the kernel trade places.
// by w: x is the operand with batch and features traded, grad is the kernel; stride and kernel dilation trade
// places.
//       Feature groups become batch groups, which is what pairs each group of x with its own group of
//       outputs. Of a transposed convolution, whose x has holes and whose kernel is flipped, x and grad trade
//       places, which turns the result round: then nothing has holes and nothing is flipped, and it is what
//       the gradient of a convolution is, as libraries know it.
//
// High padding follows from the wanted size, so a stride that leaves a remainder needs nothing special.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

using ir::ConvolutionAttrs;

// ConvolutionAttrs as a composite's attributes. The dtype of the forward result is grad's own and not
// repeated; a shape of numbers is kept as Ints, as the parser reads it.
ir::AttrMap to_map(ConvolutionAttrs a, const Shape& shape) {
  return {{"layout", std::move(a.layout)},
          {"strides", std::move(a.strides)},
          {"pad_low", std::move(a.pad_low)},
          {"pad_high", std::move(a.pad_high)},
          {"operand_dilation", std::move(a.operand_dilation)},
          {"kernel_dilation", std::move(a.kernel_dilation)},
          {"reverse", std::move(a.reverse)},
          {"feature_groups", a.feature_groups},
          {"batch_groups", a.batch_groups},
          {"shape", shape.is_static() ? ir::AttrValue(shape.dims()) : ir::AttrValue(shape)}};
}

// The convolution whose gradient is wanted, with every list filled in and checked against the operands.
struct Forward {
  ConvolutionAttrs attrs;
  ir::ConvolutionAxes axes;
  Shape input, kernel, grad;
  std::size_t spatial;

  Dim input_size(std::size_t i) const { return input[static_cast<std::size_t>(axes.operand_spatial[i])]; }
  Dim kernel_size(std::size_t i) const { return kernel[static_cast<std::size_t>(axes.kernel_spatial[i])]; }
  Dim grad_size(std::size_t i) const { return grad[static_cast<std::size_t>(axes.result_spatial[i])]; }
};

Dim spread_size(Dim size, std::int64_t dilation) { return (size - Dim(1)) * Dim(dilation) + Dim(1); }

Forward check_forward(const Operands& check, const ir::AttrMap& map, Shape input, Shape kernel, Value grad) {
  Forward f;
  f.attrs.layout = ir::get_string(map, "layout");
  f.axes = ir::parse_convolution_layout(f.attrs.layout);
  f.spatial = f.axes.operand_spatial.size();
  const auto list = [&](std::string_view key, std::int64_t missing) {
    return filled(ir::get_ints(map, key), f.spatial, missing);
  };
  f.attrs.strides = list("strides", 1);
  f.attrs.pad_low = list("pad_low", 0);
  f.attrs.pad_high = list("pad_high", 0);
  f.attrs.operand_dilation = list("operand_dilation", 1);
  f.attrs.kernel_dilation = list("kernel_dilation", 1);
  f.attrs.reverse = list("reverse", 0);
  f.attrs.feature_groups = ir::get_int(map, "feature_groups");
  f.attrs.batch_groups = ir::get_int(map, "batch_groups");
  f.attrs.dtype = grad.dtype();
  if (f.attrs.batch_groups != 1)
    check.refuse(ErrorKind::kUnsupported, fmt::format("batch_groups={}", f.attrs.batch_groups),
                 "batch_groups=1");
  f.input = std::move(input);
  f.kernel = std::move(kernel);
  f.grad = grad.shape();
  // What the forward convolution accepts is accepted here; it also says what shape its gradient must have.
  const Type operands[] = {{grad.dtype(), f.input}, {grad.dtype(), f.kernel}};
  const Type result = ir::infer_types(ir::Op::convolution, operands, f.attrs, {}, {})[0];
  if (!(result.shape == f.grad))
    check.refuse(ErrorKind::kShape,
                 fmt::format("grad is not of the shape that {} and kernel {} give", f.input.to_string(),
                             f.kernel.to_string()),
                 result.shape.to_string());
  return f;
}

// A gradient over no elements is 0, and so is one that nothing was computed from.
bool nothing_flows(const Forward& f) {
  const auto empty = [](const Shape& shape) {
    for (const Dim& d : shape)
      if (d == Dim(0)) return true;
    return false;
  };
  return empty(f.input) || empty(f.kernel) || empty(f.grad);
}

// The three parts "operand_kernel->result" of a layout.
struct LayoutParts {
  std::string operand, kernel, result;
};

LayoutParts layout_parts(const std::string& layout) {
  const std::size_t kernel = layout.find('_'), result = layout.find("->");
  return {layout.substr(0, kernel), layout.substr(kernel + 1, result - kernel - 1),
          layout.substr(result + 2)};
}

// `axes` with the letters of `from` replaced by those of `to`.
std::string renamed(std::string axes, std::string_view from, std::string_view to) {
  for (char& c : axes)
    if (const std::size_t i = from.find(c); i != std::string_view::npos) c = to[i];
  return axes;
}

// The kernel [o, i/g, …] as [i, o/g, …] in place: the group part moves from the output axis to the input
// axis.
Value regrouped(Value kernel, const ir::ConvolutionAxes& axes, std::int64_t groups) {
  if (groups == 1) return kernel;
  const auto output = static_cast<std::size_t>(axes.kernel_output),
             input = static_cast<std::size_t>(axes.kernel_input);
  Shape split, merged;
  Ints order;
  for (std::size_t i = 0, at = 0; i < kernel.shape().size(); ++i) {
    const Dim size = kernel.shape()[i];
    if (i == output) {
      split.push_back(groups);
      split.push_back(floor_div(size, groups));
      order.push_back(static_cast<std::int64_t>(at + 1));
      merged.push_back(floor_div(size, groups));
      at += 2;
    } else {
      split.push_back(size);
      if (i == input) order.push_back(-1);  // the group part goes here, once its place is known
      order.push_back(static_cast<std::int64_t>(at));
      merged.push_back(i == input ? size * Dim(groups) : size);
      at += 1;
    }
  }
  for (std::int64_t& axis : order)
    if (axis == -1) axis = axes.kernel_output;  // axes before the output axis are not split
  return reshape(transpose(reshape(kernel, std::move(split)), std::move(order)), std::move(merged));
}

// The dtype of the product: two different 8-bit floats, or one with a wider float, have no common one of
// their own.
DType product_dtype(Value a, Value b) {
  if (a.dtype() == DType::f64 || b.dtype() == DType::f64) return DType::f64;
  return promote(a.dtype(), b.dtype()).value_or(DType::f32);
}

Values build_input_grad(Graph& body, const Values& operands, const ir::AttrMap& map) {
  const Operands check(operands, 2);
  for (const std::size_t i : {0, 1}) check.check_dtype(i, kFloats);
  const Value grad = operands[0], kernel = operands[1];
  const Forward f = check_forward(check, map, ir::get_shape(map, "shape"), kernel.shape(), grad);
  if (nothing_flows(f)) return {full(body, {kernel.dtype(), f.input}, 0)};

  const LayoutParts parts = layout_parts(f.attrs.layout);
  ConvolutionAttrs back;
  back.layout = fmt::format("{}_{}->{}", parts.result, renamed(parts.kernel, "io", "oi"), parts.operand);
  back.strides = f.attrs.operand_dilation;
  back.operand_dilation = f.attrs.strides;
  back.kernel_dilation = f.attrs.kernel_dilation;
  back.feature_groups = f.attrs.feature_groups;
  for (std::size_t i = 0; i < f.spatial; ++i) {
    const Dim window = spread_size(f.kernel_size(i), f.attrs.kernel_dilation[i]);
    const Dim low = window - Dim(1) - Dim(f.attrs.pad_low[i]);
    const Dim positions = spread_size(f.input_size(i), f.attrs.operand_dilation[i]);
    const Dim high = positions + window - Dim(1) - spread_size(f.grad_size(i), f.attrs.strides[i]) - low;
    if (!high.is_static()) check.refuse(ErrorKind::kShape, "the spatial sizes must be known", "numbers");
    back.pad_low.push_back(low.value());
    back.pad_high.push_back(high.value());
    back.reverse.push_back(f.attrs.reverse[i] == 0 ? 1 : 0);
  }
  const DType computed = product_dtype(grad, kernel);
  back.dtype = computed;
  const Value turned = regrouped(convert(kernel, computed), f.axes, f.attrs.feature_groups);
  const Value result = body.add(ir::Op::convolution, {convert(grad, computed), turned}, std::move(back));
  return {convert(result, kernel.dtype())};
}

bool is_all(const Ints& list, std::int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](std::int64_t x) { return x == value; });
}

// x is the kernel and grad the operand. With E the dilation of x and D that of the kernel, dw[k] is the sum
// of x[o]·grad[i] where E·o = D·k + i - low, so i = E·o + D·(K-1-k) - (D·(K-1) - low).
Value exchanged_weight_grad(Graph& body, const Operands& check, const Forward& f, Value grad, Value x) {
  const LayoutParts parts = layout_parts(f.attrs.layout);
  const std::int64_t groups = f.attrs.feature_groups;
  ConvolutionAttrs back;
  back.layout = fmt::format("{}_{}->{}", renamed(parts.result, "bf", "fb"),
                            renamed(parts.operand, "bf", "io"), renamed(parts.kernel, "io", "fb"));
  back.strides = f.attrs.kernel_dilation;
  back.kernel_dilation = f.attrs.operand_dilation;
  back.batch_groups = groups;
  back.dtype = grad.dtype();
  Ints flipped;
  for (std::size_t i = 0; i < f.spatial; ++i) {
    const Dim reach = spread_size(f.kernel_size(i), f.attrs.kernel_dilation[i]) - Dim(1);
    const Dim low = reach - Dim(f.attrs.pad_low[i]);
    const Dim high = reach + spread_size(f.input_size(i), f.attrs.operand_dilation[i]) - f.grad_size(i) - low;
    if (!low.is_static() || !high.is_static())
      check.refuse(ErrorKind::kShape, "the spatial sizes must be known", "numbers");
    back.pad_low.push_back(low.value());
    back.pad_high.push_back(high.value());
    if (f.attrs.reverse[i] == 0) flipped.push_back(f.axes.kernel_spatial[i]);
  }
  Value dw = body.add(ir::Op::convolution, {grad, x}, std::move(back));
  // It has the groups on the other axis: [o/g, i] is wanted as [o, i/g].
  ir::ConvolutionAxes axes = f.axes;
  std::swap(axes.kernel_input, axes.kernel_output);
  dw = regrouped(dw, axes, groups);
  return flipped.empty() ? dw : reverse(dw, std::move(flipped));
}

Values build_weight_grad(Graph& body, const Values& operands, const ir::AttrMap& map) {
  const Operands check(operands, 2);
  for (const std::size_t i : {0, 1}) check.check_dtype(i, kFloats);
  const Value grad = operands[0], x = operands[1];
  const Forward f = check_forward(check, map, x.shape(), ir::get_shape(map, "shape"), grad);
  if (nothing_flows(f)) return {full(body, {x.dtype(), f.kernel}, 0)};
  const DType computed = product_dtype(grad, x);
  const bool is_transposed = !is_all(f.attrs.operand_dilation, 1) || is_all(f.attrs.reverse, 1);
  if (is_transposed && is_all(f.attrs.strides, 1))
    return {convert(exchanged_weight_grad(body, check, f, convert(grad, computed), convert(x, computed)),
                    x.dtype())};

  const LayoutParts parts = layout_parts(f.attrs.layout);
  ConvolutionAttrs back;
  back.layout = fmt::format("{}_{}->{}", renamed(parts.operand, "bf", "fb"),
                            renamed(parts.result, "bf", "io"), renamed(parts.kernel, "io", "bf"));
  back.strides = f.attrs.kernel_dilation;
  back.operand_dilation = f.attrs.operand_dilation;
  back.kernel_dilation = f.attrs.strides;
  back.batch_groups = f.attrs.feature_groups;
  back.pad_low = f.attrs.pad_low;
  back.reverse = Ints(f.spatial, 0);
  Ints flipped;
  for (std::size_t i = 0; i < f.spatial; ++i) {
    const Dim reach = spread_size(f.kernel_size(i), f.attrs.kernel_dilation[i]) - Dim(1) +
                      spread_size(f.grad_size(i), f.attrs.strides[i]);
    const Dim high =
        reach - spread_size(f.input_size(i), f.attrs.operand_dilation[i]) - Dim(f.attrs.pad_low[i]);
    if (!high.is_static()) check.refuse(ErrorKind::kShape, "the spatial sizes must be known", "numbers");
    back.pad_high.push_back(high.value());
    if (f.attrs.reverse[i] != 0) flipped.push_back(f.axes.kernel_spatial[i]);
  }
  back.dtype = computed;
  const Value product =
      body.add(ir::Op::convolution, {convert(x, computed), convert(grad, computed)}, std::move(back));
  return {convert(flipped.empty() ? product : reverse(product, std::move(flipped)), x.dtype())};
}

}  // namespace

ir::CompositeDef conv_input_grad_def() {
  return {
      .name = "conv_input_grad",
      .semantics =
          "conv_input_grad(grad, kernel): the gradient of convolution with these attributes by its operand "
          "of `shape`; batch_groups 1 only",
      .tolerance = 4,
      .defaults = to_map({}, {}),
      .build = build_input_grad};
}

ir::CompositeDef conv_weight_grad_def() {
  return {.name = "conv_weight_grad",
          .semantics =
              "conv_weight_grad(grad, x): the gradient of convolution with these attributes by its kernel of "
              "`shape`; batch_groups 1 only",
          .tolerance = 4,
          .defaults = to_map({}, {}),
          .build = build_weight_grad};
}

Value conv_input_grad(Value grad, Value kernel, const Shape& input, ir::ConvolutionAttrs attrs) {
  return composite("conv_input_grad", {grad, kernel}, to_map(std::move(attrs), input))[0];
}

Value conv_weight_grad(Value grad, Value x, const Shape& kernel, ir::ConvolutionAttrs attrs) {
  return composite("conv_weight_grad", {grad, x}, to_map(std::move(attrs), kernel))[0];
}

}  // namespace systole::ops
