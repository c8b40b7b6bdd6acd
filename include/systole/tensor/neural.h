#pragma once

// Functions of neural networks. Images are channels-last: [batch, height, width, channels], sequences for
// conv1d [batch, width, channels]. Convolution weights have PyTorch's layout: [out, in / groups, height,
// width], and [in, out / groups, height, width] for the transposed ones.

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "systole/base/export.h"
#include "systole/base/small_vector.h"
#include "systole/tensor/tensor.h"

namespace systole {

// A number per spatial axis: one for all of them (3), or one each ({3, 5}).
class PerAxis {
 public:
  PerAxis() = default;  // left out
  template <std::integral T>
  PerAxis(T all) : values_{static_cast<std::int64_t>(all)} {}
  PerAxis(std::initializer_list<std::int64_t> values) : values_(values) {}
  PerAxis(Ints values) : values_(std::move(values)) {}
  bool empty() const { return values_.empty(); }
  const Ints& values() const { return values_; }
  bool operator==(const PerAxis&) const = default;

 private:
  Ints values_;
};

// What stands around an image before a window moves over it: numbers of zeros on both sides, "valid" for
// none, or "same", so that the result has size / stride elements, rounded up.
class SYSTOLE_API Padding {
 public:
  template <std::integral T>
  Padding(T all) : low_(all), high_(all) {}
  Padding(std::initializer_list<std::int64_t> values) : low_(values), high_(values) {}
  Padding(PerAxis low, PerAxis high) : low_(std::move(low)), high_(std::move(high)) {}
  Padding(const char* name) : Padding(std::string_view(name)) {}
  Padding(std::string_view name);  // throws kInvalidArgument for another word

  bool is_same() const { return same_; }
  const PerAxis& low() const { return low_; }
  const PerAxis& high() const { return high_; }

 private:
  bool same_ = false;
  PerAxis low_ = 0, high_ = 0;
};

// x·weightᵀ + bias over the last axis of x; weight [out, in]. An undefined bias is none.
SYSTOLE_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// Convolution. A bias has one number per output channel; an undefined Tensor is none.
struct ConvOptions {
  PerAxis stride = 1;
  Padding padding = 0;
  PerAxis dilation = 1;
  std::int64_t groups = 1;
};
SYSTOLE_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                          const ConvOptions& options = {});
SYSTOLE_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                          const ConvOptions& options = {});
// Every channel by itself: as many groups as x has channels; weight [channels · multiplier, 1, h, w].
SYSTOLE_API Tensor depthwise_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                    ConvOptions options = {});

// The gradient of a convolution by its input, as a layer: x grows by the stride. `output_padding` picks one
// of the sizes that a strided convolution would map to x's.
struct ConvTransposeOptions {
  PerAxis stride = 1, padding = 0, output_padding = 0, dilation = 1;
  std::int64_t groups = 1;
};
SYSTOLE_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                    const ConvTransposeOptions& options = {});
SYSTOLE_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                                    const ConvTransposeOptions& options = {});

// Pooling. A stride left out is the window's size; padding never wins a maximum.
struct PoolOptions {
  PerAxis stride = {};
  Padding padding = 0;
  bool count_padding = true;  // whether the zeros around the image count in a mean
};
SYSTOLE_API Tensor max_pool1d(const Tensor& x, PerAxis window, const PoolOptions& options = {});
SYSTOLE_API Tensor max_pool2d(const Tensor& x, PerAxis window, const PoolOptions& options = {});
SYSTOLE_API Tensor avg_pool1d(const Tensor& x, PerAxis window, const PoolOptions& options = {});
SYSTOLE_API Tensor avg_pool2d(const Tensor& x, PerAxis window, const PoolOptions& options = {});
SYSTOLE_API Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size);  // means of `size` equal shares
SYSTOLE_API Tensor adaptive_avg_pool2d(const Tensor& x, PerAxis size);
SYSTOLE_API Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t size);
SYSTOLE_API Tensor adaptive_max_pool2d(const Tensor& x, PerAxis size);
SYSTOLE_API Tensor global_avg_pool(const Tensor& x);  // [batch, …, channels] to [batch, channels]
SYSTOLE_API Tensor global_max_pool(const Tensor& x);

