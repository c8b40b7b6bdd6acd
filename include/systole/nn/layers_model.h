#pragma once

// A model written as a list of layers, one per line of text:
//
//   nn::AnyModule model = nn::layers_model(
//       {"conv 32 3x3 relu", "maxpool 2", "dropout 0.25", "flatten", "dense 128 relu", "dense 10"},
//       {28, 28, 1});
//
// The shape is that of one example, without the batch; each layer takes what the one before it gives. Words
// are in any case. In brackets: what may be left out; at the end of a line with weights: an activation.
//
//   conv N K|KxK [stride S] [pad same|valid|P] [dilation D] [groups G] [nobias] [ACTIVATION]
//                                       images [h, w, c]; K alone on sequences [length, c]; pad valid
//   depthwise K|KxK [multiplier M] [stride S] [pad …] [nobias] [ACTIVATION]     each channel by itself
//   convtranspose N K|KxK [stride S] [pad P] [outpad P] [dilation D] [groups G] [nobias] [ACTIVATION]
//   maxpool K|KxK [stride S] [pad …]    avgpool likewise; the stride is the window unless given
//   globalpool                          the mean of each channel
//   flatten   reshape A B C             one of the numbers may be -1
//   dense N [nobias] [ACTIVATION]       on the last axis
//   batchnorm [ACTIVATION]              layernorm, rmsnorm, groupnorm G likewise
//   dropout P                           the probability
//   embedding V D                       integers below V to vectors of D
//   lstm|gru|rnn H [layers L] [bidirectional] [dropout P] [last|sequence]
//                                       on [length, n]; the output after the last step unless "sequence"
//   ACTIVATION                          alone: relu, gelu, silu, tanh, sigmoid, softmax, leakyrelu, …
//
// Parameters are named by the number of the line: "0.weight". A mistake is kInvalidArgument or kShape with
// the layer's number and text, the shape that came in, and the nearest word.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "systole/base/export.h"
#include "systole/nn/any_module.h"
#include "systole/tensor/tensor.h"

namespace systole::nn {

// Modules one after the other, named by their numbers: Sequential for lists made while a program runs.
class SYSTOLE_API Chain {
 public:
  Chain() = default;
  explicit Chain(std::vector<AnyModule> modules) : modules_(std::move(modules)) {}
  void add(AnyModule module) { modules_.push_back(std::move(module)); }
  Tensor forward(const Tensor& x) const;
  Tensor operator()(const Tensor& x) const { return forward(x); }
  std::size_t size() const { return modules_.size(); }
  AnyModule& operator[](std::size_t i) { return modules_[i]; }
  const AnyModule& operator[](std::size_t i) const { return modules_[i]; }

  template <class V>
  static void visit(Chain& self, V&& v) {
    for (std::size_t i = 0; i < self.modules_.size(); ++i) v(std::to_string(i), self.modules_[i]);
  }

 private:
  std::vector<AnyModule> modules_;
};

SYSTOLE_API AnyModule layers_model(std::span<const std::string> lines, const Shape& input);
SYSTOLE_API AnyModule layers_model(std::initializer_list<std::string_view> lines, const Shape& input);

// The shape of one example of the output.
SYSTOLE_API Shape layers_output(std::span<const std::string> lines, const Shape& input);

}  // namespace systole::nn
