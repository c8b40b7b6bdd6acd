#include "backend/patterns/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "systole/ir/rewriter.h"
#include "systole/ops.h"

namespace systole::patterns {

namespace {

using ir::Op;
using Kind = Convolution::Kind;

// An attribute's list, which may be left out.
Convolution::Pair pair(const Ints& list, std::int64_t missing) {
  return list.empty() ? Convolution::Pair{missing, missing} : Convolution::Pair{list[0], list[1]};
}

Convolution::Pair sizes(const Shape& shape, const Ints& axes) {
  return {shape[static_cast<std::size_t>(axes[0])].value(), shape[static_cast<std::size_t>(axes[1])].value()};
}
std::int64_t size(const Shape& shape, std::int64_t axis) {
  return shape[static_cast<std::size_t>(axis)].value();
}

bool all(const Convolution::Pair& pair, std::int64_t value) { return pair[0] == value && pair[1] == value; }

// The axes of the three arrays in the wanted order.
struct Orders {
  Ints operand, kernel, result;
  bool are_there() const {
    return std::is_sorted(operand.begin(), operand.end()) && std::is_sorted(kernel.begin(), kernel.end()) &&
           std::is_sorted(result.begin(), result.end());
  }
};
Orders wanted_orders(const ir::ConvolutionAxes& axes, Kind kind) {
  const auto order = [](std::int64_t first, const Ints& spatial, std::int64_t last) {
    return Ints{first, spatial[0], spatial[1], last};
  };
  const bool swapped = kind == Kind::weight_grad;
  return {swapped ? order(axes.operand_feature, axes.operand_spatial, axes.operand_batch)
                  : order(axes.operand_batch, axes.operand_spatial, axes.operand_feature),
          kind == Kind::forward ? order(axes.kernel_output, axes.kernel_spatial, axes.kernel_input)
                                : order(axes.kernel_input, axes.kernel_spatial, axes.kernel_output),
          swapped ? order(axes.result_feature, axes.result_spatial, axes.result_batch)
                  : order(axes.result_batch, axes.result_spatial, axes.result_feature)};
}

std::string wanted_layout(Kind kind) {
  switch (kind) {
    case Kind::forward: return "b01f_o01i->b01f";
    case Kind::input_grad: return "b01f_i01o->b01f";
    case Kind::weight_grad: return "f01b_i01o->f01b";
  }
  return {};
}

// What lies as it lies when only images are put in order.
void leave_kernels(Orders& orders, Kind kind) {
  Ints& kernel = kind == Kind::weight_grad ? orders.result : orders.kernel;
  std::sort(kernel.begin(), kernel.end());
}

// The layout with these parts of another: "operand_kernel->result".
std::string with_kernel_of(const std::string& layout, const std::string& other, Kind kind) {
  const auto cut = [](const std::string& text) {
    const std::size_t bar = text.find('_'), arrow = text.find("->");
    return std::array<std::string, 3>{text.substr(0, bar), text.substr(bar + 1, arrow - bar - 1),
                                      text.substr(arrow + 2)};
  };
  std::array<std::string, 3> parts = cut(layout);
  const std::size_t kernel = kind == Kind::weight_grad ? 2 : 1;
  parts[kernel] = cut(other)[kernel];
  return parts[0] + "_" + parts[1] + "->" + parts[2];
}

bool is_in_order(const Ints& order) { return std::is_sorted(order.begin(), order.end()); }

Ints inverse(const Ints& permutation) {
  Ints out(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i)
    out[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  return out;
}

// The padding after an image with which the forward convolution has the sizes it has: that before it where
// this fits.
std::optional<std::int64_t> padding_after(std::int64_t image, std::int64_t window, std::int64_t result,
                                          std::int64_t stride, std::int64_t dilation, std::int64_t before) {
  const std::int64_t reach = (window - 1) * dilation + 1,
                     exact = (result - 1) * stride + reach - image - before;
  if (before >= exact && before < exact + stride) return before;
  const std::int64_t least = std::max<std::int64_t>(exact, 0);
  if (least >= exact + stride) return std::nullopt;
  return least;
}

// The convolution under rewriting; its new operands have the old ones' types.
std::optional<Convolution> rewritten(const ir::Rewrite& r) {
  ir::Graph alone;
  ir::Values inputs;
  for (const ir::Value& operand : r.operands)
    inputs.push_back(alone.input(fmt::format("i{}", inputs.size()), operand.type()));
  const ir::Value copy = alone.add(Op::convolution, inputs, r.node.attrs);
  Convolution read;
  if (!read_convolution(alone, alone.node(copy.id().node), read).empty()) return std::nullopt;
  return read;
}

// More zeros at the end of the last axis.
ir::Value widened(const ir::Value& x, std::int64_t more) {
  Ints none(static_cast<std::size_t>(x.rank()), 0), high = none;
  high.back() = more;
  return ops::pad(x, ops::scalar_like(x, 0), none, high);
}

}  // namespace

std::string Convolution::text() const {
  const char* const kinds[] = {"forward", "input_grad", "weight_grad"};
  return fmt::format(
      "{} n{} c{} k{} g{} image{}x{} window{}x{} result{}x{} stride{}x{} dilation{}x{} pad{}x{},{}x{} {}->{}",
      kinds[static_cast<int>(kind)], batch, channels, filters, groups, image[0], image[1], window[0],
      window[1], result[0], result[1], strides[0], strides[1], dilations[0], dilations[1], before[0],
      before[1], after[0], after[1], systole::name(operands), systole::name(output));
}

std::string read_convolution(const ir::Graph& graph, const ir::Node& node, Convolution& out) {
  const auto& attrs = node.as<ir::ConvolutionAttrs>();
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(attrs.layout);
  if (axes.operand_spatial.size() != 2) return "an image of two dimensions is wanted";
  const Type &x = graph.type(node.operands[0]), &w = graph.type(node.operands[1]), &y = node.types[0];
  const Convolution::Pair strides = pair(attrs.strides, 1), low = pair(attrs.pad_low, 0),
                          high = pair(attrs.pad_high, 0), stretched = pair(attrs.operand_dilation, 1),
                          dilations = pair(attrs.kernel_dilation, 1), reverse = pair(attrs.reverse, 0);
  const Convolution::Pair operand = sizes(x.shape, axes.operand_spatial),
                          kernel = sizes(w.shape, axes.kernel_spatial),
                          result = sizes(y.shape, axes.result_spatial);
  out.operands = x.dtype;
  out.output = y.dtype;
  const bool are_bytes =
      is_integer(x.dtype) && is_integer(w.dtype) && size_of(x.dtype) == 1 && size_of(w.dtype) == 1;
  if (w.dtype != x.dtype && !are_bytes) return "operands of two dtypes";
  out.groups = attrs.feature_groups;
  const bool reversed = (reverse[0] == 1 || kernel[0] == 1) && (reverse[1] == 1 || kernel[1] == 1);
  const bool plain =
      (reverse[0] == 0 || kernel[0] == 1) && (reverse[1] == 0 || kernel[1] == 1) && all(stretched, 1);
  // Of small images the sizes do not say what it is: what sums over the first axis of both, as of two
  // batches, is the gradient of a kernel. A forward one would need both turned round.
  const auto fits_gradient = [&](std::size_t i) {
    return low[i] >= 0 && padding_after(operand[i], result[i], kernel[i], dilations[i], strides[i], low[i]);
  };
  const bool sums_batches =
      axes.operand_feature == 0 && axes.kernel_input == 0 && fits_gradient(0) && fits_gradient(1);
  const bool is_small = !sums_batches && (kernel[0] < result[0] || kernel[1] < result[1]);
  if (attrs.batch_groups != 1 && (attrs.feature_groups != 1 || !plain)) return "groups of batches";
  if (plain && attrs.batch_groups == 1 && (is_small || attrs.feature_groups != 1 || !all(strides, 1))) {
    out.kind = Kind::forward;
    out.batch = size(x.shape, axes.operand_batch);
    out.channels = size(x.shape, axes.operand_feature);
    out.filters = size(w.shape, axes.kernel_output);
    out.image = operand;
    out.window = kernel;
    out.result = result;
    out.strides = strides;
    out.dilations = dilations;
    out.before = low;
    out.after = high;
  } else if (plain) {  // a window as large as the image: x and the gradient of y make that of w
    out.kind = Kind::weight_grad;
    out.groups = attrs.batch_groups;
    out.batch = size(x.shape, axes.operand_feature);
    out.channels = size(x.shape, axes.operand_batch);
    out.filters = size(w.shape, axes.kernel_output);
    out.image = operand;
    out.window = result;
    out.result = kernel;
    out.strides = dilations;
    out.dilations = strides;
    out.before = low;
  } else if (reversed && all(strides, 1)) {
    out.kind = Kind::input_grad;
    out.batch = size(x.shape, axes.operand_batch);
    out.channels = size(w.shape, axes.kernel_output);
    out.filters = size(w.shape, axes.kernel_input) * attrs.feature_groups;
    out.image = result;
    out.window = kernel;
    out.result = operand;
    out.strides = stretched;
    out.dilations = dilations;
    for (std::size_t i = 0; i < 2; ++i) out.before[i] = dilations[i] * (kernel[i] - 1) - low[i];
  } else {
    return "neither a convolution nor the gradient of one";
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (out.kind != Kind::forward) {
      const std::optional<std::int64_t> after = padding_after(
          out.image[i], out.window[i], out.result[i], out.strides[i], out.dilations[i], out.before[i]);
      if (!after) return "it reads beyond its padding";
      out.after[i] = *after;
    }
    if (out.before[i] < 0 || out.after[i] < 0) return "an image that is cut";
  }
  for (const std::int64_t n : {out.batch, out.channels, out.filters, out.image[0], out.image[1],
                               out.window[0], out.window[1], out.result[0], out.result[1]})
    if (n == 0) return "there is nothing to sum";
  return {};
}

bool is_channels_last(const ir::Node& node, const Convolution& convolution, ChannelsLast which) {
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(node.as<ir::ConvolutionAttrs>().layout);
  Orders orders = wanted_orders(axes, convolution.kind);
  if (which == ChannelsLast::images) leave_kernels(orders, convolution.kind);
  return orders.are_there();
}

ir::Graph with_channels_last(const ir::Graph& graph, ChannelsLast which) {
  return ir::rewrite(graph, [&](const ir::Rewrite& r) -> std::optional<ir::Values> {
    if (r.node.op != Op::convolution) return std::nullopt;
    auto attrs = r.node.as<ir::ConvolutionAttrs>();
    const ir::ConvolutionAxes axes = ir::parse_convolution_layout(attrs.layout);
    if (axes.operand_spatial.size() != 2) return std::nullopt;
    const std::optional<Convolution> read = rewritten(r);
    if (!read) return std::nullopt;
    Orders orders = wanted_orders(axes, read->kind);
    if (which == ChannelsLast::images) leave_kernels(orders, read->kind);
    if (orders.are_there()) return std::nullopt;
    const auto turned = [](const ir::Value& x, const Ints& order) {
      return is_in_order(order) ? x : ops::transpose(x, order);
    };
    const std::string layout = wanted_layout(read->kind);
    attrs.layout = which == ChannelsLast::images ? with_kernel_of(layout, attrs.layout, read->kind) : layout;
    const ir::Value made =
        r.graph.add(Op::convolution,
                    {turned(r.operands[0], orders.operand), turned(r.operands[1], orders.kernel)}, attrs);
    return ir::Values{turned(made, inverse(orders.result))};
  });
}

ir::Graph with_images(const ir::Graph& graph) {
  return ir::rewrite(graph, [&](const ir::Rewrite& r) -> std::optional<ir::Values> {
    if (r.node.op != Op::convolution) return std::nullopt;
    auto attrs = r.node.as<ir::ConvolutionAttrs>();
    const ir::ConvolutionAxes axes = ir::parse_convolution_layout(attrs.layout);
    if (axes.operand_spatial.size() != 1) return std::nullopt;
    const auto with_row = [](const ir::Value& x, std::int64_t axis) {
      Ints sizes = x.shape().dims();
      sizes.insert(sizes.begin() + axis, 1);
      return ops::reshape(x, Shape(sizes));
    };
    std::string layout;
    for (const char c : attrs.layout) layout += c == '0' ? std::string("01") : std::string(1, c);
    attrs.layout = layout;
    const auto prepend = [](Ints& list, std::int64_t value) {
      if (!list.empty()) list.insert(list.begin(), value);
    };
    for (Ints* const list : {&attrs.strides, &attrs.operand_dilation, &attrs.kernel_dilation})
      prepend(*list, 1);
    for (Ints* const list : {&attrs.pad_low, &attrs.pad_high, &attrs.reverse}) prepend(*list, 0);
    const ir::Value made = r.graph.add(
        Op::convolution,
        {with_row(r.operands[0], axes.operand_spatial[0]), with_row(r.operands[1], axes.kernel_spatial[0])},
        attrs);
    return ir::Values{ops::reshape(made, r.node.types[0].shape)};
  });
}

ir::Graph with_gradients_in_order(const ir::Graph& graph) {
  const auto uses = [](const ir::Graph& in, std::int32_t index) {
    std::ptrdiff_t count = 0;
    for (const ir::Node& node : in.nodes())
      count += std::count_if(node.operands.begin(), node.operands.end(),
                             [&](const ir::ValueId v) { return v.node == index; });
    for (const ir::Output& output : in.outputs()) count += output.value.node == index ? 1 : 0;
    return count;
  };
  return ir::rewrite(graph, [&](const ir::Rewrite& r) -> std::optional<ir::Values> {
    if (r.node.op != Op::transpose) return std::nullopt;
    const std::int32_t from = r.node.operands[0].node;
    const ir::Node& node = r.old_graph.node(from);
    Convolution read;
    if (node.op != Op::convolution || uses(r.old_graph, from) != 1 ||
        !read_convolution(r.old_graph, node, read).empty() || read.kind != Kind::weight_grad)
      return std::nullopt;
    auto attrs = node.as<ir::ConvolutionAttrs>();
    const std::size_t arrow = attrs.layout.find("->") + 2;
    const std::string result = attrs.layout.substr(arrow);
    const Ints& permutation = r.node.as<ir::TransposeAttrs>().permutation;
    for (std::size_t i = 0; i < result.size(); ++i)
      attrs.layout[arrow + i] = result[static_cast<std::size_t>(permutation[i])];
    ir::Values operands;
    for (const ir::ValueId v : r.graph.node(r.operands[0].id().node).operands)
      operands.push_back(r.graph.value(v));
    return ir::Values{r.graph.add(Op::convolution, operands, attrs)};
  });
}

std::array<std::int64_t, 4> kernel_strides(const ir::Graph& graph, const ir::Node& node,
                                           const Convolution& convolution) {
  const ir::ConvolutionAxes axes = ir::parse_convolution_layout(node.as<ir::ConvolutionAttrs>().layout);
  const bool is_result = convolution.kind == Kind::weight_grad;
  const Shape& shape = is_result ? node.types[0].shape : graph.type(node.operands[1]).shape;
  const Ints strides = row_major_strides(shape.dims());
  const auto at = [&](std::int64_t axis) { return strides[static_cast<std::size_t>(axis)]; };
  const Ints& window = is_result ? axes.result_spatial : axes.kernel_spatial;
  // The gradient by a kernel has x's channels as its batch and the filters as its features; that by an image
  // goes from filters to channels.
  const std::int64_t filters = is_result                           ? axes.result_feature
                               : convolution.kind == Kind::forward ? axes.kernel_output
                                                                   : axes.kernel_input,
                     channels = is_result                           ? axes.result_batch
                                : convolution.kind == Kind::forward ? axes.kernel_input
                                                                    : axes.kernel_output;
  return {at(filters), at(channels), at(window[0]), at(window[1])};
}

ir::Graph with_more_channels(const ir::Graph& graph, const Channels& channels) {
  return ir::rewrite(graph, [&](const ir::Rewrite& r) -> std::optional<ir::Values> {
    if (r.node.op != Op::convolution) return std::nullopt;
    const auto& attrs = r.node.as<ir::ConvolutionAttrs>();
    const std::optional<Convolution> read = rewritten(r);
    if (!read || read->kind == Kind::input_grad || read->groups != 1) return std::nullopt;
    if (!is_channels_last(r.node, *read)) return std::nullopt;
    const std::int64_t more = channels(*read) - read->channels;
    if (more <= 0) return std::nullopt;
    const ir::Value image = widened(r.operands[0], more);
    if (read->kind == Kind::forward)
      return ir::Values{r.graph.add(Op::convolution, {image, widened(r.operands[1], more)}, attrs)};
    const ir::Value all = r.graph.add(Op::convolution, {image, r.operands[1]}, attrs);
    return ir::Values{ops::slice_axis(all, -1, 0, read->channels)};
  });
}

}  // namespace systole::patterns
