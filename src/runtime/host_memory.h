#pragma once

// Backends whose devices compute in the host's memory, where data need no copy.

#include "systole/base/literal.h"
#include "systole/runtime.h"

namespace systole::runtime {

class HostMemoryBackend {
 public:
  virtual ~HostMemoryBackend() = default;
  // The value where it lies. Nobody may write to what a Literal::view shows while the buffer lives; the
  // buffer itself is copied before anything is written to it.
  virtual BufferRef borrow(const Literal& value, int ordinal) = 0;
};

}  // namespace systole::runtime
