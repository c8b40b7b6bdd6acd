// Convolution and pooling of channels-last images: options checked and spelled out for ops::convolution and
// the pooling composites.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ops/common.h"
#include "systole/base/error.h"
#include "systole/ops.h"
#include "systole/tensor/neural.h"
#include "tensor/record.h"

namespace systole {

namespace {

using ir::Value;

// One entry per spatial axis, none below `least`.
Ints spread_over(const PerAxis& given, std::size_t spatial, std::int64_t least, std::string_view where,
                 std::string_view what) {
  Ints values = given.values();
  if (values.size() == 1) values = Ints(spatial, values[0]);
  if (values.size() != spatial)
    throw Error(ErrorKind::kInvalidArgument, std::string(where),
                fmt::format("{} numbers given as {}", values.size(), what), fmt::format("1 or {}", spatial));
  for (const std::int64_t value : values)
    if (value < least)
      throw Error(ErrorKind::kInvalidArgument, std::string(where), std::string(what),
                  fmt::format("{} or more", least), std::to_string(value));
  return values;
}

void check_rank(const Tensor& x, std::size_t spatial, std::string_view where, std::string_view what) {
  if (recording::checked(x, where).type.shape.size() == spatial + 2) return;
  const bool image = what == "x";
  throw Error(ErrorKind::kShape, std::string(where), fmt::format("the rank of {}", what),
              spatial == 1
                  ? (image ? "[batch, width, channels]" : "[channels, channels, width]")
                  : (image ? "[batch, height, width, channels]" : "[channels, channels, height, width]"),
              x.type().to_string());
}

// The zeros before and after each spatial axis of x, for windows of `window` elements `dilation` apart.
struct Pads {
  Ints low, high;
};
Pads pads_of(const Padding& padding, const Shape& x, const Ints& window, const Ints& stride,
             const Ints& dilation, std::string_view where) {
  const std::size_t spatial = window.size();
  if (!padding.is_same())
    return {spread_over(padding.low(), spatial, 0, where, "padding"),
            spread_over(padding.high(), spatial, 0, where, "padding")};
  Pads pads;
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t covered = (window[i] - 1) * dilation[i] + 1;
    std::int64_t total = covered - 1;
    if (stride[i] != 1) {
      if (!x[i + 1].is_static())
        throw Error(ErrorKind::kShape, std::string(where), "padding \"same\" with a stride needs known sizes",
                    "a number", x[i + 1].to_string());
      const std::int64_t size = x[i + 1].value(), count = (size + stride[i] - 1) / stride[i];
      total = std::max<std::int64_t>((count - 1) * stride[i] + covered - size, 0);
    }
    pads.low.push_back(total / 2);
    pads.high.push_back(total - total / 2);
  }
  return pads;
}

Ints spatial_sizes(const Shape& shape, std::size_t first, std::size_t spatial) {
  Ints sizes;
  for (std::size_t i = 0; i < spatial; ++i) sizes.push_back(shape[first + i].value());
  return sizes;
}

std::vector<Tensor> in_common_dtype(std::string_view where, const Tensor& x, const Tensor& weight,
                                    const Tensor& bias) {
  std::vector<Tensor> operands{x, weight};
  if (bias.defined()) operands.push_back(bias);
  const DType dtype = recording::common_dtype(operands, where);
  for (Tensor& operand : operands) operand = recording::as_dtype(operand, dtype);
  return operands;
}

void check_channels(std::string_view where, const Tensor& x, const Tensor& weight, std::int64_t wanted,
                    std::int64_t groups) {
  const Dim channels = x.shape()[x.shape().size() - 1];
  if (groups < 1)
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "groups", "1 or more",
                std::to_string(groups));
  if (channels != Dim(wanted))
    throw Error(
        ErrorKind::kShape, std::string(where), "the channels of x do not fit the weight",
        fmt::format("{} channels for weight {} with {} groups", wanted, weight.type().to_string(), groups),
        x.type().to_string());
}

void check_bias(std::string_view where, const Tensor& bias, std::int64_t channels) {
  if (bias.defined() && bias.shape() != Shape{channels})
    throw Error(ErrorKind::kShape, std::string(where), "the bias", fmt::format("[{}]", channels),
                bias.type().to_string());
}

