#include "runtime/nvtx.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>

#include "base/log.h"

namespace systole::nvtx {

std::atomic<State> state{State::unknown};

namespace {

using AnyFunction = void (*)();

// Numbers and structs of nvtxTypes.h.
constexpr std::uint32_t kCallbacks = 1, kVersionInfo = 3;      // NVTX_ETID_…
constexpr int kCore = 1;                                       // NVTX_CB_MODULE_CORE
constexpr std::size_t kPushA = 9, kPop = 11, kFunctions = 16;  // NVTX_CBID_CORE_…
constexpr std::uint32_t kVersion = 3;

std::array<AnyFunction, kFunctions> functions{};  // the tool's, null where it has none

struct Callbacks {
  std::size_t bytes = sizeof(Callbacks);
  int (*table)(int, AnyFunction***, unsigned*) = [](int module, AnyFunction*** slots, unsigned* count) {
    static std::array<AnyFunction*, kFunctions + 1> all = [] {
      std::array<AnyFunction*, kFunctions + 1> made{};  // one more, null, ends it
      for (std::size_t i = 1; i < kFunctions; ++i) made[i] = &functions[i];
      return made;
    }();
    if (module != kCore) return 0;
    *slots = all.data();
    if (count != nullptr) *count = kFunctions;
    return 1;
  };
};

struct VersionInfo {
  std::size_t bytes = sizeof(VersionInfo);
  std::uint32_t version = kVersion, reserved = 0;
  void (*set_tool_version)(std::uint32_t) = [](std::uint32_t) {};
};

const void* export_table(std::uint32_t id) {
  static const Callbacks callbacks;
  static const VersionInfo version;
  return id == kCallbacks ? static_cast<const void*>(&callbacks) : id == kVersionInfo ? &version : nullptr;
}

// Whether a tool was found and wants ranges.
bool attach() {
  const char* const path = std::getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return false;
  void* const library = ::dlopen(path, RTLD_LAZY);
  const char* const trouble = library == nullptr ? ::dlerror() : nullptr;
  using Initialize = int (*)(const void* (*)(std::uint32_t));
  const auto initialize = library == nullptr
                              ? nullptr
                              : reinterpret_cast<Initialize>(::dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize == nullptr || initialize(export_table) == 0) {
    log(LogLevel::warn, fmt::format("NVTX_INJECTION64_PATH={}: no ranges: {}", path,
                                    trouble != nullptr      ? trouble
                                    : initialize == nullptr ? "it has no InitializeInjectionNvtx2"
                                                            : "it does not want them"));
    return false;
  }
  return functions[kPushA] != nullptr && functions[kPop] != nullptr;
}

}  // namespace

bool start() {
  static std::once_flag once;
  std::call_once(once, [] { state.store(attach() ? State::on : State::off, std::memory_order_release); });
  return state.load(std::memory_order_acquire) == State::on;
}

void push(std::string_view name) {
  reinterpret_cast<int (*)(const char*)>(functions[kPushA])(std::string(name).c_str());
}

void pop() { reinterpret_cast<int (*)()>(functions[kPop])(); }

}  // namespace systole::nvtx
