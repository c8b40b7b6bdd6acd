#pragma once

// Matrix products by cuBLASLt, with work on their results (on_result.h). Of the algorithms that the library
// proposes the fastest is taken.

#include <cstdint>
#include <memory>
#include <string>

#include "backend/cuda/device.h"
#include "backend/cuda/library_call.h"
#include "compile/target.h"
#include "systole/runtime.h"

namespace systole::cuda {

std::string blas_absence();  // empty when there is a cuBLASLt

struct BlasWishes {
  runtime::Math math = runtime::Math::f32;
  bool is_deterministic = false;  // nothing is chosen by its time
};

// What cuBLASLt offers for a region whose anchor is a product; it has chosen its algorithm then.
lower::Claim blas_offer(const Device& device, const lower::Region& region, const BlasWishes& wishes);
std::shared_ptr<const LibraryCall> blas_call(const Device& device, const lower::Region& region,
                                             const BlasWishes& wishes);

// The graph with products and the work on them as composites, where one call is faster than two.
ir::Graph with_blas_epilogues(const Device& device, const ir::Graph& graph, const BlasWishes& wishes);

}  // namespace systole::cuda
