// Layer and batch normalisation with their gradients. Statistics are taken in f32 for the small floats; scale
// and bias may have x's dtype or that one. A row's variance takes a second pass over the row; a batch is far
// larger than any cache, so its mean and variance come from one pass over distances from a value of the
// batch.

#include <fmt/format.h>

#include <optional>

#include "ops/composites/common.h"
#include "ops/composites/definitions.h"

namespace systole::ops {

namespace {

// Means over `axes`, reduced and repeated again.
class Averages {
 public:
  Averages(Value x, Ints axes)
      : shape_(x.shape()),
        axes_(std::move(axes)),
        count_(element_count(x.graph(), shape_, axes_, x.dtype())) {}
  Value reduced(Value x) const { return div(sum(x, axes_), count_); }
  Value spread(Value reduced) const { return ops::spread(reduced, shape_, axes_); }
  Value operator()(Value x) const { return spread(reduced(x)); }
  Value share(Value reduced) const { return spread(div(reduced, count_)); }  // of what a mean is given

 private:
  Shape shape_;
  Ints axes_;
  Value count_;
};

Value inverse_deviation(Value variance, double eps) { return rsqrt(plus(variance, eps)); }

// The gradient through y = (x - mean) / deviation, where mean and deviation depend on x:
// (g - mean(g) - normal · mean(g · normal)) / deviation.
Value normalisation_grad(Value grad, Value normal, Value inverse, const Averages& average) {
  const Value through_deviation = mul(normal, average(mul(grad, normal)));
  return mul(inverse, sub(sub(grad, average(grad)), through_deviation));
}

// The last `axes` axes of x, and their shape.
struct LayerAxes {
  Ints axes, leading;
  Shape shape;
};

LayerAxes layer_axes(const Operands& check, Value x, std::int64_t count) {
  if (count < 1 || count > x.rank())
    check.refuse(ErrorKind::kInvalidArgument,
                 fmt::format("axes={} is not a number of axes to normalise", count),
                 fmt::format("1 to {}", x.rank()));
  LayerAxes layer;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    if (i < x.rank() - count) {
      layer.leading.push_back(i);
    } else {
      layer.axes.push_back(i);
      layer.shape.push_back(x.shape()[static_cast<std::size_t>(i)]);
    }
  }
  return layer;
}

Values build_layer_norm(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 3);
  check.check_dtype(0, kFloats);
  const Value x = widen(operands[0]);
  const LayerAxes layer = layer_axes(check, operands[0], ir::get_int(attrs, "axes"));
  for (const std::size_t parameter : {1, 2}) check.check_companion(parameter, layer.shape);
  const auto parameter = [&](std::size_t i) {
    return spread(convert(operands[i], x.dtype()), x.shape(), layer.leading);
  };
  const Value scale = parameter(1), bias = parameter(2);
  const Averages average(x, layer.axes);
  const Value centered = sub(x, average(x));
  const Value variance = average.reduced(square(centered));
  const Value normal =
      mul(centered, average.spread(inverse_deviation(variance, ir::get_double(attrs, "eps"))));
  return {convert(add(mul(normal, scale), bias), operands[0].dtype())};
}

Values build_layer_norm_grad(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 3);
  check.check_dtype(0, kFloats);
  check.check_companion(1, operands[0].shape());
  const Value grad = widen(operands[0]), x = widen(operands[1]);
  const LayerAxes layer = layer_axes(check, x, ir::get_int(attrs, "axes"));
  check.check_companion(2, layer.shape);
  const DType parameter_dtype = operands[2].dtype();
  const Averages average(x, layer.axes);
  const Value centered = sub(x, average(x));
  const Value variance = average.reduced(square(centered));
  const Value inverse = average.spread(inverse_deviation(variance, ir::get_double(attrs, "eps")));
  const Value normal = mul(centered, inverse);
  const Value scale = spread(convert(operands[2], x.dtype()), x.shape(), layer.leading);
  return {convert(normalisation_grad(mul(grad, scale), normal, inverse, average), operands[1].dtype()),
          convert(sum(mul(grad, normal), layer.leading), parameter_dtype),
          convert(sum(grad, layer.leading), parameter_dtype)};
}

// Every axis but the feature axis, and the shape of a parameter.
struct BatchAxes {
  Ints axes;
  Shape shape;
};

BatchAxes batch_axes(Value x, const ir::AttrMap& attrs) {
  const std::int64_t axis = normalize_axis(ir::get_int(attrs, "axis"), x.rank(), {});
  return {other_axes({axis}, x.rank()), {x.shape()[static_cast<std::size_t>(axis)]}};
}