// Activations; the slope at a kink is PyTorch's, 0 for relu at 0.
enum class GeluForm { exact, tanh };
SYSTOLE_API Tensor relu(const Tensor& x);
SYSTOLE_API Tensor relu6(const Tensor& x);  // at most 6
SYSTOLE_API Tensor leaky_relu(const Tensor& x, double slope = 0.01);
SYSTOLE_API Tensor elu(const Tensor& x, double alpha = 1);  // alpha · (eˣ - 1) below 0
SYSTOLE_API Tensor selu(const Tensor& x);
SYSTOLE_API Tensor sigmoid(const Tensor& x);
SYSTOLE_API Tensor log_sigmoid(const Tensor& x);
SYSTOLE_API Tensor softplus(const Tensor& x);  // log(1 + eˣ), without overflow
SYSTOLE_API Tensor gelu(const Tensor& x, GeluForm form = GeluForm::exact);
SYSTOLE_API Tensor silu(const Tensor& x);         // x · sigmoid(x)
SYSTOLE_API Tensor mish(const Tensor& x);         // x · tanh(softplus(x))
SYSTOLE_API Tensor hardsigmoid(const Tensor& x);  // x/6 + 1/2, cut to [0, 1]
SYSTOLE_API Tensor hardswish(const Tensor& x);    // x · hardsigmoid(x)
SYSTOLE_API Tensor softsign(const Tensor& x);     // x / (1 + |x|)

// Distributions over an axis.
SYSTOLE_API Tensor softmax(const Tensor& x, std::int64_t axis = -1);
SYSTOLE_API Tensor log_softmax(const Tensor& x, std::int64_t axis = -1);

// Normalisation. layer_norm and rms_norm work over the last axes, as many as `weight` has.
SYSTOLE_API Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);
SYSTOLE_API Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-6);
// The channels in `groups` groups, each with the mean and variance of its image.
SYSTOLE_API Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                              double eps = 1e-5);
// Over every axis but the last, with given statistics or with those of x; the variance is the biased one.
struct BatchStatistics {
  Tensor y, mean, variance;
};
SYSTOLE_API Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                              const Tensor& variance, double eps = 1e-5);
SYSTOLE_API BatchStatistics batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                             double eps = 1e-5);

// softmax(scale · q·kᵀ)·v on [batch, heads, length, depth]; scale 0 means 1/√depth. The causal mask lets
// query i see keys up to i + (keys - queries); `mask` broadcasts to [batch, heads, queries, keys]: a bool one
// says what is seen, a float one is added to the scores. With a dropout, the weights of the keys are dropped
// by `key`, which must be given.
struct AttentionOptions {
  bool causal = false;
  double scale = 0;
  Tensor mask = {};
  double dropout = 0;
  Tensor key = {};
};
SYSTOLE_API Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                             const AttentionOptions& options = {});

SYSTOLE_API Tensor embedding(const Tensor& table, const Tensor& indices);  // rows of table [count, width]

// One recurrent layer over x [length, batch, inputs]. PyTorch's weights: w [gates · hidden, inputs], r [gates
// · hidden, hidden], biases [gates · hidden]; gates i f g o of an LSTM, r z n of a GRU. States are [batch,
// hidden].
struct LstmOutput {
  Tensor y, h, c;
};
SYSTOLE_API LstmOutput lstm(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& w,
                            const Tensor& r, const Tensor& w_bias, const Tensor& r_bias);
struct GruOutput {
  Tensor y, h;
};
SYSTOLE_API GruOutput gru(const Tensor& x, const Tensor& h, const Tensor& w, const Tensor& r,
                          const Tensor& w_bias, const Tensor& r_bias);
// h = f(w·x + r·h + biases); f is tanh, or relu.
enum class RnnForm { tanh, relu };
struct RnnOutput {
  Tensor y, h;
};
SYSTOLE_API RnnOutput rnn(const Tensor& x, const Tensor& h, const Tensor& w, const Tensor& r,
                          const Tensor& w_bias, const Tensor& r_bias, RnnForm form = RnnForm::tanh);

// Zero with probability p, else x / (1 - p). The same key drops the same elements.
SYSTOLE_API Tensor dropout(const Tensor& x, double p, const Tensor& key);

}  // namespace systole
