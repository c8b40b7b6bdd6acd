#pragma once

#include <string>
#include <vector>

#include "code.h"

namespace systole::emulated {

// The file with what NVIDIA's compiler notes of its kernels, as src/backend/cuda/cubin.cpp reads it: which
// symbols are kernels, their parameters' sizes, the most threads of a group.
std::string with_notes(std::string file, const std::vector<Code::Description>& kernels);

}  // namespace systole::emulated
