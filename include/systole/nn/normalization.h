#pragma once

// Normalisation within an example; BatchNorm and LayerNorm are in layers.h.

#include <cstdint>
#include <optional>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

// The channels in groups, each with the mean and variance of its image: nn::GroupNorm norm{8, 64}. One group
// per channel is PyTorch's InstanceNorm.
struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;  // whether there are a weight and a bias
};
struct SYSTOLE_API GroupNorm {
  GroupNorm(std::int64_t groups, std::int64_t channels, GroupNormOptions options = {});
  Tensor forward(const Tensor& x) const;  // [batch, …, channels]
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight, bias;  // [channels]; undefined unless affine
  std::int64_t groups, channels;
  double eps;

  template <class V>
  static void visit(GroupNorm& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
  }
};

// x / √(mean of x² + eps) · weight, over the last axis.
struct RMSNormOptions {
  std::optional<double> eps;  // left out: the distance from 1 to the next number of x's dtype, as in PyTorch
};
struct SYSTOLE_API RMSNorm {
  explicit RMSNorm(std::int64_t width, RMSNormOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [width]
  std::optional<double> eps;

  template <class V>
  static void visit(RMSNorm& self, V&& v) {
    v("weight", self.weight);
  }
};

}  // namespace systole::nn
