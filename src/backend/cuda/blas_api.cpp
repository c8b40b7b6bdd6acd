#include "backend/cuda/blas_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>
#include <type_traits>
#include <vector>

#include "backend/cuda/libraries.h"
#include "base/lasting.h"
#include "systole/base/error.h"

namespace systole::cuda::lt {

namespace {

std::string load(Api& api) {
  std::string absence;
  void* const library = open_library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                                     {"nvidia/cu13/lib", "nvidia/cublas/lib"}, absence);
  if (library == nullptr) return absence;
  const auto find = [&](auto& function, const char* name) { return find_function(library, function, name); };
  const bool complete =
      find(api.create, "cublasLtCreate") && find(api.version, "cublasLtGetVersion") &&
      find(api.words, "cublasLtGetStatusString") && find(api.new_description, "cublasLtMatmulDescCreate") &&
      find(api.set_description, "cublasLtMatmulDescSetAttribute") &&
      find(api.free_description, "cublasLtMatmulDescDestroy") &&
      find(api.new_layout, "cublasLtMatrixLayoutCreate") &&
      find(api.set_layout, "cublasLtMatrixLayoutSetAttribute") &&
      find(api.free_layout, "cublasLtMatrixLayoutDestroy") &&
      find(api.new_preference, "cublasLtMatmulPreferenceCreate") &&
      find(api.set_preference, "cublasLtMatmulPreferenceSetAttribute") &&
      find(api.free_preference, "cublasLtMatmulPreferenceDestroy") &&
      find(api.heuristic, "cublasLtMatmulAlgoGetHeuristic") && find(api.multiply, "cublasLtMatmul");
  return complete ? "" : "libcublasLt.so is not one that is known: CUDA 12 or newer is needed";
}

const Api* replacement = nullptr;

const Loaded<Api>& found() {
  static const auto& only = lasting<Loaded<Api>>(load);
  return only;
}

}  // namespace

std::string absence() { return replacement != nullptr ? "" : found().absence; }

const Api& api() { return replacement != nullptr ? *replacement : found().api; }

void set_api(const Api* api) { replacement = api; }

void check(int status, const char* call) {
  if (status == 0) return;
  throw Error(status == 3 ? ErrorKind::kOutOfMemory : ErrorKind::kInternal, "cublasLt",
              fmt::format("{}: {}", call, api().words(status)));
}

Handle handle(const Device& device) {
  static std::mutex mutex;
  static auto& handles = lasting<std::vector<Handle>>();  // by ordinal
  const std::lock_guard lock(mutex);
  const auto i = static_cast<std::size_t>(device.ordinal());
  if (handles.size() <= i) handles.resize(i + 1, nullptr);
  if (handles[i] == nullptr) check(api().create(&handles[i]), "cublasLtCreate");
  return handles[i];
}

int type_number(DType dtype) {
  switch (dtype) {
    case DType::f32: return kTypeF32;
    case DType::f64: return kTypeF64;
    case DType::f16: return kTypeF16;
    case DType::bf16: return kTypeBf16;
    default: return -1;
  }
}

}  // namespace systole::cuda::lt
