#include "systole/nn/models/mlp.h"

#include <utility>

#include "systole/nn/activations.h"
#include "systole/tensor/shaping.h"

namespace systole::nn::models {

Mlp::Mlp(std::int64_t in, std::int64_t hidden, std::int64_t classes)
    : Mlp(MlpOptions{.in = in, .hidden = {hidden}, .classes = classes}) {}

Mlp::Mlp(std::int64_t in, std::vector<std::int64_t> hidden, std::int64_t classes)
    : Mlp(MlpOptions{.in = in, .hidden = std::move(hidden), .classes = classes}) {}

Mlp::Mlp(const MlpOptions& options) : activation_(activation(options.activation)), dropout_{options.dropout} {
  std::int64_t in = options.in;
  for (const std::int64_t width : options.hidden) {
    layers_.emplace_back(in, width);
    in = width;
  }
  layers_.emplace_back(in, options.classes);
}

Tensor Mlp::forward(const Tensor& x) const {
  Tensor y = x.rank() > 2 ? x.flatten(1) : x;
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    y = activation_(layers_[i](y));
    if (dropout_.p > 0) y = dropout_(y);
  }
  return observed(*this, layers_.back()(y));
}

}  // namespace systole::nn::models
