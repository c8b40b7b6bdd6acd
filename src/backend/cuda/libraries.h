#pragma once

// NVIDIA's libraries, found at run time: where SYSTOLE_CUDA_LIBRARIES says, where the loader looks, in the
// toolkit's usual folder, and in packages that scripts/setup fetched.

#include <string>
#include <vector>

#include "backend/loaded.h"

namespace systole::cuda {

// The first of the names that loads, from anywhere; in package folders under `packages`. Null, and what was
// tried, when there is none. Loaded libraries stay.
void* open_library(const std::vector<std::string>& names, const std::vector<std::string>& packages,
                   std::string& absence);

using runtime::find_function;
using runtime::Loaded;

}  // namespace systole::cuda
