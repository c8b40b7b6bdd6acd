#pragma once

// NVIDIA's libraries, found at run time: where SYSTOLE_CUDA_LIBRARIES says, where the loader looks, in the
// toolkit's usual folder, and in packages that scripts/setup fetched.

#include <dlfcn.h>

#include <string>
#include <vector>

namespace systole::cuda {

// The first of the names that loads, from anywhere; in package folders under `packages`. Null, and what was
// tried, when there is none. Loaded libraries stay.
void* open_library(const std::vector<std::string>& names, const std::vector<std::string>& packages,
                   std::string& absence);

// Whether the library has the function.
template <class Function>
bool find_function(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// A library's functions, or why there are none, by a function that looks for them and returns the latter.
template <class Api>
struct Loaded {
  explicit Loaded(std::string (*load)(Api&)) : absence(load(api)) {}
  Api api;
  std::string absence;
};

}  // namespace systole::cuda
