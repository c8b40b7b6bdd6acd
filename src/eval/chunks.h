#pragma once

// How elementwise ops see their operands and their result: chunk by chunk, an operand through the broadcast
// it may be read by, the result in new storage or written over an operand of its type.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "eval/operands.h"
#include "eval/wide.h"
#include "systole/ir/graph.h"

// Before a loop whose passes do not depend on each other even where result and operand are the same array.
#if defined(__clang__)
#define SYSTOLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define SYSTOLE_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace systole::eval {

// The result of an elementwise op, in its slot. Operands must be looked at through Source afterwards.
class Target {
 public:
  Target(const ir::Node& node, const Operands& x, Slot& result)
      : literal_(x.reused() >= 0 ? result.emplace(x.take(static_cast<std::size_t>(x.reused())))
                                 : result.emplace(Literal::uninitialized(node.types[0]))),
        bytes_(literal_.mutable_bytes()) {}

  std::byte* bytes() { return bytes_; }
  const std::byte* bytes() const { return bytes_; }
  std::int64_t count() const { return literal_.count(); }
  DType dtype() const { return literal_.dtype(); }

 private:
  Literal& literal_;
  std::byte* const bytes_;
};

// Operand i of an elementwise op as the result sees it.
class Source {
 public:
  Source(const Operands& x, std::size_t i, const Target& target)
      : dtype_(x.is_reused(i) ? target.dtype() : x[i].dtype()),
        size_(static_cast<std::int64_t>(size_of(dtype_))),
        inner_(x.inner(i)),
        count_(x.is_reused(i) ? target.count() : x[i].count()),
        data_(x.is_reused(i) ? target.bytes() : x[i].bytes()) {}
  // A scalar that stands for every element.
  static Source repeated(const Operands& x, std::size_t i, const Target& target) {
    Source source(x, i, target);
    if (source.count_ == 1 && source.inner_ == 0) source.inner_ = std::max<std::int64_t>(target.count(), 1);
    return source;
  }

  DType dtype() const { return dtype_; }
  // Elements [first, first + n), n at most kChunk; calls go up.
  const std::byte* at(std::int64_t first, std::int64_t n) {
    if (inner_ == 0) return data_ + first * size_;
    if (inner_ == 1 && first % count_ + n <= count_) return data_ + first % count_ * size_;
    if (count_ > 1 || first == 0)
      visit_size(static_cast<std::size_t>(size_), [&]<class U>() { spread<U>(first, n); });
    return buffer_;
  }
  template <class W>
  const W* wide(std::int64_t first, std::int64_t n, W* buffer) {
    load<W>(dtype_, at(first, n), n, buffer);
    return buffer;
  }

 private:
  template <class U>
  void spread(std::int64_t first, std::int64_t n) {
    U* out = reinterpret_cast<U*>(buffer_);
    std::int64_t place = first / inner_ % count_, left = inner_ - first % inner_;
    for (std::int64_t i = 0; i < n;) {
      if (inner_ == 1) {
        const std::int64_t run = std::min(n - i, count_ - place);
        std::memcpy(out + i, data_ + place * size_, static_cast<std::size_t>(run * size_));
        i += run;
        place = 0;
      } else {
        const std::int64_t run = std::min(n - i, left);
        std::fill_n(out + i, run, read<U>(data_ + place * size_));
        i += run;
        left = inner_;
        if (++place == count_) place = 0;
      }
    }
  }

  DType dtype_;
  std::int64_t size_, inner_, count_;
  const std::byte* data_;
  alignas(64) std::byte buffer_[kChunk * 8];
};

// Calls f(first, n) for the chunks of `count` elements.
template <class F>
void for_each_chunk(std::int64_t count, F&& f) {
  for (std::int64_t first = 0; first < count; first += kChunk) f(first, std::min(kChunk, count - first));
}

}  // namespace systole::eval
