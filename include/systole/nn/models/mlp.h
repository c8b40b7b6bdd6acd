#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/layers.h"
#include "systole/nn/module.h"

namespace systole::nn::models {

// Dense layers with an activation between them, ReLU unless told, and dropout after it. [batch, …],
// flattened, to [batch, classes]. Names are those of a Sequential with the activations in it: 0.weight,
// 0.bias, 2.weight …
struct MlpOptions {
  std::int64_t in = 784;
  std::vector<std::int64_t> hidden = {128};
  std::int64_t classes = 10;
  std::string activation = "relu";  // as nn::activation knows it
  double dropout = 0;
};
class SYSTOLE_API Mlp {
 public:
  explicit Mlp(std::int64_t in = 784, std::int64_t hidden = 128, std::int64_t classes = 10);
  Mlp(std::int64_t in, std::vector<std::int64_t> hidden, std::int64_t classes);
  explicit Mlp(const MlpOptions& options);
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }

  template <class V>
  static void visit(Mlp& self, V&& v) {
    for (std::size_t i = 0; i < self.layers_.size(); ++i) v(std::to_string(2 * i), self.layers_[i]);
    v("dropout", self.dropout_);
  }

 private:
  std::vector<Linear> layers_;
  std::function<Tensor(const Tensor&)> activation_;
  Dropout dropout_;
};

}  // namespace systole::nn::models
