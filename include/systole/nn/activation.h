#pragma once

// Activations chosen by name, for models that are described by text.

#include <span>
#include <string_view>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"

namespace systole::nn {

// none, relu, relu6, leakyrelu, elu, selu, gelu, gelu_tanh, silu, mish, tanh, sigmoid, softplus, softmax,
// logsoftmax, hardswish, hardsigmoid.
class SYSTOLE_API Activation {
 public:
  Activation() = default;             // none
  Activation(std::string_view name);  // kNotFound with the nearest name
  Activation(const char* name) : Activation(std::string_view(name)) {}
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  std::string_view name() const;
  static std::span<const std::string_view> names();

  template <class V>
  static void visit(Activation&, V&&) {}

 private:
  int which_ = 0;
};

}  // namespace systole::nn
