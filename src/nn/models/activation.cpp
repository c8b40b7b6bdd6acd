#include "systole/nn/models/activation.h"

#include <string>
#include <vector>

#include "base/nearest.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"

namespace systole::nn::models {

namespace {

constexpr std::string_view kNames[] = {"gelu", "gelu_tanh", "relu", "silu", "tanh"};  // as in the enum

}  // namespace

Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu(x, GeluForm::tanh);
    case Activation::relu: return relu(x);
    case Activation::silu: return silu(x);
    case Activation::tanh: return systole::tanh(x);
  }
  return x;
}

Activation activation_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<Activation>(i);
  throw unknown_name("model", "activation", name,
                     std::vector<std::string>(std::begin(kNames), std::end(kNames)));
}

std::string_view name_of(Activation activation) { return kNames[static_cast<std::size_t>(activation)]; }

}  // namespace systole::nn::models
