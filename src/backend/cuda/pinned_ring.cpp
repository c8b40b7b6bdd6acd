#include "backend/cuda/pinned_ring.h"

#include <algorithm>
#include <cstring>

namespace systole::cuda {

namespace {

constexpr std::size_t kPartBytes = std::size_t{8} << 20;

}  // namespace

PinnedRing::~PinnedRing() {
  for (const Part& part : parts_) {
    if (health_.is_lost()) return;
    if (part.done != nullptr) succeeded(driver().cuEventDestroy(part.done), "cuEventDestroy");
    if (part.memory != nullptr) succeeded(driver().cuMemFreeHost(part.memory), "cuMemFreeHost");
  }
}

void PinnedRing::prepare() {
  for (Part& part : parts_) {
    if (part.memory == nullptr) check(driver().cuMemHostAlloc(&part.memory, kPartBytes, 0), "cuMemHostAlloc");
    if (part.done == nullptr) check(driver().cuEventCreate(&part.done, kEventDisableTiming), "cuEventCreate");
  }
}

void PinnedRing::settle() noexcept {
  if (!health_.is_lost()) succeeded(driver().cuStreamSynchronize(stream_), "cuStreamSynchronize");
  for (Part& part : parts_) part.busy = false;
}

void PinnedRing::wait(Part& part) {
  if (part.busy) check(driver().cuEventSynchronize(part.done), "cuEventSynchronize");
  part.busy = false;
}

void PinnedRing::finish(Part& part) const {
  check(driver().cuEventRecord(part.done, stream_), "cuEventRecord");
  part.busy = true;
}

void PinnedRing::upload(const std::byte* from, Address to, std::size_t bytes) try {
  prepare();
  for (std::size_t done = 0; done < bytes; done += kPartBytes) {
    const std::size_t count = std::min(kPartBytes, bytes - done);
    Part& part = parts_[turn_++ % parts_.size()];
    wait(part);
    std::memcpy(part.memory, from + done, count);
    check(driver().cuMemcpyHtoDAsync(to + done, part.memory, count, stream_), "cuMemcpyHtoDAsync");
    finish(part);
  }
} catch (...) {
  settle();
  throw;
}

void PinnedRing::download(Address from, std::byte* to, std::size_t bytes) try {
  prepare();
  std::size_t asked = 0, got = 0;
  while (got < bytes) {
    while (asked < bytes && asked - got < parts_.size() * kPartBytes) {
      const std::size_t count = std::min(kPartBytes, bytes - asked);
      Part& part = parts_[asked / kPartBytes % parts_.size()];
      wait(part);
      check(driver().cuMemcpyDtoHAsync(part.memory, from + asked, count, stream_), "cuMemcpyDtoHAsync");
      finish(part);
      asked += count;
    }
    Part& part = parts_[got / kPartBytes % parts_.size()];
    wait(part);
    const std::size_t count = std::min(kPartBytes, bytes - got);
    std::memcpy(to + got, part.memory, count);
    got += count;
  }
} catch (...) {
  settle();
  throw;
}

}  // namespace systole::cuda
