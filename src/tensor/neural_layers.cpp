// Linear maps, distributions, normalisations, attention, embedding, recurrent layers and dropout: composites
// of ops.h recorded on Tensors.

#include <cmath>
#include <memory>
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
using ir::Values;
using recording::as_float;
using recording::built;
using recording::checked;
using recording::record_built;

void check_parameter(std::string_view where, std::string_view what, const Tensor& parameter,
                     const Shape& wanted) {
  if (checked(parameter, where).type.shape != wanted)
    throw Error(ErrorKind::kShape, std::string(where), std::string(what), wanted.to_string(),
                parameter.type().to_string());
}

// The channels as a shape.
Shape channels_of(std::string_view where, const Tensor& x) {
  if (checked(x, where).type.shape.empty())
    throw Error(ErrorKind::kShape, std::string(where), "x has no channels", "[…, channels]",
                x.type().to_string());
  return {x.shape()[x.shape().size() - 1]};
}

// The last axes of x as far as `weight` says how many they are.
Ints normalised_axes(std::string_view where, const Tensor& x, const Tensor& weight) {
  const int count = checked(weight, where).type.shape.rank();
  const int rank = checked(x, where).type.shape.rank();
  Shape last;
  Ints axes;
  for (int i = rank - count; i >= 0 && i < rank; ++i) {
    last.push_back(x.shape()[static_cast<std::size_t>(i)]);
    axes.push_back(i);
  }
  if (count < 1 || count > rank || last != weight.shape())
    throw Error(ErrorKind::kShape, std::string(where), "the weight does not have the shape of x's last axes",
                x.type().to_string(), weight.type().to_string());
  return axes;
}

void check_probability(std::string_view where, double p) {
  if (!(p >= 0 && p <= 1))
    throw Error(ErrorKind::kInvalidArgument, std::string(where), "the probability of dropout", "in [0, 1]",
                fmt::format("{}", p));
}

Value dropped(Value x, double p, Value key) {
  const Value zero = ops::scalar_like(x, 0);
  if (p == 1) return ops::mul(x, zero);
  const Value drawn = ops::random_uniform(key, x.shape(), DType::f32);
  const Value kept = ops::greater_equal(drawn, ops::scalar_like(drawn, p));
  return ops::select(kept, ops::times(x, 1 / (1 - p)), zero);
}

// Parameters in a dtype that the composites take beside x.
Tensor companion(const Tensor& parameter, const Tensor& x) {
  return parameter.dtype() == x.dtype() ? parameter
                                        : recording::as_dtype(parameter, ops::compute_dtype(x.dtype()));
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (checked(weight, "linear").type.shape.rank() != 2)
    throw Error(ErrorKind::kShape, "linear", "the weight", "[out, in]", weight.type().to_string());
  if (channels_of("linear", x) != Shape{weight.shape()[1]})
    throw Error(ErrorKind::kShape, "linear",
                "the last axis of x does not fit the weight " + weight.type().to_string(),
                fmt::format("[…, {}]", weight.shape()[1].to_string()), x.type().to_string());
  std::vector<Tensor> operands{x, weight};
  if (bias.defined()) {
    check_parameter("linear", "the bias", bias, {weight.shape()[0]});
    operands.push_back(bias);
  }
  const DType dtype = recording::common_dtype(operands, "linear");
  for (Tensor& operand : operands) operand = recording::as_dtype(operand, dtype);
  return record_built(operands, [](ir::Graph&, const Values& v) {
    const Value y = ops::dot_general(v[0], v[1], {-1}, {1});
    return Values{v.size() > 2 ? ops::add(y, v[2]) : y};
  })[0];
}

Tensor softmax(const Tensor& x, std::int64_t axis) {
  checked(x, "softmax");
  return built({as_float(x)}, [&](const Values& v) { return ops::softmax(v[0], axis); });
}

