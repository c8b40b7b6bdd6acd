#include "systole/nn/activation.h"

#include <array>
#include <cstddef>
#include <string>

#include "nn/words.h"
#include "systole/tensor/math.h"
#include "systole/tensor/neural.h"

namespace systole::nn {

namespace {

struct Named {
  std::string_view name;
  Tensor (*function)(const Tensor&);
};

constexpr std::array kActivations{
    Named{"none", [](const Tensor& x) { return x; }},
    Named{"relu", [](const Tensor& x) { return relu(x); }},
    Named{"relu6", [](const Tensor& x) { return relu6(x); }},
    Named{"leakyrelu", [](const Tensor& x) { return leaky_relu(x); }},
    Named{"elu", [](const Tensor& x) { return elu(x); }},
    Named{"selu", [](const Tensor& x) { return selu(x); }},
    Named{"gelu", [](const Tensor& x) { return gelu(x); }},
    Named{"gelu_tanh", [](const Tensor& x) { return gelu(x, GeluForm::tanh); }},
    Named{"silu", [](const Tensor& x) { return silu(x); }},
    Named{"mish", [](const Tensor& x) { return mish(x); }},
    Named{"tanh", [](const Tensor& x) { return tanh(x); }},
    Named{"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
    Named{"softplus", [](const Tensor& x) { return softplus(x); }},
    Named{"softmax", [](const Tensor& x) { return softmax(x); }},
    Named{"logsoftmax", [](const Tensor& x) { return log_softmax(x); }},
    Named{"hardswish", [](const Tensor& x) { return hardswish(x); }},
    Named{"hardsigmoid", [](const Tensor& x) { return hardsigmoid(x); }},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kActivations.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kActivations[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> Activation::names() { return kNames; }

Activation::Activation(std::string_view name) {
  const std::string lower = lower_case(name);
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == lower) {
      which_ = static_cast<int>(i);
      return;
    }
  unknown_word("Activation", "activation", lower, kNames);
}

std::string_view Activation::name() const { return kNames[static_cast<std::size_t>(which_)]; }

Tensor Activation::forward(const Tensor& x) const {
  return observed(*this, kActivations[static_cast<std::size_t>(which_)].function(x));
}

}  // namespace systole::nn
