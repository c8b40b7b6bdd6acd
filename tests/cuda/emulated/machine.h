#pragma once

// Runs a kernel's threads on the processor, group after group: each is a fiber, which goes on until it waits
// for its group or its warp. Nothing runs beside anything else, and the order is chosen: a kernel whose
// result depends on it has a race. Threads that wait for what never comes are a fault, and so is a read or
// write where no memory is.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace systole::emulated {

inline constexpr unsigned kWarp = 32, kWords = 8;  // words that a lane shows the others at once

// What the code of a kernel sees of the machine; device.inc declares it again.
struct Machine {
  unsigned thread[3], group[3], threads[3], groups[3];
  void (*barrier)();
  const unsigned* (*exchange)(const unsigned* words, unsigned count);  // of all lanes, kWords each
  char* dynamic_shared;
};

struct Launch {
  unsigned groups[3], threads[3];
  std::size_t dynamic_shared = 0;
  std::uint64_t seed = 0;                        // of the order of groups and threads; 0: ascending
  std::function<void(std::byte)> fill_shared{};  // a group finds this in shared memory
};

// Empty, or what went wrong.
std::string run(Machine& machine, const Launch& launch, const std::function<void()>& kernel);

// A sequence of numbers that looks random.
class Order {
 public:
  explicit Order(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % n;
  }
  template <class T>
  void shuffle(std::vector<T>& all) {
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace systole::emulated
