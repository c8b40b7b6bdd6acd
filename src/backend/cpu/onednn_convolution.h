#pragma once

// Convolutions and both gradients by oneDNN in f32, and how it is told where their arrays lie.

#include <array>
#include <cstdint>

#include "backend/cpu/onednn_product.h"
#include "backend/patterns/convolution.h"

namespace systole::cpu {

// Images with their channels last, the kernel as it lies and in whatever order the library likes.
struct ConvolutionArrays {
  dnnl::OwnedDescription x, any_w, w, y;
  std::int64_t strides[2], dilations[2], before[2], after[2];

  ConvolutionArrays(const patterns::Convolution& c, const std::array<std::int64_t, 4>& kernel_strides,
                    const ProductTypes& types);  // of x, w, y
};
dnnl::OwnedPrimitiveDescription forward_convolution(const ConvolutionArrays& arrays,
                                                    const dnnl::DescriptionObject* bias,
                                                    const dnnl::AttributesObject* how);
std::int64_t multiplications(const patterns::Convolution& convolution);

// The region's anchor is a convolution.
Made make_onednn_convolution(const lower::Region& region);

}  // namespace systole::cpu
