#pragma once

// How much memory one file may ask for beyond its own bytes. A few bytes of a file can describe gigabytes: a
// splat, deflated zeros, a header that declares more than follows. Whoever reads a file makes one Budget for
// the whole file and takes from it before each allocation, so that many small demands are limited together.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "systole/base/export.h"

namespace systole {

// What a file of this size may expand to by default: 256 MiB, or 64 times its size when that is more.
constexpr std::uint64_t expansion_limit(std::uint64_t file_bytes) {
  constexpr std::uint64_t kLeast = std::uint64_t{256} << 20, kFactor = 64, kMost = std::uint64_t{1} << 62;
  if (file_bytes > kMost / kFactor) return kMost;
  return file_bytes * kFactor > kLeast ? file_bytes * kFactor : kLeast;
}

class SYSTOLE_API Budget {
 public:
  // `advice` ends the message of a refusal: what to do instead, "save the arrays uncompressed".
  Budget(std::string file, std::uint64_t limit, std::string advice = {})
      : file_(std::move(file)), advice_(std::move(advice)), limit_(limit) {}

  // Throws kLimit, naming the file and `what`, when less than `bytes` is left; then nothing is taken.
  void take(std::uint64_t bytes, std::string_view what);
  // For memory that was taken and is free again before the file is read to its end.
  void give_back(std::uint64_t bytes) { taken_ -= bytes < taken_ ? bytes : taken_; }

  std::uint64_t limit() const { return limit_; }
  std::uint64_t left() const { return limit_ - taken_; }

 private:
  std::string file_, advice_;
  std::uint64_t limit_, taken_ = 0;
};

}  // namespace systole
