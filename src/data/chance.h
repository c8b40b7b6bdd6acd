#pragma once

// Numbers by chance on the host: splitmix64, a counter and its finaliser, so that any stream can be begun
// anywhere at no cost. Integer arithmetic throughout: the same on every machine.

#include <cstdint>

namespace systole::data {

class Chance {
 public:
  explicit Chance(std::uint64_t state) : state_(state) {}

  std::uint64_t word() { return mixed(state_ += 0x9E3779B97F4A7C15u); }
  double uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }  // in [0, 1)
  std::int64_t below(std::int64_t bound) {                                  // in [0, bound)
    return static_cast<std::int64_t>(
        (static_cast<unsigned __int128>(word()) * static_cast<std::uint64_t>(bound)) >> 64);
  }

  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

 private:
  std::uint64_t state_;
};

}  // namespace systole::data
