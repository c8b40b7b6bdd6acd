// Pooling over the spatial axes of channels-last images; any number of spatial axes.

#include <fmt/format.h>
#include <utility>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

// The attributes over the spatial axes as a window over all axes, batch and channel with size 1.
ir::WindowAttrs pooling_window(const Operands& check, Value x, const ir::AttrMap& attrs, Combine kind) {
  const std::size_t spatial = ir::get_ints(attrs, "window").size();
  if (spatial == 0 || spatial + 2 != x.shape().size())
    check.refuse(ErrorKind::kShape, fmt::format("a window of {} sizes", spatial),
                 "one size per spatial axis of [batch, spatial…, channels]");
  const auto padded = [&](std::string_view key, std::int64_t missing, std::int64_t outer) {
    Ints inner = filled(ir::get_ints(attrs, key), spatial, missing);
    if (inner.size() != spatial)
      check.refuse(ErrorKind::kInvalidArgument, fmt::format("{} has {} entries", key, inner.size()),
                   std::to_string(spatial));
    inner.insert(inner.begin(), outer);
    inner.push_back(outer);
    return inner;
  };
  ir::WindowAttrs window;
  window.kind = kind;
  window.window = padded("window", 1, 1);
  window.strides = padded("strides", 1, 1);
  window.pad_low = padded("pad_low", 0, 0);
  window.pad_high = padded("pad_high", 0, 0);
  return window;
}

Values build_max_pool(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 1);
  check.check_dtype(0, kNumbers);
  return {reduce_window(operands[0], pooling_window(check, operands[0], attrs, Combine::max))};
}

Values build_avg_pool(Graph& body, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 1);
  check.check_dtype(0, kFloats);
  const ir::WindowAttrs window = pooling_window(check, operands[0], attrs, Combine::sum);
  const Value x = widen(operands[0]);
  const Value total = reduce_window(x, window);
  Value count;
  if (ir::get_bool(attrs, "count_padding")) {
    Dim elements = 1;
    for (const std::int64_t size : window.window) elements = elements * Dim(size);
    count = dimension(body, elements, x.dtype());
  } else {
    // How many elements of the image each window meets: the same for every image and channel.
    Shape shape = x.shape();
    shape[0] = shape[shape.size() - 1] = 1;
    count = reduce_window(full(body, {x.dtype(), std::move(shape)}, 1), window);
  }
  return {convert(div(total, count), operands[0].dtype())};
}

ir::AttrMap pooling_defaults() {
  return {{"window", Ints{}}, {"strides", Ints{}}, {"pad_low", Ints{}}, {"pad_high", Ints{}}};
}

ir::AttrMap pooling_attrs(Ints window, Ints strides, Ints pad_low, Ints pad_high) {
  const std::size_t spatial = window.size();
  return {{"window", std::move(window)},
          {"strides", filled(std::move(strides), spatial, 1)},
          {"pad_low", filled(std::move(pad_low), spatial, 0)},
          {"pad_high", filled(std::move(pad_high), spatial, 0)}};
}

}  // namespace

ir::CompositeDef max_pool_def() {
  return {.name = "max_pool",
          .semantics =
              "largest of each `window` over the spatial axes of [batch, spatial…, channels]; padding never "
              "wins, NaN does; strides left out are 1, padding 0",
          .tolerance = 0,
          .dtypes = kNumbers,
          .defaults = pooling_defaults(),
          .build = build_max_pool};
}

ir::CompositeDef avg_pool_def() {
  ir::AttrMap defaults = pooling_defaults();
  defaults["count_padding"] = true;
  return {.name = "avg_pool",
          .semantics =
              "mean of each `window` over the spatial axes of [batch, spatial…, channels]; padding is 0, and "
              "counts as elements only with `count_padding`; strides left out are 1, padding 0",
          .tolerance = 4,
          .defaults = std::move(defaults),
          .build = build_avg_pool};
}

Value max_pool(Value x, Ints window, Ints strides, Ints pad_low, Ints pad_high) {
  return composite(
      "max_pool", {x},
      pooling_attrs(std::move(window), std::move(strides), std::move(pad_low), std::move(pad_high)))[0];
}

Value avg_pool(Value x, Ints window, Ints strides, Ints pad_low, Ints pad_high, bool count_padding) {
  ir::AttrMap attrs =
      pooling_attrs(std::move(window), std::move(strides), std::move(pad_low), std::move(pad_high));
  attrs["count_padding"] = count_padding;
  return composite("avg_pool", {x}, std::move(attrs))[0];
}

}  // namespace systole::ops
