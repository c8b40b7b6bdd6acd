#pragma once

// A copy or memset on the timeline, from here to the end of the block. CUPTI records it, as it may be the
// first work of a recording; where CUPTI does not, it is timed here, and waited for. The device must be
// active, and the name must live as long.

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "backend/cuda/cupti.h"
#include "backend/cuda/device.h"
#include "runtime/timeline.h"

namespace systole::cuda {

class RecordedMove {
 public:
  RecordedMove(const Device& device, std::string_view what, std::size_t bytes, Stream stream)
      : timed_(timeline::is_on() && cupti::recording_of(device) == 0 ? stream : nullptr),
        where_(timed_ != nullptr ? fmt::format("cuda:{}", device.ordinal()) : std::string()),
        move_(what, where_, timed_ != nullptr ? bytes : 0) {}
  ~RecordedMove() {
    if (timed_ != nullptr) succeeded(driver().cuStreamSynchronize(timed_), "cuStreamSynchronize");
  }
  RecordedMove(const RecordedMove&) = delete;
  RecordedMove& operator=(const RecordedMove&) = delete;

 private:
  const Stream timed_;
  const std::string where_;
  const timeline::Copy move_;
};

}  // namespace systole::cuda
