#include "backend/cpu/onednn_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "backend/loaded.h"
#include "backend/packages.h"
#include "base/env.h"
#include "base/lasting.h"
#include "base/parallel.h"
#include "systole/base/error.h"

namespace systole::cpu::dnnl {

namespace {

constexpr const char *kFile = "libdnnl.so.3", *kVariable = "SYSTOLE_ONEDNN", *kOff = "0";

// Finds the functions; empty, or why this library is of no use.
std::string bind(void* library, Api& api) {
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
  if (missing != nullptr) return fmt::format("it has no {}: version 3 is needed", missing);
  // Builds for other runtimes need devices or a pool of threads that nobody hands them.
  const unsigned runtime = api.version()->cpu_runtime;
  if (runtime != kSequential && runtime != kOpenMp && runtime != kTbb)
    return "it is built for another runtime than OpenMP";
  return {};
}

// What is used, or a reason for each place where there is something that cannot be used.
struct Library {
  Api api{};
  std::string absence, file;

  Library();

 private:
  enum class Versions { any, tested };
  bool open(const std::string& path, std::string& reasons, Versions versions = Versions::any);
};

// A system's own library may be of any age, and some versions have wrong numbers: 3.6.2 for products of one
// row and for convolutions. Whoever names one wants it.
std::string untested(const VersionObject& version) {
  constexpr int kMajor = 3, kMinor = 2;
  if (version.major == kMajor && version.minor == kMinor) return {};
  return fmt::format("version {}.{}.{} is not the tested {}.{}; {} set to its path takes it all the same",
                     version.major, version.minor, version.patch, kMajor, kMinor, kVariable);
}

bool Library::open(const std::string& path, std::string& reasons, Versions versions) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const words = library == nullptr ? ::dlerror() : nullptr;
  std::string trouble =
      library == nullptr ? std::string(words != nullptr ? words : "it cannot be loaded") : bind(library, api);
  if (trouble.empty() && versions == Versions::tested) trouble = untested(*api.version());
  if (trouble.empty()) {
    Dl_info info{};
    const void* const address = reinterpret_cast<const void*>(api.version);
    file = ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : path;
    return true;
  }
  // The loader's words begin with the path.
  reasons += (reasons.empty() ? "" : "; ") + (trouble.starts_with(path) ? trouble : path + ": " + trouble);
  if (library != nullptr) ::dlclose(library);
  return false;
}

Library::Library() {
  const std::string chosen = env::text(kVariable).value_or("");
  if (chosen == kOff) {
    absence = fmt::format("{}={}", kVariable, kOff);
    return;
  }
  std::string reasons;
  if (!chosen.empty() && !open(chosen, reasons))
    throw Error(ErrorKind::kInvalidArgument, kVariable, "names no oneDNN that can be used: " + reasons,
                fmt::format("the path of a {}, or {} for none", kFile, kOff), chosen);
  if (!lend_pool(1)) {
    absence = "this build has no OpenMP, whose threads oneDNN shares";
    return;
  }
  if (!chosen.empty()) return;
  for (const std::filesystem::path& folder : runtime::package_folders())
    if (std::error_code code; std::filesystem::exists(folder / "lib" / kFile, code))
      if (open((folder / "lib" / kFile).string(), reasons)) return;
  if (!open(kFile, reasons, Versions::tested))
    absence = fmt::format("oneDNN is not found ({})", reasons);  // the loader's places
}

const Library& found() {
  static const Library& only = lasting<Library>();
  return only;
}

}  // namespace

const std::string& absence() { return found().absence; }

const std::string& file() { return found().file; }

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