Tensor convolution(std::string_view where, std::size_t spatial, const Tensor& x, const Tensor& weight,
                   const Tensor& bias, const ConvOptions& options) {
  check_rank(x, spatial, where, "x");
  check_rank(weight, spatial, where, "the weight");
  check_channels(where, x, weight, weight.size(1) * options.groups, options.groups);
  check_bias(where, bias, weight.size(0));
  if (weight.size(0) % options.groups != 0)
    throw Error(ErrorKind::kShape, std::string(where), "the output channels do not divide into the groups",
                fmt::format("a multiple of {}", options.groups), std::to_string(weight.size(0)));
  ir::ConvolutionAttrs attrs;
  attrs.layout = spatial == 1 ? "b0f_oi0->b0f" : "b01f_oi01->b01f";
  attrs.strides = spread_over(options.stride, spatial, 1, where, "stride");
  attrs.kernel_dilation = spread_over(options.dilation, spatial, 1, where, "dilation");
  attrs.feature_groups = options.groups;
  Pads pads = pads_of(options.padding, x.shape(), spatial_sizes(weight.shape(), 2, spatial), attrs.strides,
                      attrs.kernel_dilation, where);
  attrs.pad_low = std::move(pads.low);
  attrs.pad_high = std::move(pads.high);
  return recording::record_built(in_common_dtype(where, x, weight, bias),
                                 [&](ir::Graph&, const ir::Values& v) {
                                   const Value y = ops::convolution(v[0], v[1], attrs);
                                   return ir::Values{v.size() > 2 ? ops::add(y, v[2]) : y};
                                 })[0];
}

// x is the result of a convolution with this weight and these options; what would its input's size be?
Tensor transposed(std::string_view where, std::size_t spatial, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const ConvTransposeOptions& options) {
  check_rank(x, spatial, where, "x");
  check_rank(weight, spatial, where, "the weight");
  check_channels(where, x, weight, weight.size(0), options.groups);
  const std::int64_t channels = weight.size(1) * options.groups;
  check_bias(where, bias, channels);
  ir::ConvolutionAttrs attrs;
  attrs.layout = spatial == 1 ? "b0f_oi0->b0f" : "b01f_oi01->b01f";
  attrs.strides = spread_over(options.stride, spatial, 1, where, "stride");
  attrs.kernel_dilation = spread_over(options.dilation, spatial, 1, where, "dilation");
  attrs.pad_low = attrs.pad_high = spread_over(options.padding, spatial, 0, where, "padding");
  attrs.feature_groups = options.groups;
  const Ints extra = spread_over(options.output_padding, spatial, 0, where, "output_padding");
  Shape input{x.shape()[0]};
  for (std::size_t i = 0; i < spatial; ++i) {
    if (extra[i] >= std::max(attrs.strides[i], attrs.kernel_dilation[i]))
      throw Error(ErrorKind::kInvalidArgument, std::string(where), "output_padding",
                  "less than the stride or the dilation", std::to_string(extra[i]));
    const std::int64_t window = attrs.kernel_dilation[i] * (weight.size(static_cast<int>(i) + 2) - 1) + 1;
    const Dim covered = (x.shape()[i + 1] - Dim(1)) * Dim(attrs.strides[i]);
    input.push_back(covered + Dim(window + extra[i] - 2 * attrs.pad_low[i]));
  }
  input.push_back(channels);
  return recording::record_built(in_common_dtype(where, x, weight, bias),
                                 [&](ir::Graph&, const ir::Values& v) {
                                   const Value y = ops::conv_input_grad(v[0], v[1], input, attrs);
                                   return ir::Values{v.size() > 2 ? ops::add(y, v[2]) : y};
                                 })[0];
}

struct Windows {
  Ints window, stride;
  Pads pads;
};
Windows windows(std::string_view where, std::size_t spatial, const Tensor& x, const PerAxis& window,
                const PoolOptions& options) {
  check_rank(x, spatial, where, "x");
  Windows w;
  w.window = spread_over(window, spatial, 1, where, "window");
  w.stride = options.stride.empty() ? w.window : spread_over(options.stride, spatial, 1, where, "stride");
  w.pads = pads_of(options.padding, x.shape(), w.window, w.stride, Ints(spatial, 1), where);
  return w;
}

Tensor max_pool(std::string_view where, std::size_t spatial, const Tensor& x, const PerAxis& window,
                const PoolOptions& options) {
  const Windows w = windows(where, spatial, x, window, options);
  return recording::built({x}, [&](const ir::Values& v) {
    return ops::max_pool(v[0], w.window, w.stride, w.pads.low, w.pads.high);
  });
}

Tensor avg_pool(std::string_view where, std::size_t spatial, const Tensor& x, const PerAxis& window,
                const PoolOptions& options) {
  const Windows w = windows(where, spatial, x, window, options);
  return recording::built({recording::as_float(x)}, [&](const ir::Values& v) {
    return ops::avg_pool(v[0], w.window, w.stride, w.pads.low, w.pads.high, options.count_padding);
  });
}

// Share i of an axis of `size` elements in `count` shares: from ⌊i·size/count⌋ to ⌈(i+1)·size/count⌉.
struct Share {
  std::int64_t begin, end;
};
Share share_of(std::int64_t i, std::int64_t size, std::int64_t count) {
  return {i * size / count, ((i + 1) * size + count - 1) / count};
}

// Row i is the mean over share i.
Literal share_matrix(std::int64_t size, std::int64_t count) {
  std::vector<double> rows(static_cast<std::size_t>(size * count));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [begin, end] = share_of(i, size, count);
    for (std::int64_t j = begin; j < end; ++j)
      rows[static_cast<std::size_t>(i * size + j)] = 1.0 / static_cast<double>(end - begin);
  }
  return Literal::of<double>({count, size}, rows);
}