// The first value of each feature; nothing when there may be none.
std::optional<Value> first_of(Value x, const BatchAxes& batch) {
  Shape limits = x.shape();
  for (const std::int64_t axis : batch.axes) {
    Dim& d = limits[static_cast<std::size_t>(axis)];
    if (!d.is_static() || d.value() == 0) return std::nullopt;
    d = 1;
  }
  return reshape(slice(x, Ints(limits.size(), 0), limits), batch.shape);
}

struct Statistics {
  Value mean, variance;
};
Statistics statistics(Value x, const BatchAxes& batch) {
  const Averages average(x, batch.axes);
  const std::optional<Value> first = first_of(x, batch);
  if (!first) {
    const Value mean = average.reduced(x);
    return {mean, average.reduced(square(sub(x, average.spread(mean))))};
  }
  const Value distance = sub(x, average.spread(*first));
  const Value offset = average.reduced(distance);
  const Value variance = sub(average.reduced(square(distance)), square(offset));
  return {add(*first, offset), max(variance, full(x.graph(), variance.type(), 0))};
}

Values build_batch_norm_train(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 3);
  check.check_dtype(0, kFloats);
  const BatchAxes batch = batch_axes(operands[0], attrs);
  for (const std::size_t parameter : {1, 2}) check.check_companion(parameter, batch.shape);
  const Value x = widen(operands[0]);
  const Averages average(x, batch.axes);
  const auto [mean, variance] = statistics(x, batch);
  const Value inverse = inverse_deviation(variance, ir::get_double(attrs, "eps"));
  const Value scale = average.spread(mul(inverse, convert(operands[1], x.dtype())));
  const Value bias = average.spread(convert(operands[2], x.dtype()));
  const Value y = add(mul(sub(x, average.spread(mean)), scale), bias);
  const DType parameter_dtype = operands[1].dtype();
  return {convert(y, operands[0].dtype()), convert(mean, parameter_dtype),
          convert(variance, parameter_dtype)};
}

Values build_batch_norm_inference(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 5);
  check.check_dtype(0, kFloats);
  const BatchAxes batch = batch_axes(operands[0], attrs);
  for (const std::size_t parameter : {1, 2, 3, 4}) check.check_companion(parameter, batch.shape);
  const Value x = widen(operands[0]);
  const auto parameter = [&](std::size_t i) { return convert(operands[i], x.dtype()); };
  const auto over = [&](Value v) { return spread(v, x.shape(), batch.axes); };
  const Value inverse = inverse_deviation(parameter(4), ir::get_double(attrs, "eps"));
  const Value scale = over(mul(inverse, parameter(1))), bias = over(parameter(2));
  const Value centered = sub(x, over(parameter(3)));
  const Value y = add(mul(centered, scale), bias);
  return {convert(y, operands[0].dtype())};
}

Values build_batch_norm_grad(Graph&, const Values& operands, const ir::AttrMap& attrs) {
  const Operands check(operands, 5);
  check.check_dtype(0, kFloats);
  check.check_companion(1, operands[0].shape());
  const BatchAxes batch = batch_axes(operands[1], attrs);
  for (const std::size_t parameter : {2, 3, 4}) check.check_companion(parameter, batch.shape);
  const Value grad = widen(operands[0]), x = widen(operands[1]);
  const auto parameter = [&](std::size_t i) { return convert(operands[i], x.dtype()); };
  const Averages average(x, batch.axes);
  const Value inverse = inverse_deviation(parameter(4), ir::get_double(attrs, "eps"));
  const Value normal = mul(sub(x, average.spread(parameter(3))), average.spread(inverse));
  // As normalisation_grad, with the scale taken out of the means: they are the parameters' gradients.
  const Value dscale = sum(mul(grad, normal), batch.axes), dbias = sum(grad, batch.axes);
  const Value rest = sub(sub(grad, average.share(dbias)), mul(normal, average.share(dscale)));
  const Value dx = mul(average.spread(mul(inverse, parameter(2))), rest);
  const DType parameter_dtype = operands[2].dtype();
  return {convert(dx, operands[1].dtype()), convert(dscale, parameter_dtype),
          convert(dbias, parameter_dtype)};
}

ir::AttrMap layer_defaults() { return {{"eps", 1e-5}, {"axes", std::int64_t{1}}}; }
ir::AttrMap batch_defaults() { return {{"eps", 1e-5}, {"axis", std::int64_t{-1}}}; }

ir::AttrMap batch_attrs(std::string_view composite, Value x, double eps, std::int64_t axis) {
  graph_of(composite, {x});
  return {{"eps", eps}, {"axis", normalize_axis(axis, x.rank(), composite)}};
}

ir::MaybeValues layer_norm_backward(const Values& operands, const Values&, const ir::MaybeValues& cotangents,
                                    const ir::AttrMap& attrs) {
  const Values grads = composite("layer_norm_grad", {*cotangents[0], operands[0], operands[1]}, attrs);
  return {grads[0], grads[1], convert(grads[2], operands[2].dtype())};
}

