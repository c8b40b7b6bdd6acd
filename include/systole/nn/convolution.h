#pragma once

// Layers on images, channels-last: [batch, height, width, channels].

#include <cstdint>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

// nn::Conv2d conv{3, 32, {.kernel = 3, .padding = 1, .bias = false}};
struct Conv2dOptions {
  PerAxis kernel = 3;
  PerAxis stride = 1;
  Padding padding = 0;
  PerAxis dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};
struct SYSTOLE_API Conv2d {
  Conv2d(std::int64_t in, std::int64_t out, Conv2dOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [out, in / groups, height, width]
  Variable bias;    // [out]; undefined without one
  ConvOptions options;

  template <class V>
  static void visit(Conv2d& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
  }
};

struct SYSTOLE_API MaxPool2d {
  PerAxis window = 2;
  PoolOptions options = {};
  Tensor forward(const Tensor& x) const { return observed(*this, max_pool2d(x, window, options)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

struct SYSTOLE_API AvgPool2d {
  PerAxis window = 2;
  PoolOptions options = {};
  Tensor forward(const Tensor& x) const { return observed(*this, avg_pool2d(x, window, options)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

// The mean of each channel: [batch, height, width, channels] to [batch, channels].
struct SYSTOLE_API GlobalAvgPool {
  Tensor forward(const Tensor& x) const { return observed(*this, global_avg_pool(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

}  // namespace systole::nn
