#pragma once

// LSTM with PyTorch's parameters: weight_ih_l0 [4 · hidden, in], weight_hh_l0 [4 · hidden, hidden],
// bias_ih_l0, bias_hh_l0 [4 · hidden], and so on for each layer, with "_reverse" for the other direction.

#include <cstdint>
#include <string>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

struct LSTMOptions {
  std::int64_t layers = 1;
  bool batch_first = false;  // x is [batch, length, in] instead of [length, batch, in], and so is y
  bool bidirectional = false;
  double dropout = 0;  // between layers, in training
};

struct LSTMState {
  Tensor h, c;  // [layers · directions, batch, hidden]
};
struct LSTMOutput {
  Tensor y;  // [length, batch, directions · hidden]
  LSTMState state;
};

class SYSTOLE_API LSTM {
 public:
  LSTM(std::int64_t in, std::int64_t hidden, LSTMOptions options = {});
  LSTMOutput forward(const Tensor& x) const;  // from zeros
  LSTMOutput forward(const Tensor& x, const LSTMState& state) const;
  LSTMOutput operator()(const Tensor& x) const { return forward(x); }
  LSTMOutput operator()(const Tensor& x, const LSTMState& state) const { return forward(x, state); }

  Setting<bool> training = true;

  template <class V>
  static void visit(LSTM& self, V&& v) {
    for (std::size_t i = 0; i < self.cells_.size(); ++i) {
      const std::string suffix = self.suffix(i);
      Cell& cell = self.cells_[i];
      v("weight_ih" + suffix, cell.weight_ih);
      v("weight_hh" + suffix, cell.weight_hh);
      v("bias_ih" + suffix, cell.bias_ih);
      v("bias_hh" + suffix, cell.bias_hh);
    }
  }

 private:
  struct Cell {
    Variable weight_ih, weight_hh, bias_ih, bias_hh;
  };
  std::string suffix(std::size_t cell) const;

  std::int64_t hidden_;
  LSTMOptions options_;
  std::vector<Cell> cells_;  // by layer, then by direction
};

}  // namespace systole::nn
