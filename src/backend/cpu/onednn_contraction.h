#pragma once

// A product or a convolution of bytes, as one thing that oneDNN is told: the left operand as it lies, the
// right one in whatever order the library likes, and post-ops on what comes out.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backend/cpu/onednn_plan.h"
#include "backend/cpu/onednn_scaling.h"
#include "backend/patterns/convolution.h"
#include "backend/patterns/product.h"

namespace systole::cpu {

struct Contraction {
  std::int64_t multiplications = 0, depth = 0, columns = 0, count = 0;  // columns and count of the result
  dnnl::OwnedDescription a, b;                                          // b as it lies
  Place a_place, b_place;
  std::vector<std::int64_t> row;  // the axes of a row of columns
  std::function<dnnl::OwnedDescription(int type)> result;
  std::function<dnnl::OwnedPrimitiveDescription(const dnnl::DescriptionObject* c,
                                                const dnnl::AttributesObject*)>
      primitive;
};

using KernelStrides = std::array<std::int64_t, 4>;

Contraction contraction_of(const patterns::Product& product, DType first);
Contraction contraction_of(const patterns::Convolution& convolution, const KernelStrides& strides,
                           std::size_t first, std::size_t second);  // operands among the inputs

// Into the first output.
std::shared_ptr<const Plan> plan_of(const Contraction& contraction, const Scaling& scaling);

}  // namespace systole::cpu
