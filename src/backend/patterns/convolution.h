#pragma once

// A convolution as libraries take it: the forward one, or one of its gradients, which the graph has as
// convolutions too. All three are told by the geometry of the forward one, in two dimensions.

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "compile/target.h"

namespace systole::patterns {

struct Convolution {
  enum class Kind { forward, input_grad, weight_grad };
  using Pair = std::array<std::int64_t, 2>;
  Kind kind = Kind::forward;
  std::int64_t batch = 0, channels = 0, filters = 0;  // channels of x, of y
  std::int64_t groups = 1;
  Pair image{}, window{}, result{};  // of x, w, y
  Pair strides{1, 1}, dilations{1, 1}, before{}, after{};
  DType operands = DType::f32, output = DType::f32;  // i8 and u8 go together: `operands` is x's

  std::string text() const;  // names it, for caches and messages
};

// The node is a convolution. Empty when it is one of these, else why not.
std::string read_convolution(const ir::Graph& graph, const ir::Node& node, Convolution& out);

// Which arrays a library wants with their channels last: all, or all but kernels and their gradients.
enum class ChannelsLast { all, images };

// Whether arrays lie so.
bool is_channels_last(const ir::Node& node, const Convolution& convolution,
                      ChannelsLast which = ChannelsLast::all);

// Every convolution of one dimension as one of images of one row.
ir::Graph with_images(const ir::Graph& graph);

// Every convolution of the graph in that order, with transposes around it where needed.
ir::Graph with_channels_last(const ir::Graph& graph, ChannelsLast which = ChannelsLast::all);

// The gradient of a kernel in the order in which it is wanted, where it was only turned round after.
ir::Graph with_gradients_in_order(const ir::Graph& graph);

// The strides of the kernel, or of its gradient: of filters, channels of a group, and both axes of the
// window.
std::array<std::int64_t, 4> kernel_strides(const ir::Graph& graph, const ir::Node& node,
                                           const Convolution& convolution);

// Kernels for tensor cores want channels by fours or eights, and an image has three. Forward convolutions
// and gradients by kernels, with their channels last, get as many channels as `channels` says, the new ones
// zero; the gradient loses them again.
using Channels = std::function<std::int64_t(const Convolution&)>;
ir::Graph with_more_channels(const ir::Graph& graph, const Channels& channels);

}  // namespace systole::patterns