ir::MaybeValues batch_norm_train_backward(const Values& operands, const Values& results,
                                          const ir::MaybeValues& cotangents, const ir::AttrMap& attrs) {
  const BatchAxes batch = batch_axes(operands[0], attrs);
  const Value x = widen(operands[0]);
  const Averages average(x, batch.axes);
  // Statistics that were rounded to a narrow dtype are computed again.
  const bool wide = results[1].dtype() == x.dtype();
  const auto [mean, variance] = wide ? Statistics{results[1], results[2]} : statistics(x, batch);
  const Value centered = sub(x, average.spread(mean));
  Value dx = full(x.graph(), x.type(), 0);
  ir::MaybeValues out(3);
  if (cotangents[0]) {
    const Values grads =
        composite("batch_norm_grad", {*cotangents[0], operands[0], operands[1], mean, variance}, attrs);
    dx = widen(grads[0]);
    out[1] = grads[1];
    out[2] = convert(grads[2], operands[2].dtype());
  }
  if (cotangents[1]) dx = add(dx, average.share(widen(*cotangents[1])));
  if (cotangents[2]) dx = add(dx, mul(times(centered, 2), average.share(widen(*cotangents[2]))));
  out[0] = convert(dx, operands[0].dtype());
  return out;
}

}  // namespace

ir::CompositeDef layer_norm_def() {
  return {.name = "layer_norm",
          .semantics =
              "layer_norm(x, scale, bias): (x - mean) / sqrt(variance + eps) · scale + bias over the last "
              "`axes` axes; the variance is the biased one",
          .tolerance = 8,
          .defaults = layer_defaults(),
          .build = build_layer_norm,
          .backward = layer_norm_backward};
}

ir::CompositeDef layer_norm_grad_def() {
  return {.name = "layer_norm_grad",
          .semantics = "layer_norm_grad(grad, x, scale): the gradients of layer_norm by x, scale and bias",
          .tolerance = 16,
          .defaults = layer_defaults(),
          .build = build_layer_norm_grad};
}

ir::CompositeDef batch_norm_train_def() {
  return {.name = "batch_norm_train",
          .semantics =
              "batch_norm_train(x, scale, bias): x normalised over every axis but `axis`, then that mean and "
              "biased variance",
          .tolerance = 8,
          .defaults = batch_defaults(),
          .build = build_batch_norm_train,
          .backward = batch_norm_train_backward};
}

ir::CompositeDef batch_norm_inference_def() {
  return {.name = "batch_norm_inference",
          .semantics =
              "batch_norm_inference(x, scale, bias, mean, variance): (x - mean) / sqrt(variance + eps) · "
              "scale + bias along `axis`",
          .tolerance = 8,
          .defaults = batch_defaults(),
          .build = build_batch_norm_inference};
}

ir::CompositeDef batch_norm_grad_def() {
  return {.name = "batch_norm_grad",
          .semantics =
              "batch_norm_grad(grad, x, scale, mean, variance): the gradients of batch_norm_train's first "
              "result by x, scale and bias, given the statistics it returned",
          .tolerance = 16,
          .defaults = batch_defaults(),
          .build = build_batch_norm_grad};
}

Value layer_norm(Value x, Value scale, Value bias, double eps, std::int64_t axes) {
  return composite("layer_norm", {x, scale, bias}, {{"eps", eps}, {"axes", axes}})[0];
}

LayerNormGrads layer_norm_grad(Value grad, Value x, Value scale, double eps, std::int64_t axes) {
  const Values r = composite("layer_norm_grad", {grad, x, scale}, {{"eps", eps}, {"axes", axes}});
  return {r[0], r[1], r[2]};
}

BatchNormResult batch_norm_train(Value x, Value scale, Value bias, double eps, std::int64_t axis) {
  const Values r =
      composite("batch_norm_train", {x, scale, bias}, batch_attrs("batch_norm_train", x, eps, axis));
  return {r[0], r[1], r[2]};
}

Value batch_norm_inference(Value x, Value scale, Value bias, Value mean, Value variance, double eps,
                           std::int64_t axis) {
  return composite("batch_norm_inference", {x, scale, bias, mean, variance},
                   batch_attrs("batch_norm_inference", x, eps, axis))[0];
}

BatchNormGrads batch_norm_grad(Value grad, Value x, Value scale, Value mean, Value variance, double eps,
                               std::int64_t axis) {
  const Values r = composite("batch_norm_grad", {grad, x, scale, mean, variance},
                             batch_attrs("batch_norm_grad", x, eps, axis));
  return {r[0], r[1], r[2]};
}

}  // namespace systole::ops
