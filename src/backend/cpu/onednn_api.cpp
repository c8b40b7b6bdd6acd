#include "backend/cpu/onednn_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "backend/loaded.h"
#include "backend/packages.h"
#include "base/env.h"
#include "base/lasting.h"
#include "base/log.h"
#include "base/parallel.h"
#include "systole/base/error.h"

namespace systole::cpu::dnnl {

namespace {

constexpr const char *kFile = "libdnnl.so.3", *kVariable = "SYSTOLE_ONEDNN", *kOff = "0";

std::string load(Api& api) {
  if (!lend_pool(1)) return "this build has no OpenMP, whose threads oneDNN shares";
  const std::string chosen = env::text(kVariable).value_or("");
  if (chosen == kOff) return fmt::format("{}={}", kVariable, kOff);
  std::vector<std::string> files;
  if (!chosen.empty()) {
    files.push_back(chosen);
  } else {
    for (const std::filesystem::path& folder : runtime::package_folders())
      if (std::error_code code; std::filesystem::exists(folder / "lib" / kFile, code))
        files.push_back((folder / "lib" / kFile).string());
    files.emplace_back(kFile);  // the loader's places
  }
  std::string words;
  void* library = nullptr;
  for (std::size_t i = 0; i < files.size() && library == nullptr; ++i) {
    library = ::dlopen(files[i].c_str(), RTLD_NOW | RTLD_LOCAL);
    if (const char* const error = ::dlerror(); library == nullptr && error != nullptr) words = error;
  }
  if (library == nullptr) {
    if (chosen.empty()) return fmt::format("oneDNN is not found ({}); {} may name it", words, kVariable);
    std::string reason = fmt::format("{} names no library that loads: {}", kVariable, words);
    log(LogLevel::warn, reason + "; kernels are generated instead");
    return reason;
  }
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    if (!runtime::find_function(library, function, name)) missing = name;
  };
#define SYSTOLE_FIND(name) find(api.name, "dnnl_" #name)
  SYSTOLE_FIND(version);
  SYSTOLE_FIND(get_effective_cpu_isa);
  SYSTOLE_FIND(engine_create);
  SYSTOLE_FIND(stream_create);
  SYSTOLE_FIND(stream_destroy);
  SYSTOLE_FIND(memory_desc_create_with_strides);
  SYSTOLE_FIND(memory_desc_create_with_tag);
  SYSTOLE_FIND(memory_desc_clone);
  SYSTOLE_FIND(memory_desc_destroy);
  SYSTOLE_FIND(memory_desc_get_size);
  SYSTOLE_FIND(memory_desc_equal);
  SYSTOLE_FIND(memory_create);
  SYSTOLE_FIND(memory_set_data_handle);
  SYSTOLE_FIND(memory_destroy);
  SYSTOLE_FIND(primitive_attr_create);
  SYSTOLE_FIND(primitive_attr_destroy);
  SYSTOLE_FIND(primitive_attr_set_scratchpad_mode);
  SYSTOLE_FIND(primitive_attr_set_post_ops);
  SYSTOLE_FIND(post_ops_create);
  SYSTOLE_FIND(post_ops_destroy);
  SYSTOLE_FIND(post_ops_append_binary);
  SYSTOLE_FIND(post_ops_append_eltwise);
  SYSTOLE_FIND(primitive_desc_query_md);
  SYSTOLE_FIND(primitive_desc_query);
  SYSTOLE_FIND(primitive_desc_destroy);
  SYSTOLE_FIND(primitive_create);
  SYSTOLE_FIND(primitive_execute);
  SYSTOLE_FIND(primitive_destroy);
  SYSTOLE_FIND(reorder_primitive_desc_create);
  SYSTOLE_FIND(sum_primitive_desc_create);
  SYSTOLE_FIND(matmul_primitive_desc_create);
  SYSTOLE_FIND(convolution_forward_primitive_desc_create);
  SYSTOLE_FIND(convolution_backward_data_primitive_desc_create);
  SYSTOLE_FIND(convolution_backward_weights_primitive_desc_create);
  SYSTOLE_FIND(pooling_forward_primitive_desc_create);
#undef SYSTOLE_FIND
  if (missing != nullptr) return fmt::format("{} has no {}: version 3 is needed", kFile, missing);
  return {};
}

const runtime::Loaded<Api>& found() {
  static const auto& only = lasting<runtime::Loaded<Api>>(load);
  return only;
}

}  // namespace

const std::string& absence() { return found().absence; }

bool is_off() { return env::text(kVariable) == kOff; }

const Api& api() { return found().api; }

Engine engine() {
  static const Engine only = [] {
    Engine made = nullptr;
    check(api().engine_create(&made, kCpu, 0), "dnnl_engine_create");
    return made;
  }();
  return only;
}

void check(int status, const char* call) {
  if (status == 0) return;
  const ErrorKind kind = status == kOutOfMemory     ? ErrorKind::kOutOfMemory
                         : status == kUnimplemented ? ErrorKind::kUnsupported
                                                    : ErrorKind::kInternal;
  throw Error(kind, "oneDNN", fmt::format("{} failed with status {}", call, status));
}

OwnedDescription described(const std::vector<std::int64_t>& dims, int type,
                           const std::vector<std::int64_t>& strides) {
  Description made = nullptr;
  const int axes = static_cast<int>(dims.size());
  if (strides.empty())
    check(api().memory_desc_create_with_tag(&made, axes, dims.data(), type, kAnyOrder),
          "dnnl_memory_desc_create_with_tag");
  else
    check(api().memory_desc_create_with_strides(&made, axes, dims.data(), type, strides.data()),
          "dnnl_memory_desc_create_with_strides");
  return OwnedDescription(made);
}

}  // namespace systole::cpu::dnnl
