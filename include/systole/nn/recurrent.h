#pragma once

// Recurrent layers with PyTorch's parameters: weight_ih_l0 [gates · hidden, in], weight_hh_l0 [gates ·
// hidden, hidden], bias_ih_l0, bias_hh_l0 [gates · hidden], and so on for each layer, with "_reverse" for the
// other direction. An LSTM has four gates, a GRU three, an RNN one.
//
//   nn::GRU gru{80, 128, {.layers = 2, .batch_first = true, .bidirectional = true}};
//   auto [y, h] = gru(x);        // from zeros
//   auto [z, last] = gru(x, h);  // from a state

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/module.h"
#include "systole/tensor/neural.h"
#include "systole/tensor/tensor.h"
#include "systole/tensor/variable.h"

namespace systole::nn {

struct RecurrentOptions {
  std::int64_t layers = 1;
  bool batch_first = false;  // x is [batch, length, in] instead of [length, batch, in], and so is y
  bool bidirectional = false;
  double dropout = 0;  // between layers, in training
  bool bias = true;
};
using LSTMOptions = RecurrentOptions;
using GRUOptions = RecurrentOptions;
struct RNNOptions {
  std::int64_t layers = 1;
  bool batch_first = false;
  bool bidirectional = false;
  double dropout = 0;
  bool bias = true;
  RnnForm nonlinearity = RnnForm::tanh;
};

namespace detail {

// The parameters of all layers and directions, and the walk through them.
class SYSTOLE_API RecurrentStack {
 public:
  struct Cell {
    Variable weight_ih, weight_hh, bias_ih, bias_hh;
  };
  // One layer in one direction: x [length, batch, …] and states [batch, hidden] to y and states.
  struct Run {
    Tensor y;
    std::vector<Tensor> states;
  };
  using Layer = std::function<Run(const Tensor& x, const std::vector<Tensor>& states, const Cell& cell,
                                  const Tensor& w_bias, const Tensor& r_bias)>;

  RecurrentStack(std::string_view name, std::int64_t gates, std::int64_t in, std::int64_t hidden,
                 RecurrentOptions options);
  // `states` are [layers · directions, batch, hidden]; with none, `count` states of zeros.
  Run run(const Tensor& x, std::vector<Tensor> states, std::size_t count, bool training,
          const Layer& layer) const;

  template <class V>
  void visit(V&& v) {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const std::string suffix = this->suffix(i);
      Cell& cell = cells_[i];
      v("weight_ih" + suffix, cell.weight_ih);
      v("weight_hh" + suffix, cell.weight_hh);
      v("bias_ih" + suffix, cell.bias_ih);
      v("bias_hh" + suffix, cell.bias_hh);
    }
  }

 private:
  std::string suffix(std::size_t cell) const;
  void check(const Tensor& x, const std::vector<Tensor>& states) const;

  std::string name_;
  std::int64_t in_, hidden_;
  RecurrentOptions options_;
  std::vector<Cell> cells_;  // by layer, then by direction
};

}  // namespace detail

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
    self.stack_.visit(v);
  }

 private:
  LSTMOutput run(const Tensor& x, std::vector<Tensor> states) const;
  detail::RecurrentStack stack_;
};

// Of GRU and RNN.
struct RecurrentOutput {
  Tensor y;  // [length, batch, directions · hidden]
  Tensor h;  // [layers · directions, batch, hidden]
};

class SYSTOLE_API GRU {
 public:
  GRU(std::int64_t in, std::int64_t hidden, GRUOptions options = {});
  RecurrentOutput forward(const Tensor& x) const;  // from zeros
  RecurrentOutput forward(const Tensor& x, const Tensor& h) const;
  RecurrentOutput operator()(const Tensor& x) const { return forward(x); }
  RecurrentOutput operator()(const Tensor& x, const Tensor& h) const { return forward(x, h); }

  Setting<bool> training = true;

  template <class V>
  static void visit(GRU& self, V&& v) {
    self.stack_.visit(v);
  }

 private:
  RecurrentOutput run(const Tensor& x, std::vector<Tensor> states) const;
  detail::RecurrentStack stack_;
};

// h = tanh(W·x + R·h + biases), or relu.
class SYSTOLE_API RNN {
 public:
  RNN(std::int64_t in, std::int64_t hidden, RNNOptions options = {});
  RecurrentOutput forward(const Tensor& x) const;  // from zeros
  RecurrentOutput forward(const Tensor& x, const Tensor& h) const;
  RecurrentOutput operator()(const Tensor& x) const { return forward(x); }
  RecurrentOutput operator()(const Tensor& x, const Tensor& h) const { return forward(x, h); }

  Setting<bool> training = true;

  template <class V>
  static void visit(RNN& self, V&& v) {
    self.stack_.visit(v);
  }

 private:
  RecurrentOutput run(const Tensor& x, std::vector<Tensor> states) const;
  detail::RecurrentStack stack_;
  RnnForm form_;
};

}  // namespace systole::nn