Tensor log_softmax(const Tensor& x, std::int64_t axis) {
  checked(x, "log_softmax");
  return built({as_float(x)}, [&](const Values& v) { return ops::log_softmax(v[0], axis); });
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Ints axes = normalised_axes("layer_norm", x, weight);
  check_parameter("layer_norm", "the bias", bias, weight.shape());
  const Tensor in = as_float(x);
  return built({in, companion(weight, in), companion(bias, in)}, [&](const Values& v) {
    return ops::layer_norm(v[0], v[1], v[2], eps, static_cast<std::int64_t>(axes.size()));
  });
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const Ints axes = normalised_axes("rms_norm", x, weight);
  const Tensor in = as_float(x);
  return built({in, companion(weight, in)}, [&](const Values& v) {
    const Value wide = ops::widen(v[0]);
    const Value mean_square = ops::mean(ops::square(wide), axes, true);
    const Value normal = ops::mul(wide, ops::rsqrt(ops::plus(mean_square, eps)));
    const Value scale = ops::convert(v[1], wide.dtype());
    return ops::convert(ops::mul(normal, scale), v[0].dtype());
  });
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const Shape channels = channels_of("group_norm", x);
  check_parameter("group_norm", "the weight", weight, channels);
  check_parameter("group_norm", "the bias", bias, channels);
  const std::int64_t count = x.size(-1);
  if (x.rank() < 2 || groups < 1 || count % groups != 0)
    throw Error(ErrorKind::kInvalidArgument, "group_norm",
                fmt::format("{} groups for {}", groups, x.type().to_string()),
                "[batch, …, channels] with a multiple of the groups as channels");
  const Tensor in = as_float(x);
  return built({in, companion(weight, in), companion(bias, in)}, [&](const Values& v) {
    const Value wide = ops::widen(v[0]);
    Shape split = wide.shape();  // [batch, …, groups, channels / groups]
    split[split.size() - 1] = groups;
    split.push_back(count / groups);
    Ints axes;
    for (std::int64_t i = 1; i < split.rank(); ++i)
      if (i != split.rank() - 2) axes.push_back(i);
    const Value grouped = ops::reshape(wide, split);
    const Value centered = ops::sub(grouped, ops::mean(grouped, axes, true));
    const Value variance = ops::mean(ops::square(centered), axes, true);
    const Value normal = ops::mul(centered, ops::rsqrt(ops::plus(variance, eps)));
    const Value scaled = ops::mul(ops::reshape(normal, wide.shape()), ops::convert(v[1], wide.dtype()));
    return ops::convert(ops::add(scaled, ops::convert(v[2], wide.dtype())), v[0].dtype());
  });
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                  const Tensor& variance, double eps) {
  const Shape channels = channels_of("batch_norm", x);
  const Tensor in = as_float(x);
  std::vector<Tensor> operands{in};
  for (const auto& [what, parameter] : {std::pair<const char*, const Tensor&>{"the weight", weight},
                                        {"the bias", bias},
                                        {"the mean", mean},
                                        {"the variance", variance}}) {
    check_parameter("batch_norm", what, parameter, channels);
    operands.push_back(companion(parameter, in));
  }
  return record_built(operands, [&](ir::Graph&, const Values& v) {
    return Values{ops::batch_norm_inference(v[0], v[1], v[2], v[3], v[4], eps)};
  })[0];
}

BatchStatistics batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Shape channels = channels_of("batch_norm_train", x);
  check_parameter("batch_norm_train", "the weight", weight, channels);
  check_parameter("batch_norm_train", "the bias", bias, channels);
  const Tensor in = as_float(x);
  const std::vector<Tensor> operands{in, companion(weight, in), companion(bias, in)};
  const std::vector<Tensor> results = record_built(operands, [&](ir::Graph&, const Values& v) {
    const ops::BatchNormResult r = ops::batch_norm_train(v[0], v[1], v[2], eps);
    return Values{r.y, r.mean, r.variance};
  });
  return {results[0], results[1], results[2]};
}

namespace {

// The composite's formula with a mask and, where there is a key, with dropout.
Value masked_attention(const Values& v, bool causal, double scale, double dropout) {
  const Value q = v[0], k = v[1], mask = v[3];
  const DType computed = ops::compute_dtype(q.dtype());
  const double factor = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(q.shape()[3].value()));
  const Value products = ops::dot_general(q, k, {3}, {3}, {0, 1}, {0, 1}, computed);  // [b,h,q,k]
  Value scores = ops::times(products, factor);
  const Value hidden = ops::scalar_like(scores, -HUGE_VAL);
  if (mask.dtype() == DType::boolean)
    scores = ops::select(ops::broadcast_to(mask, scores.shape()), scores, hidden);
  else
    scores = ops::add(scores, ops::convert(mask, computed));
  if (causal) {
    const Dim queries = scores.shape()[2], keys = scores.shape()[3];
    const Type type{DType::i32, {queries, keys}};
    const Value offset = ops::dimension(q.graph(), keys - queries);
    const Value last_seen = ops::add(ops::iota(q.graph(), type, 0), offset);
    scores = ops::select(ops::less_equal(ops::iota(q.graph(), type, 1), last_seen), scores, hidden);
  }
  Value weights = ops::softmax(scores, 3);
  if (v.size() > 4) weights = dropped(weights, dropout, v[4]);
  const Value mixed = ops::dot_general(weights, ops::convert(v[2], computed), {3}, {2}, {0, 1}, {0, 1});
  return ops::convert(mixed, q.dtype());
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  for (const Tensor& x : {q, k, v})
    if (checked(x, "attention").type.shape.rank() != 4)
      throw Error(ErrorKind::kShape, "attention", "an operand's rank", "[batch, heads, length, depth]",
                  x.type().to_string());
  std::vector<Tensor> operands{q, k, v};
  const DType dtype = recording::common_dtype(operands, "attention");
  for (Tensor& x : operands) x = recording::as_dtype(x, dtype);
  const bool drops = options.dropout > 0, masked = options.mask.defined() || drops;
  if (masked)
    operands.push_back(options.mask.defined() ? options.mask : recording::scalar(0.0, dtype, false));
  if (drops) {
    check_probability("attention", options.dropout);
    checked(options.key, "attention: the key of its dropout");
    operands.push_back(options.key);
  }
  return record_built(operands, [&](ir::Graph&, const Values& x) {
    return Values{masked ? masked_attention(x, options.causal, options.scale, options.dropout)
                         : ops::attention(x[0], x[1], x[2], options.causal, options.scale)};
  })[0];
}

