#pragma once

// The C of attention's kernels. attention.cpp puts sizes and places before it and fills in what depends on
// the dtype: the words that begin with $.

#include <string_view>

namespace systole::cpu {

extern const std::string_view kAttentionShared;  // functions that all call, guarded against standing twice
extern const std::string_view kAttentionShort;   // those for a dtype {0} of 16 bits
extern const std::string_view kAttentionForward, kAttentionGradient, kAttentionSum;

}  // namespace systole::cpu
