#pragma once

// Work on a convolution's result that a library does along with it: a bias of the channels, another array, a
// relu, in any order. Between them numbers may stay wider than the graph rounds them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compile/target.h"

namespace systole::patterns {

struct ConvolutionWork {
  enum class Kind { bias, add, relu };
  struct Step {
    Kind kind = Kind::relu;
    std::size_t input = 0;  // of bias and add: among the region's inputs
    DType dtype = DType::f32;
  };
  std::vector<Step> steps;
  DType output = DType::f32;  // of what leaves

  std::string text() const;  // "bias add relu bf16"
};

std::string_view name(ConvolutionWork::Kind kind);

// The region's anchor is a convolution with its channels last. Empty when what follows is such work, or
// nothing, and its result alone leaves; else why not.
std::string read_work(const lower::Region& region, ConvolutionWork& out);

}  // namespace systole::patterns
