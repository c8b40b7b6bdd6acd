#pragma once

// Memory of the processor's buffers. What is freed is kept for the next buffer of its size: fresh pages cost
// more than most kernels that write to them.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace systole::cpu {

constexpr std::size_t kAlignment = 64;

struct GiveBack {
  std::int64_t bytes = 0;
  void operator()(std::byte* memory) const;
};
using Memory = std::unique_ptr<std::byte, GiveBack>;

// Null for nothing. Throws kOutOfMemory.
Memory take(std::int64_t bytes);
std::shared_ptr<std::byte> allocate(std::int64_t bytes);  // the same, to be shared

std::int64_t kept_bytes();  // that are free

}  // namespace systole::cpu
