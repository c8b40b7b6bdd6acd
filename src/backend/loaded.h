#pragma once

// Libraries that are found at run time.

#include <dlfcn.h>

#include <string>

namespace systole::runtime {

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

}  // namespace systole::runtime
