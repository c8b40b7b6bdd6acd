#include "backend/cuda/cupti_api.h"

#include <dlfcn.h>

#include "backend/cuda/libraries.h"
#include "base/lasting.h"

namespace systole::cuda::cupti {

namespace {

std::string load(Api& api) {
  std::string absence;
  void* const library = open_library({"libcupti.so.13", "libcupti.so.12", "libcupti.so"},
                                     {"nvidia/cu13/lib", "nvidia/cuda_cupti/lib"}, absence);
  if (library == nullptr) return absence;
#define SYSTOLE_CUPTI_FIND(name, parameters)    \
  if (!find_function(library, api.name, #name)) \
    return "libcupti.so has no " #name "; CUDA 12 or newer is needed";
  SYSTOLE_CUPTI_FUNCTIONS(SYSTOLE_CUPTI_FIND)
#undef SYSTOLE_CUPTI_FIND
  return {};
}

}  // namespace

const Api* find_library(std::string& absence) {
  static const auto& only = lasting<Loaded<Api>>(load);
  absence = only.absence;
  return absence.empty() ? &only.api : nullptr;
}

}  // namespace systole::cuda::cupti
