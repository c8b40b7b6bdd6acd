#include "systole/nn/activations.h"

#include <string>

#include "nn/named.h"
#include "nn/parameter.h"
#include "systole/base/error.h"
#include "systole/nn/init.h"
#include "tensor/record.h"

namespace systole::nn {

PReLU::PReLU(std::int64_t channels, double slope) : weight(new_parameter({channels})) {
  init::constant(weight, slope);
}

Tensor PReLU::forward(const Tensor& x) const {
  const int rank = recording::checked(x, "PReLU").type.shape.rank();
  if (weight.size() != 1 &&
      (rank == 0 || x.shape()[static_cast<std::size_t>(rank) - 1] != Dim(weight.size())))
    throw Error(ErrorKind::kShape, "PReLU", "x", "[…, " + std::to_string(weight.size()) + "]",
                x.type().to_string());
  return observed(*this, where(x > 0, x, x * weight));
}

namespace {

struct Entry {
  std::string_view name;
  Tensor (*function)(const Tensor&);
};

// PyTorch's names, then Keras's where they differ.
constexpr Entry kActivations[] = {
    {"elu", [](const Tensor& x) { return elu(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"gelu_tanh", [](const Tensor& x) { return gelu(x, GeluForm::tanh); }},
    {"hardsigmoid", hardsigmoid},
    {"hardswish", hardswish},
    {"hardtanh", [](const Tensor& x) { return clip(x, -1, 1); }},
    {"identity", [](const Tensor& x) { return x; }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
    {"log_sigmoid", log_sigmoid},
    {"log_softmax", [](const Tensor& x) { return log_softmax(x); }},
    {"mish", mish},
    {"relu", relu},
    {"relu6", relu6},
    {"selu", selu},
    {"sigmoid", sigmoid},
    {"silu", silu},
    {"softmax", [](const Tensor& x) { return softmax(x); }},
    {"softplus", softplus},
    {"softsign", softsign},
    {"tanh", tanh},
    {"exponential", exp},
    {"hard_sigmoid", hardsigmoid},
    {"hard_swish", hardswish},
    {"linear", [](const Tensor& x) { return x; }},
    {"logsigmoid", log_sigmoid},
    {"swish", silu},
};

}  // namespace

std::function<Tensor(const Tensor&)> activation(std::string_view name) {
  std::string plain = plain_name(name);  // of "LeakyReLU": leaky_re_lu
  if (const std::size_t at = plain.find("_lu"); at != std::string::npos) plain.erase(at, 1);
  return named<Entry>(kActivations, plain, "activation").function;
}

std::vector<std::string> activation_names() { return names_of<Entry>(kActivations); }

}  // namespace systole::nn
