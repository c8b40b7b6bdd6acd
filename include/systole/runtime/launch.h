#pragma once

// What a program says of its own kernels: their source, and how many threads run one. tensor/kernels.h has
// the rest.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace systole {

// Up to three numbers; those left out are 1.
struct Size3 {
  std::int64_t x = 1, y = 1, z = 1;
  Size3() = default;
  template <std::integral X, std::integral Y = int, std::integral Z = int>
  Size3(X x_size, Y y_size = 1, Z z_size = 1)
      : x(static_cast<std::int64_t>(x_size)),
        y(static_cast<std::int64_t>(y_size)),
        z(static_cast<std::int64_t>(z_size)) {}
  bool operator==(const Size3&) const = default;
};

// `grid` groups of `block` threads each: a grid counts groups, as in CUDA, not threads, as in OpenCL. In a
// grid of 0 nothing runs.
struct Launch {
  Size3 grid, block;
  // Local memory whose size the source leaves open: CUDA's `extern __shared__`; in OpenCL the kernel's last
  // parameter when it is `__local` and has no argument.
  std::size_t shared_bytes = 0;

  // At least one thread for each of `count` items. The last group may have more: the kernel must compare its
  // number with the count.
  template <std::integral N>
  static Launch over(N count, std::int64_t block = 256) {
    const auto items = static_cast<std::int64_t>(count);
    return {.grid = block > 0 ? items / block + (items % block != 0) : items, .block = block};
  }
};

// A kernel's source by language; a device takes its own, or else the portable one, which is written in the
// words of docs/kernels.md.
struct KernelSources {
  std::string portable, opencl, cuda, c;
};

struct SourceOptions {
  std::vector<std::pair<std::string, std::string>> defines;  // #define first second
  std::string flags;                                         // for the device's own compiler
};

}  // namespace systole
