#pragma once

// The operands of one evaluation, where they stand: nothing is copied to call an op. An operand whose last
// use this is belongs to the callee, which may move it out and write into its storage; the storage is copied
// only when someone else still holds it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "systole/base/literal.h"

namespace systole::eval {

using Slot = std::optional<Literal>;  // empty before the value is made and after its last use

struct Use {
  std::int32_t slot = -1;
  bool last = false;                  // the value is the op's to take
  const Literal* constant = nullptr;  // stands instead of a slot
  // Above 0, an elementwise op sees the operand broadcast: element i is element (i / inner) % count of it.
  std::int64_t inner = 0;
};

class Operands {
 public:
  Operands(Slot* slots, std::span<const Use> uses, std::int32_t reused = -1)
      : slots_(slots), uses_(uses), reused_(reused) {}

  std::size_t size() const { return uses_.size(); }
  bool empty() const { return uses_.empty(); }
  const Literal& operator[](std::size_t i) const {
    return uses_[i].constant != nullptr ? *uses_[i].constant : *slots_[uses_[i].slot];
  }
  // Moved out when this use is the last, else sharing storage. An operand is taken once.
  Literal take(std::size_t i) const {
    if (!uses_[i].last) return (*this)[i];
    return *std::move(slots_[uses_[i].slot]);
  }
  std::int64_t inner(std::size_t i) const { return uses_[i].inner; }
  // The operand of the result's type whose storage an elementwise op may write over, or -1.
  std::int32_t reused() const { return reused_; }
  bool is_reused(std::size_t i) const {
    return reused_ >= 0 && uses_[i].slot == uses_[static_cast<std::size_t>(reused_)].slot;
  }

 private:
  Slot* slots_;
  std::span<const Use> uses_;
  std::int32_t reused_;
};

}  // namespace systole::eval
