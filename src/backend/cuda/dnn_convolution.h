#pragma once

// A convolution, or a gradient of one, with work on its result, as operations of cuDNN.

#include <span>
#include <string>
#include <vector>

#include "backend/cuda/dnn_plan.h"
#include "backend/patterns/convolution.h"
#include "backend/patterns/convolution_work.h"

namespace systole::cuda {

struct DnnConvolution {
  patterns::Convolution convolution;
  patterns::ConvolutionWork work;
  std::size_t first = 0, second = 1;  // the convolution's operands among the region's inputs
  bool is_true_f32 = true;            // no tensor cores for f32
  bool is_deterministic = false;

  std::string text() const;  // names it, wherever its operands stand
};

// The region's anchor is a convolution. Empty when cuDNN may have it, else why not.
std::string read_dnn_convolution(const lower::Region& region, DnnConvolution& out);

// Throws kUnsupported with cuDNN's words when there is none.
dnn::Engines engines_of(dnn::Handle handle, const DnnConvolution& problem);

// The arrays' bytes, in the order of `execute`: operands, result, then what the work reads.
std::vector<std::int64_t> array_bytes(const DnnConvolution& problem);
std::vector<std::int64_t> array_alignments(const DnnConvolution& problem);  // as declared, in bytes
void execute(dnn::Shared& shared, Stream stream, const DnnConvolution& problem, const dnn::Plan& plan,
             std::span<const Address> arrays, Address workspace);

}  // namespace systole::cuda
