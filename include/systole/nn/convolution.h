#pragma once

// Convolutions and pooling on images, channels-last: [batch, height, width, channels], and on sequences:
// [batch, width, channels]. Weights have PyTorch's layouts.

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

using Conv1dOptions = Conv2dOptions;
struct SYSTOLE_API Conv1d {
  Conv1d(std::int64_t in, std::int64_t out, Conv1dOptions options = {});
  Tensor forward(const Tensor& x) const;  // [batch, width, in] to [batch, …, out]
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [out, in / groups, width]
  Variable bias;    // [out]; undefined without one
  ConvOptions options;

  template <class V>
  static void visit(Conv1d& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
  }
};

// Every channel by itself: a Conv2d of as many groups as channels, `multiplier` results for each of them.
struct DepthwiseConv2dOptions {
  PerAxis kernel = 3;
  PerAxis stride = 1;
  Padding padding = 0;
  PerAxis dilation = 1;
  std::int64_t multiplier = 1;
  bool bias = true;
};
struct SYSTOLE_API DepthwiseConv2d {
  explicit DepthwiseConv2d(std::int64_t channels, DepthwiseConv2dOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [channels · multiplier, 1, height, width]
  Variable bias;    // [channels · multiplier]; undefined without one
  ConvOptions options;

  template <class V>
  static void visit(DepthwiseConv2d& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
  }
};

// The gradient of a convolution by its input, as a layer that enlarges: nn::ConvTranspose2d up{64, 32,
// {.kernel = 2, .stride = 2}} doubles height and width.
struct ConvTranspose2dOptions {
  PerAxis kernel = 3;
  PerAxis stride = 1;
  PerAxis padding = 0;         // what the convolution would have padded: it makes the result smaller
  PerAxis output_padding = 0;  // rows and columns more, at the end
  PerAxis dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};
struct SYSTOLE_API ConvTranspose2d {
  ConvTranspose2d(std::int64_t in, std::int64_t out, ConvTranspose2dOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [in, out / groups, height, width]
  Variable bias;    // [out]; undefined without one
  ConvTransposeOptions options;

  template <class V>
  static void visit(ConvTranspose2d& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
  }
};

using ConvTranspose1dOptions = ConvTranspose2dOptions;
struct SYSTOLE_API ConvTranspose1d {
  ConvTranspose1d(std::int64_t in, std::int64_t out, ConvTranspose1dOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [in, out / groups, width]
  Variable bias;    // [out]; undefined without one
  ConvTransposeOptions options;

  template <class V>
  static void visit(ConvTranspose1d& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
  }
};

// Pooling. nn::MaxPool2d{} is 2 by 2; nn::MaxPool2d{3, {.stride = 2, .padding = 1}}.
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

struct SYSTOLE_API MaxPool1d {
  PerAxis window = 2;
  PoolOptions options = {};
  Tensor forward(const Tensor& x) const { return observed(*this, max_pool1d(x, window, options)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

struct SYSTOLE_API AvgPool1d {
  PerAxis window = 2;
  PoolOptions options = {};
  Tensor forward(const Tensor& x) const { return observed(*this, avg_pool1d(x, window, options)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

// To a given size, whatever the input's: nn::AdaptiveAvgPool2d{{6, 6}}.
struct SYSTOLE_API AdaptiveAvgPool2d {
  PerAxis size = 1;
  Tensor forward(const Tensor& x) const { return observed(*this, adaptive_avg_pool2d(x, size)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

struct SYSTOLE_API AdaptiveMaxPool2d {
  PerAxis size = 1;
  Tensor forward(const Tensor& x) const { return observed(*this, adaptive_max_pool2d(x, size)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

struct SYSTOLE_API AdaptiveAvgPool1d {
  std::int64_t size = 1;
  Tensor forward(const Tensor& x) const { return observed(*this, adaptive_avg_pool1d(x, size)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

struct SYSTOLE_API AdaptiveMaxPool1d {
  std::int64_t size = 1;
  Tensor forward(const Tensor& x) const { return observed(*this, adaptive_max_pool1d(x, size)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

// The mean or the largest of each channel: [batch, height, width, channels] to [batch, channels].
struct SYSTOLE_API GlobalAvgPool {
  Tensor forward(const Tensor& x) const { return observed(*this, global_avg_pool(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

struct SYSTOLE_API GlobalMaxPool {
  Tensor forward(const Tensor& x) const { return observed(*this, global_max_pool(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

}  // namespace systole::nn