Tensor adaptive_avg_pool(std::string_view where, std::size_t spatial, const Tensor& x, const PerAxis& size) {
  check_rank(x, spatial, where, "x");
  const Ints counts = spread_over(size, spatial, 1, where, "size");
  return recording::built({recording::as_float(x)}, [&](const ir::Values& v) {
    Value y = v[0];
    for (std::size_t i = 0; i < spatial; ++i) {
      const auto axis = static_cast<std::int64_t>(i) + 1;
      const Value shares =
          ops::convert(ops::constant(y.graph(), share_matrix(x.size(axis), counts[i])), y.dtype());
      const Value means = ops::dot_general(y, shares, {axis}, {1});  // the axis went last
      Ints order;
      for (std::int64_t j = 0; j < y.rank(); ++j)
        order.push_back(j < axis ? j : j == axis ? y.rank() - 1 : j - 1);
      y = ops::transpose(means, order);
    }
    return y;
  });
}

Tensor adaptive_max_pool(std::string_view where, std::size_t spatial, const Tensor& x, const PerAxis& size) {
  check_rank(x, spatial, where, "x");
  const Ints counts = spread_over(size, spatial, 1, where, "size");
  return recording::built({x}, [&](const ir::Values& v) {
    Value y = v[0];
    for (std::size_t a = 0; a < spatial; ++a) {
      const auto axis = static_cast<std::int64_t>(a) + 1;
      const std::int64_t whole = x.size(axis);
      ir::Values shares;
      for (std::int64_t i = 0; i < counts[a]; ++i) {
        const Share share = share_of(i, whole, counts[a]);
        const Value part = ops::slice_axis(y, axis, share.begin, share.end);
        shares.push_back(ops::reduce(part, ir::Combine::max, {axis}, true));
      }
      y = shares.size() == 1 ? shares[0] : ops::concat(shares, axis);
    }
    return y;
  });
}

Ints spatial_axes(std::string_view where, const Tensor& x) {
  if (recording::checked(x, where).type.shape.rank() < 3)
    throw Error(ErrorKind::kShape, std::string(where), "no spatial axis", "[batch, spatial…, channels]",
                x.type().to_string());
  Ints axes;
  for (std::int64_t i = 1; i + 1 < x.rank(); ++i) axes.push_back(i);
  return axes;
}

}  // namespace

Padding::Padding(std::string_view name) {
  if (name == "same")
    same_ = true;
  else if (name != "valid")
    throw Error(ErrorKind::kInvalidArgument, "padding", "an unknown word", "\"same\", \"valid\" or numbers",
                std::string(name));
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return convolution("conv1d", 1, x, weight, bias, options);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  return convolution("conv2d", 2, x, weight, bias, options);
}

Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, ConvOptions options) {
  check_rank(x, 2, "depthwise_conv2d", "x");
  options.groups = x.size(-1);
  return convolution("depthwise_conv2d", 2, x, weight, bias, options);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return transposed("conv_transpose1d", 1, x, weight, bias, options);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return transposed("conv_transpose2d", 2, x, weight, bias, options);
}

Tensor max_pool1d(const Tensor& x, PerAxis window, const PoolOptions& options) {
  return max_pool("max_pool1d", 1, x, window, options);
}
Tensor max_pool2d(const Tensor& x, PerAxis window, const PoolOptions& options) {
  return max_pool("max_pool2d", 2, x, window, options);
}
Tensor avg_pool1d(const Tensor& x, PerAxis window, const PoolOptions& options) {
  return avg_pool("avg_pool1d", 1, x, window, options);
}
Tensor avg_pool2d(const Tensor& x, PerAxis window, const PoolOptions& options) {
  return avg_pool("avg_pool2d", 2, x, window, options);
}
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size) {
  return adaptive_avg_pool("adaptive_avg_pool1d", 1, x, size);
}
Tensor adaptive_avg_pool2d(const Tensor& x, PerAxis size) {
  return adaptive_avg_pool("adaptive_avg_pool2d", 2, x, size);
}

Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t size) {
  return adaptive_max_pool("adaptive_max_pool1d", 1, x, size);
}
Tensor adaptive_max_pool2d(const Tensor& x, PerAxis size) {
  return adaptive_max_pool("adaptive_max_pool2d", 2, x, size);
}

Tensor global_avg_pool(const Tensor& x) {
  const Ints axes = spatial_axes("global_avg_pool", x);
  return recording::built({recording::as_float(x)},
                          [&](const ir::Values& v) { return ops::mean(v[0], axes); });
}
Tensor global_max_pool(const Tensor& x) {
  const Ints axes = spatial_axes("global_max_pool", x);
  return recording::built({x},
                          [&](const ir::Values& v) { return ops::reduce(v[0], ir::Combine::max, axes); });
}

}  // namespace systole
