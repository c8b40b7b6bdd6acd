#pragma once

// Activations as layers, and any of them by name; ReLU, GELU, SiLU, Tanh and Sigmoid are in layers.h.
//
//   nn::Sequential net{nn::Linear(4, 8), nn::LeakyReLU{0.2}, nn::Linear(8, 3), nn::Softmax{}};
//   auto f = nn::activation("leaky_relu");   // Tensor y = f(x);

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

struct SYSTOLE_API Identity {
  Tensor forward(const Tensor& x) const { return observed(*this, x); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API ReLU6 {
  Tensor forward(const Tensor& x) const { return observed(*this, relu6(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API LeakyReLU {
  double slope = 0.01;
  Tensor forward(const Tensor& x) const { return observed(*this, leaky_relu(x, slope)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API ELU {
  double alpha = 1;
  Tensor forward(const Tensor& x) const { return observed(*this, elu(x, alpha)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API SELU {
  Tensor forward(const Tensor& x) const { return observed(*this, selu(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Softplus {
  Tensor forward(const Tensor& x) const { return observed(*this, softplus(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Softsign {
  Tensor forward(const Tensor& x) const { return observed(*this, softsign(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API LogSigmoid {
  Tensor forward(const Tensor& x) const { return observed(*this, log_sigmoid(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Mish {
  Tensor forward(const Tensor& x) const { return observed(*this, mish(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Hardswish {
  Tensor forward(const Tensor& x) const { return observed(*this, hardswish(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Hardsigmoid {
  Tensor forward(const Tensor& x) const { return observed(*this, hardsigmoid(x)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Hardtanh {
  double low = -1, high = 1;
  Tensor forward(const Tensor& x) const { return observed(*this, clip(x, low, high)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API Softmax {
  std::int64_t axis = -1;
  Tensor forward(const Tensor& x) const { return observed(*this, softmax(x, axis)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};
struct SYSTOLE_API LogSoftmax {
  std::int64_t axis = -1;
  Tensor forward(const Tensor& x) const { return observed(*this, log_softmax(x, axis)); }
  Tensor operator()(const Tensor& x) const { return forward(x); }
};

// A leaky ReLU whose slope is learned: one for all channels, or one for each.
struct SYSTOLE_API PReLU {
  explicit PReLU(std::int64_t channels = 1, double slope = 0.25);
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  Variable weight;  // [channels]

  template <class V>
  static void visit(PReLU& self, V&& v) {
    v("weight", self.weight);
  }
};

// By the name that PyTorch's or Keras's function has: "relu", "gelu", "softmax", "linear" for none … An
// unknown one throws kNotFound with the nearest.
SYSTOLE_API std::function<Tensor(const Tensor&)> activation(std::string_view name);
SYSTOLE_API std::vector<std::string> activation_names();

}  // namespace systole::nn
