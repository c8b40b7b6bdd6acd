#pragma once

// Transfers between host and GPU on one stream, through pinned memory in parts: the GPU copies one while the
// host fills or empties another. The memory is pinned when first needed. A transfer that fails is waited for,
// so that the next finds all parts free.

#include <array>
#include <cstddef>

#include "backend/cuda/driver.h"

namespace systole::cuda {

// Its context must be the thread's current one in every call, and when it is destroyed.
class PinnedRing {
 public:
  PinnedRing(const Health& health, Stream stream) : health_(health), stream_(stream) {}
  ~PinnedRing();
  PinnedRing(const PinnedRing&) = delete;
  PinnedRing& operator=(const PinnedRing&) = delete;

  void upload(const std::byte* from, Address to, std::size_t bytes);  // until the host's memory may change
  void download(Address from, std::byte* to, std::size_t bytes);      // until it is there

 private:
  struct Part {
    void* memory = nullptr;
    Event done = nullptr;
    bool busy = false;
  };
  void prepare();
  void settle() noexcept;
  static void wait(Part& part);
  void finish(Part& part) const;

  const Health& health_;
  const Stream stream_;
  std::array<Part, 2> parts_;
  std::size_t turn_ = 0;
};

}  // namespace systole::cuda
