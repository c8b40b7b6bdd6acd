#include "systole/nn/layers.h"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"
#include "systole/ops.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/random.h"
#include "tensor/record.h"

namespace systole::nn {

Variable new_parameter(Shape shape) {
  for (const Dim& dim : shape)
    if (dim.value() < 0)
      throw Error(ErrorKind::kInvalidArgument, "nn", "the size of a parameter", "0 or more",
                  shape.to_string());
  return Variable(Tensor(Literal({DType::f32, std::move(shape)})));
}

Variable new_buffer(Literal value) { return Variable(Tensor(std::move(value)), {}, false); }

void init_uniform_by_fan(Variable variable, std::int64_t fan) {
  const double bound = fan > 0 ? 1 / std::sqrt(static_cast<double>(fan)) : 0;
  init::uniform(std::move(variable), -bound, bound);
}

Linear::Linear(std::int64_t in, std::int64_t out, LinearOptions options) : weight(new_parameter({out, in})) {
  init_uniform_by_fan(weight, in);
  if (!options.bias) return;
  bias = new_parameter({out});
  init_uniform_by_fan(bias, in);
}

Tensor Linear::forward(const Tensor& x) const {
  return observed(*this, linear(x, weight, bias.defined() ? bias.value() : Tensor()));
}

Embedding::Embedding(std::int64_t count, std::int64_t width) : weight(new_parameter({count, width})) {
  init::normal(weight);
}

Tensor Embedding::forward(const Tensor& indices) const { return observed(*this, embedding(weight, indices)); }

LayerNorm::LayerNorm(std::int64_t width, LayerNormOptions options)
    : weight(new_parameter({width})), eps(options.eps) {
  init::ones(weight);
  if (options.bias) bias = new_parameter({width});
}

Tensor LayerNorm::forward(const Tensor& x) const {
  const Tensor shift = bias.defined() ? bias.value() : recording::filled(weight.type(), 0);
  return observed(*this, layer_norm(x, weight, shift, eps));
}

BatchNorm::BatchNorm(std::int64_t channels, BatchNormOptions options)
    : weight(new_parameter({channels})),
      bias(new_parameter({channels})),
      running_mean(new_buffer(Literal({DType::f32, {channels}}))),
      running_var(new_buffer(Literal::full({DType::f32, {channels}}, 1))),
      num_batches_tracked(new_buffer(Literal::scalar<std::int64_t>(0))),
      eps(options.eps),
      momentum(options.momentum) {
  init::ones(weight);
}

Tensor BatchNorm::forward(const Tensor& x) const {
  if (!training || frozen)
    return observed(*this, batch_norm(x, weight, bias, running_mean, running_var, eps));
  const BatchStatistics batch = batch_norm_train(x, weight, bias, eps);
  const std::int64_t count = x.size() / std::max<std::int64_t>(x.size(-1), 1);
  if (count < 2)
    throw Error(ErrorKind::kShape, "BatchNorm", "in training a channel needs more than one value",
                "several rows or pixels", x.type().to_string());
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  const auto follow = [&](Variable running, const Tensor& now, double scale) {
    const Tensor moved = recording::built({running, now}, [&](const ir::Values& v) {
      const ir::Value kept = v[0] * (1 - momentum);
      return kept + ops::convert(v[1], v[0].dtype()) * (momentum * scale);
    });
    running.assign(moved);
  };
  follow(running_mean, batch.mean, 1);
  follow(running_var, batch.variance, unbiased);
  Variable batches = num_batches_tracked;
  batches.assign(recording::built({batches}, [](const ir::Values& v) { return v[0] + 1.0; }));
  return observed(*this, batch.y);
}

Tensor Dropout::forward(const Tensor& x) const {
  return observed(*this, training && p > 0 ? dropout(x, p, random::next_key()) : x);
}

namespace {

// One draw for each channel of each example.
Tensor channel_dropout(std::string_view where, const Tensor& x, double p, int rank, const char* wanted) {
  if (recording::checked(x, where).type.shape.rank() != rank)
    throw Error(ErrorKind::kShape, std::string(where), "the rank of x", wanted, x.type().to_string());
  Shape channels(std::vector<Dim>(static_cast<std::size_t>(rank), Dim(1)));
  channels[0] = x.shape()[0];
  channels[channels.size() - 1] = x.shape()[x.shape().size() - 1];
  const Tensor in = recording::as_float(x);
  return in * dropout(recording::filled({in.dtype(), channels}, 1), p, random::next_key());
}

}  // namespace

Tensor Dropout2d::forward(const Tensor& x) const {
  constexpr const char* kWanted = "[batch, height, width, channels]";
  return observed(*this, training && p > 0 ? channel_dropout("Dropout2d", x, p, 4, kWanted) : x);
}
Tensor Dropout1d::forward(const Tensor& x) const {
  constexpr const char* kWanted = "[batch, width, channels]";
  return observed(*this, training && p > 0 ? channel_dropout("Dropout1d", x, p, 3, kWanted) : x);
}

Tensor Flatten::forward(const Tensor& x) const {
  const int rank = recording::checked(x, "Flatten").type.shape.rank();
  if (rank < 2)
    throw Error(ErrorKind::kShape, "Flatten", "nothing to flatten", "[batch, …]", x.type().to_string());
  return observed(*this, recording::built({x}, [&](const ir::Values& v) {
    ir::Value y = v[0];
    if (channels_first) {
      Ints order{0, rank - 1};
      for (std::int64_t i = 1; i + 1 < rank; ++i) order.push_back(i);
      y = ops::transpose(y, order);
    }
    Dim rest = 1;
    for (std::size_t i = 1; i < y.shape().size(); ++i) rest = rest * y.shape()[i];
    return ops::reshape(y, {y.shape()[0], rest});
  }));
}

Tensor Tanh::forward(const Tensor& x) const { return observed(*this, tanh(x)); }

}  // namespace systole::nn
