#pragma once

// Ranges for NVIDIA's tools: Nsight names what runs inside of them. A tool says by NVTX_INJECTION64_PATH
// which library wants them; without one a range costs a load. The interface is NVTX 3's, written down here so
// that no header of it is needed to build.

#include <atomic>
#include <string_view>

namespace systole::nvtx {

enum class State : int { unknown, off, on };  // unknown: nobody looked for a tool
extern std::atomic<State> state;
bool start();  // looks for a tool; whether there is one

inline bool is_on() {
  const State now = state.load(std::memory_order_acquire);
  if (now == State::off) [[likely]]
    return false;
  return now == State::on || start();
}

void push(std::string_view name);  // of this thread
void pop();

class Range {
 public:
  explicit Range(std::string_view name) : is_open_(is_on()) {
    if (is_open_) push(name);
  }
  ~Range() {
    if (is_open_) pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const bool is_open_;
};

}  // namespace systole::nvtx
