#pragma once

// What recording keeps per thread: the innermost trace, the order of records, the device in scope.

#include <cstdint>
#include <optional>

namespace systole {

struct DeviceMesh;

namespace recording {

class Frame;

struct ThreadState {
  Frame* frame = nullptr;
  std::int64_t sequence = 0;
  std::uint16_t thread = 0;
  int replays = 0;                    // being recorded: not to be cut
  int device = -1;                    // of the innermost DeviceScope; -1: none
  const DeviceMesh* mesh = nullptr;   // of the innermost compile(fn)
  std::optional<bool> check_indices;  // of the innermost compile(fn); none: as SYSTOLE_CHECK says
  ThreadState();
};
ThreadState& thread_state();

}  // namespace recording

}  // namespace systole
