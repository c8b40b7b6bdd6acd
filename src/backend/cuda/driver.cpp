#include "backend/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "base/lasting.h"
#include "systole/base/error.h"

namespace systole::cuda {

namespace {

constexpr int kLeastVersion = 12000;  // of the driver's API: CUDA 12

struct Found {
  Driver driver;
  std::string reason;
};

std::string load(Driver& driver) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "no NVIDIA driver on this machine (libcuda.so.1 is not found)";
#define SYSTOLE_CUDA_FIND(name, symbol, parameters)                                 \
  driver.name = reinterpret_cast<decltype(driver.name)>(::dlsym(library, #symbol)); \
  if (driver.name == nullptr)                                                       \
    return "the NVIDIA driver is too old: it has no " #symbol                       \
           "; CUDA 12 is "                                                          \
           "needed";
  SYSTOLE_CUDA_FUNCTIONS(SYSTOLE_CUDA_FIND)
#undef SYSTOLE_CUDA_FIND
  return start_driver(driver);
}

const Found& found() {
  static const Found& only = lasting<Found>([] {
    Found made;
    made.reason = load(made.driver);
    return made;
  }());
  return only;
}

std::atomic<const Driver*> replaced{nullptr};
thread_local Health* current_health = nullptr;

bool loses_context(Status status) {
  switch (status) {
    case kErrorIllegalAddress:
    case 702:  // LAUNCH_TIMEOUT
    case 709:  // CONTEXT_IS_DESTROYED
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
    case 214:  // ECC_UNCORRECTABLE
    case 220:  // NVLINK_UNCORRECTABLE
    case 4:    // DEINITIALIZED
    case 46:   // DEVICE_UNAVAILABLE
      return true;
    default: return false;
  }
}

std::string in_words(Status status, std::string_view call) {
  const char* words = nullptr;
  if (driver().cuGetErrorString(status, &words) != kSuccess || words == nullptr) words = "no reason";
  return fmt::format("{}: {} ({})", call, status_name(status), words);
}

}  // namespace

std::string start_driver(const Driver& driver) {
  int version = 0;
  if (driver.cuDriverGetVersion(&version) != kSuccess || version < kLeastVersion)
    return fmt::format("the NVIDIA driver is too old: it knows CUDA {}.{}, 12.0 is needed", version / 1000,
                       version % 1000 / 10);
  const Status status = driver.cuInit(0);
  if (status == kSuccess) return {};
  if (status == kErrorNoDevice) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible == nullptr ? "no NVIDIA GPU on this machine"
                              : fmt::format("no NVIDIA GPU: CUDA_VISIBLE_DEVICES is \"{}\"", visible);
  }
  const char* words = nullptr;
  driver.cuGetErrorString(status, &words);
  return fmt::format("the NVIDIA driver does not start: {} ({})", words != nullptr ? words : "no reason",
                     status);
}

const Driver* find_driver(std::string& reason) {
  if (const Driver* const other = replaced.load(); other != nullptr) return other;
  reason = found().reason;
  return reason.empty() ? &found().driver : nullptr;
}

const Driver& driver() {
  std::string reason;
  const Driver* const here = find_driver(reason);
  if (here == nullptr) throw Error(ErrorKind::kUnsupported, "cuda", reason);
  return *here;
}

void set_driver(const Driver* driver) { replaced.store(driver); }

std::string status_name(Status status) {
  const char* name = nullptr;
  if (driver().cuGetErrorName(status, &name) == kSuccess && name != nullptr) return name;
  return fmt::format("status {}", status);
}

void Health::lose(std::string why) {
  const std::lock_guard lock(mutex_);
  if (lost_.load(std::memory_order_relaxed)) return;
  why_ = std::move(why);
  lost_.store(true, std::memory_order_release);
}

std::string Health::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

void set_current_health(Health* health) { current_health = health; }

void check(Status status, std::string_view call) {
  if (status == kSuccess) return;
  const ErrorKind kind = status == kErrorOutOfMemory ? ErrorKind::kOutOfMemory
                         : loses_context(status)     ? ErrorKind::kContextLost
                                                     : ErrorKind::kInternal;
  std::string message = in_words(status, call);
  if (kind == ErrorKind::kContextLost && current_health != nullptr) current_health->lose(message);
  throw Error(kind, "cuda", std::move(message));
}

bool succeeded(Status status, std::string_view call) noexcept {
  if (loses_context(status) && current_health != nullptr) current_health->lose(in_words(status, call));
  return status == kSuccess;
}

}  // namespace systole::cuda