Tensor embedding(const Tensor& table, const Tensor& indices) {
  if (checked(table, "embedding").type.shape.rank() != 2)
    throw Error(ErrorKind::kShape, "embedding", "the table's rank", "[count, width]",
                table.type().to_string());
  if (!is_integer(checked(indices, "embedding").type.dtype))
    throw Error(ErrorKind::kDType, "embedding", "the indices", "integers", indices.type().to_string());
  return built({table, indices}, [](const Values& v) { return ops::embedding(v[0], v[1]); });
}

namespace {

// All operands in the dtype of the first.
std::vector<Tensor> recurrent_operands(std::string_view where, std::vector<Tensor> operands) {
  if (checked(operands[0], where).type.shape.rank() != 3)
    throw Error(ErrorKind::kShape, std::string(where), "the rank of x", "[length, batch, inputs]",
                operands[0].type().to_string());
  const DType dtype = recording::common_dtype(operands, where);
  for (Tensor& x : operands) x = recording::as_dtype(x, dtype);
  return operands;
}

}  // namespace

LstmOutput lstm(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& w, const Tensor& r,
                const Tensor& w_bias, const Tensor& r_bias) {
  const std::vector<Tensor> results = record_built(
      recurrent_operands("lstm", {x, h, c, w, r, w_bias, r_bias}), [](ir::Graph&, const Values& v) {
        const ops::LstmResult result = ops::lstm(v[0], v[1], v[2], v[3], v[4], v[5], v[6]);
        return Values{result.y, result.h, result.c};
      });
  return {results[0], results[1], results[2]};
}

GruOutput gru(const Tensor& x, const Tensor& h, const Tensor& w, const Tensor& r, const Tensor& w_bias,
              const Tensor& r_bias) {
  const std::vector<Tensor> results =
      record_built(recurrent_operands("gru", {x, h, w, r, w_bias, r_bias}), [](ir::Graph&, const Values& v) {
        const ops::GruResult result = ops::gru(v[0], v[1], v[2], v[3], v[4], v[5]);
        return Values{result.y, result.h};
      });
  return {results[0], results[1]};
}

RnnOutput rnn(const Tensor& x, const Tensor& h, const Tensor& w, const Tensor& r, const Tensor& w_bias,
              const Tensor& r_bias, RnnForm form) {
  const std::vector<Tensor> operands = recurrent_operands("rnn", {x, h, w, r, w_bias, r_bias});
  const Shape& in = operands[0].shape();
  const std::int64_t hidden = checked(r, "rnn").type.shape.rank() == 2 ? r.size(1) : 0;
  check_parameter("rnn", "the recurrent weight", r, {hidden, hidden});
  check_parameter("rnn", "the weight", w, {hidden, in[2]});
  check_parameter("rnn", "the state", h, {in[1], hidden});
  for (const Tensor& bias : {w_bias, r_bias}) check_parameter("rnn", "a bias", bias, {hidden});
  const std::vector<Tensor> results = record_built(operands, [&](ir::Graph&, const Values& v) {
    const DType wide = ops::compute_dtype(v[0].dtype());
    const Value h0 = ops::widen(v[1]), bias = ops::add(ops::widen(v[4]), ops::widen(v[5]));
    const Value inputs = ops::add(ops::dot_general(v[0], v[2], {-1}, {1}, {}, {}, wide), bias);  // [t,b,h]
    auto step = std::make_shared<ir::Graph>("rnn_step");
    const Value before = step->input("h", h0.type()), input = step->input("input", h0.type());
    const Value weight = step->input("r", v[3].type());
    const Value rounded = ops::convert(before, v[0].dtype());
    const Value sum = ops::add(input, ops::dot_general(rounded, weight, {-1}, {1}, {}, {}, wide));
    const Value zero = ops::scalar_like(sum, 0);
    const Value next =
        form == RnnForm::tanh ? ops::tanh(sum) : ops::select(ops::less_equal(sum, zero), zero, sum);
    step->output(next, "h");
    step->output(ops::convert(next, v[0].dtype()), "y");
    const Values out = ops::scan(std::move(step), h0, inputs, v[3], in[0]);
    return Values{out[1], ops::convert(out[0], v[0].dtype())};
  });
  return {results[0], results[1]};
}

Tensor dropout(const Tensor& x, double p, const Tensor& key) {
  check_probability("dropout", p);
  checked(x, "dropout");
  checked(key, "dropout");
  if (p == 0) return as_float(x);
  return built({as_float(x), key}, [&](const Values& v) { return dropped(v[0], p, v[1]); });
}

}  // namespace systole
