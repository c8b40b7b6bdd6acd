#pragma once

// What users prefer where there are two ways, a library's and generated kernels, say: SYSTOLE_CUDA_PREFER, a
// list such as "cudnn.batch_norm,-cudnn.rnn".

#include <string_view>

namespace systole::cuda {

struct Preferred {
  std::string_view name;      // "cudnn.pooling"
  bool is_taken = false;      // it, and not the other way
  bool is_asked_for = false;  // or against
};

inline constexpr const char* kPrefer = "SYSTOLE_CUDA_PREFER";

bool can_be_preferred(std::string_view name);  // that the list may have

// Of such a name. Throws kInvalidArgument for a list that names something else.
Preferred preferred(std::string_view name);

}  // namespace systole::cuda
