#include "backend/cpu/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "base/env.h"
#include "runtime/timeline.h"
#include "systole/base/error.h"

namespace systole::cpu {

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t kMostKept = 0;  // so that a use after the end shows
#else
constexpr std::int64_t kMostKept = std::int64_t{512} << 20;
#endif

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

// Large arrays begin with a page of 2 MB where the system gives such pages to those who ask: adding vectors
// of 256 MB is a tenth faster at least, a step of ResNet-50 2 %, one of small arrays as fast as without.
// SYSTOLE_HUGE_PAGES may forbid it, once for the process.
bool is_huge(std::int64_t bytes) {
  static const bool is_wanted = env::flag("SYSTOLE_HUGE_PAGES", true);
  return is_wanted && bytes >= kHugePage;
}

std::align_val_t alignment(std::int64_t bytes) {
  return std::align_val_t(is_huge(bytes) ? static_cast<std::size_t>(kHugePage) : kAlignment);
}

void* fresh(std::int64_t bytes) {
  void* const memory = ::operator new(static_cast<std::size_t>(bytes), alignment(bytes), std::nothrow);
  // Only asked: a system without such pages gives small ones.
  if (memory != nullptr && is_huge(bytes))
    ::madvise(memory, static_cast<std::size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
  return memory;
}
void give_back(void* memory, std::int64_t bytes) { ::operator delete(memory, alignment(bytes)); }

class Pool {
 public:
  void* take(std::int64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = free_.find(bytes);
      if (found != free_.end() && !found->second.empty()) {
        void* const memory = found->second.back();
        found->second.pop_back();
        kept_ -= bytes;
        return memory;
      }
    }
    void* memory = fresh(bytes);
    if (memory == nullptr && empty()) memory = fresh(bytes);
    return memory;
  }
  void put(void* memory, std::int64_t bytes) {
    if (bytes <= kMostKept) {
      if (kept() + bytes > kMostKept) empty();
      const std::lock_guard lock(mutex_);
      try {
        free_[bytes].push_back(memory);
        kept_ += bytes;
        return;
      } catch (const std::bad_alloc&) {  // then it is not kept
      }
    }
    give_back(memory, bytes);
  }
  std::int64_t kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

 private:
  bool empty() {  // whether there was something
    std::map<std::int64_t, std::vector<void*>> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(free_);
      kept_ = 0;
    }
    for (const auto& [bytes, blocks] : all)
      for (void* const memory : blocks) give_back(memory, bytes);
    return !all.empty();
  }

  std::mutex mutex_;
  std::map<std::int64_t, std::vector<void*>> free_;  // by size
  std::int64_t kept_ = 0;
};

// Never destroyed: buffers may outlive what is static.
Pool& pool() {
  static Pool* const only = new Pool;
  return *only;
}

timeline::Usage& usage() {
  static timeline::Usage* const only = new timeline::Usage("cpu memory");
  return *only;
}

}  // namespace

void GiveBack::operator()(std::byte* memory) const {
  usage().add(-bytes);
  pool().put(memory, bytes);
}

Memory take(std::int64_t bytes) {
  if (bytes == 0) return {};
  void* const memory = pool().take(bytes);
  if (memory == nullptr)
    throw Error(ErrorKind::kOutOfMemory, "cpu", fmt::format("no memory for {} bytes", bytes));
  usage().add(bytes);
  return Memory(static_cast<std::byte*>(memory), {bytes});
}

std::shared_ptr<std::byte> allocate(std::int64_t bytes) { return take(bytes); }

std::int64_t kept_bytes() { return pool().kept(); }

}  // namespace systole::cpu
