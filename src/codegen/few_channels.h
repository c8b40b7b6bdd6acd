#pragma once

// Convolutions of images, which have few channels, and their gradients by the kernel: libraries for tensor
// cores want channels by eights and pay for it. Ours keep the kernel, or its gradient, in registers.

#include <array>
#include <cstdint>
#include <optional>

#include "codegen/kernel.h"

namespace systole::codegen {

struct FewChannels {
  using Pair = std::array<std::int64_t, 2>;
  bool is_gradient = false;  // by the kernel
  std::int64_t images = 0, channels = 0, filters = 0;
  Pair image{}, window{}, result{};  // sizes of the forward convolution
  Pair strides{1, 1}, dilations{1, 1}, before{};
  std::array<std::int64_t, 4> x{};      // strides of an image, its rows, columns and channels
  std::array<std::int64_t, 4> other{};  // of the kernel's filters, rows, columns and channels, or of images,
                                        // rows, columns and filters of what came back
  DType operands = DType::f32, output = DType::f32;

  std::int64_t depth() const { return window[0] * window[1] * channels; }
};

// Whether kernels are made for such a convolution.
bool suits_few_channels(std::int64_t channels, std::int64_t window, std::int64_t filters,
                        std::int64_t places);
std::optional<FewChannels> few_channels(const lower::Region& region);
// What the kernels want beside operands and results.
std::int64_t few_channels_scratch(const FewChannels& convolution);

std::vector<Kernel> few_channels_kernels(const lower::Step& step, const FewChannels& convolution,
                                         const std::string& name);

}  // namespace systole::codegen
