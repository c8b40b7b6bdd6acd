#pragma once

// The basic layers, with PyTorch's parameter names, layouts and initial distributions. A layer is called like
// a function; forward() is the same. Options stand in braces by name: nn::Linear fc{784, 10, {.bias =
// false}}.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

struct LinearOptions {
  bool bias = true;
};
struct SYSTOLE_API Linear {
  Linear(std::int64_t in, std::int64_t out, LinearOptions options = {});
  Tensor forward(const Tensor& x) const;  // […, in] to […, out]
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [out, in]
  Variable bias;    // [out]; undefined without one

  template <class V>
  static void visit(Linear& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
  }
};

struct SYSTOLE_API Embedding {
  Embedding(std::int64_t count, std::int64_t width);
  Tensor forward(const Tensor& indices) const;  // […] to […, width]
  Tensor operator()(const Tensor& indices) const { return forward(indices); }

  Variable weight;  // [count, width]

  template <class V>
  static void visit(Embedding& self, V&& v) {
    v("weight", self.weight);
  }
};

// Over the last axis.
struct LayerNormOptions {
  double eps = 1e-5;
  bool bias = true;
};
struct SYSTOLE_API LayerNorm {
  explicit LayerNorm(std::int64_t width, LayerNormOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight, bias;  // [width]; the bias undefined without one
  double eps;

  template <class V>
  static void visit(LayerNorm& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
  }
};

// Over every axis but the last, for images and rows alike. In training the statistics are the batch's, and
// the running ones move towards them by `momentum`, the variance as the unbiased one; after it they are used.
struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;
};
struct SYSTOLE_API BatchNorm {
  explicit BatchNorm(std::int64_t channels, BatchNormOptions options = {});
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight, bias;               // [channels]
  Variable running_mean, running_var;  // [channels]
  Variable num_batches_tracked;        // i64
  double eps, momentum;
  Setting<bool> training = true;
  Setting<bool> frozen = false;  // the running statistics serve in training too, and stay: nn::freeze

  template <class V>
  static void visit(BatchNorm& self, V&& v) {
    v("weight", self.weight);
    v("bias", self.bias);
    v("running_mean", self.running_mean);
    v("running_var", self.running_var);
    v("num_batches_tracked", self.num_batches_tracked);
  }
};

// In training, zeroes elements with probability p and scales the others by 1 / (1 - p).
struct SYSTOLE_API Dropout {
  double p = 0.5;
  Setting<bool> training = true;

  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

// In training, zeroes whole channels of an image or a sequence, as PyTorch's Dropout2d and Dropout1d do.
struct SYSTOLE_API Dropout2d {
  double p = 0.5;
  Setting<bool> training = true;

  Tensor forward(const Tensor& x) const;  // [batch, height, width, channels]
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Dropout1d {
  double p = 0.5;
  Setting<bool> training = true;

  Tensor forward(const Tensor& x) const;  // [batch, width, channels]
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

// All axes but the first made one. `channels_first` puts the channels of an image before its pixels, which is
// the order that the weights of a PyTorch model after its Flatten expect.
struct SYSTOLE_API Flatten {
  bool channels_first = false;

  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

// Activations as layers.
struct SYSTOLE_API ReLU {
  Tensor forward(const Tensor& x) const { return observed(*this, relu(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API GELU {
  GeluForm form = GeluForm::exact;
  Tensor forward(const Tensor& x) const { return observed(*this, gelu(x, form)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API SiLU {
  Tensor forward(const Tensor& x) const { return observed(*this, silu(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Tanh {
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Sigmoid {
  Tensor forward(const Tensor& x) const { return observed(*this, sigmoid(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

// One layer after the other, named by their numbers: nn::Sequential{nn::Linear(784, 128), nn::ReLU(),
// nn::Linear(128, 10)} has parameters 0.weight, 0.bias, 2.weight, 2.bias. Functions may stand among them.
template <class... Layers>
class Sequential {
 public:
  Sequential() = default;
  Sequential(Layers... layers)
    requires(sizeof...(Layers) > 0)
      : layers_{{std::move(layers)}...} {}

  template <class X>
  auto forward(const X& x) const {
    auto y = from<0>(x);
    if constexpr (std::same_as<decltype(y), Tensor>)
      return observed(*this, std::move(y));
    else
      return y;
  }
  template <class X>
  auto operator()(const X& x) const {
    return forward(x);
  }

  static constexpr std::size_t size() { return sizeof...(Layers); }
  template <std::size_t I>
  auto& get() {
    return at<I>(layers_);
  }
  template <std::size_t I>
  const auto& get() const {
    return at<I>(layers_);
  }

  template <class V>
  static void visit(Sequential& self, V&& v) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (v(std::to_string(I), at<I>(self.layers_)), ...);
    }(std::index_sequence_for<Layers...>{});
  }

 private:
  template <std::size_t I, class X>
  auto from(const X& x) const {
    if constexpr (I == sizeof...(Layers))
      return x;
    else
      return from<I + 1>(nn::apply(at<I>(layers_), x));
  }

  // In the place of a std::tuple, whose constructors take as long to compile as all else here.
  template <std::size_t I, class T>
  struct Place {
    T layer;
  };
  template <class Indices>
  struct Places;
  template <std::size_t... I>
  struct Places<std::index_sequence<I...>> : Place<I, Layers>... {};
  template <std::size_t I, class T>
  static T& at(Place<I, T>& place) {
    return place.layer;
  }
  template <std::size_t I, class T>
  static const T& at(const Place<I, T>& place) {
    return place.layer;
  }

  Places<std::index_sequence_for<Layers...>> layers_;
};

}  // namespace systole::nn
