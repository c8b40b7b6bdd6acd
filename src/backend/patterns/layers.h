#pragma once

// Layers that a library has whole, read from the graph into plain numbers: pooling over windows, batch norms,
// and recurrent nets over whole sequences.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compile/target.h"

namespace systole::patterns {

// Over the spatial axes of [batch, spatial…, channels]. The graph has means as sums that are divided, and
// the gradient of a sum as a sum over windows of what has holes where the strides were.
struct PoolingLayer {
  enum class Kind { max, sum, mean, mean_of_image, sum_grad };  // mean_of_image: padding does not count
  Kind kind = Kind::max;
  DType dtype = DType::f32;
  std::int64_t batch = 0, channels = 0;
  Ints image, result, window, strides, before;  // of the forward layer, by spatial axis

  std::string text() const;
};

// batch_norm_train(x, scale, bias), batch_norm_inference(x, scale, bias, mean, variance) or
// batch_norm_grad(grad, x, scale, mean, variance) over every axis but `axis`.
struct NormLayer {
  enum class Kind { train, inference, grad };
  Kind kind = Kind::train;
  DType dtype = DType::f32, parameters = DType::f32;
  Ints shape;  // of x
  std::int64_t axis = 0;
  double eps = 0;

  std::int64_t channels() const { return shape[static_cast<std::size_t>(axis)]; }
  std::int64_t count() const;  // of what is normalised together
  std::string text() const;
};

// lstm(x, h0, c0, w, r, w_bias, r_bias) or gru(x, h0, w, r, w_bias, r_bias); or their gradients, whose first
// operands are those of the results and the first result.
struct RecurrentLayer {
  bool is_lstm = true, is_grad = false;
  DType dtype = DType::f32;
  std::int64_t length = 0, batch = 0, inputs = 0, hidden = 0;

  std::int64_t gates() const { return is_lstm ? 4 : 3; }
  std::size_t states() const { return is_lstm ? 2 : 1; }
  std::size_t first() const { return is_grad ? states() + 2 : 0; }  // which operand x is
  std::string text() const;
};

struct Layer {
  std::variant<PoolingLayer, NormLayer, RecurrentLayer> what;
  std::vector<std::size_t> inputs;  // by operand: which of the region's
  std::vector<Type> operands, results;

  std::string text() const;
  std::string_view name() const;  // "pooling", "batch_norm", "rnn" or "rnn_grad"
};

// Whether the anchor is named like one of these.
bool is_layer(const ir::Node& anchor);
// Empty when the region is such a layer and nothing else, or why not.
std::string read_layer(const lower::Region& region, Layer& out);

}  // namespace systole::patterns
