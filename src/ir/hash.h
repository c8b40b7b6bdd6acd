#pragma once

// Structural hashing: what print() shows, less debug info.

#include <cstdint>
#include <string_view>

#include "systole/ir/attrs.h"
#include "systole/ir/graph.h"

namespace systole::ir {

class Hasher {
 public:
  void add(std::uint64_t word) {
    state_ ^= word + 0x9e3779b97f4a7c15 + (state_ << 6) + (state_ >> 2);
    state_ *= 0xff51afd7ed558ccd;
    state_ ^= state_ >> 32;
  }
  void add_bytes(const void* data, std::size_t size);
  void add(std::string_view text) {
    add(text.size());
    add_bytes(text.data(), text.size());
  }
  std::uint64_t result() const { return state_; }

 private:
  std::uint64_t state_ = 0x2545f4914f6cdd1d;
};

void add_type(Hasher& hasher, const Type& type);
std::uint64_t hash_attrs(const Attrs& attrs);

}  // namespace systole::ir
