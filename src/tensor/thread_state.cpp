#include "tensor/thread_state.h"

#include <atomic>

namespace systole::recording {

ThreadState::ThreadState() {
  static std::atomic<std::uint16_t> threads{0};
  thread = threads.fetch_add(1, std::memory_order_relaxed);
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

}  // namespace systole::recording
