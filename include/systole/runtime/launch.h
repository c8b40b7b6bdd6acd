#pragma once

// What a program says of its own kernels: their source, how many threads run one and what memory these share.
// tensor/kernels.h has the rest.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "systole/runtime/stream.h"

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
// grid of 0 nothing runs. The block must be given.
struct Launch {
  Size3 grid{};
  Size3 block{0};
  // Local memory whose size the source leaves open: CUDA's `extern __shared__`; in OpenCL the kernel's last
  // parameter when it is `__local` and has no argument.
  std::size_t shared_bytes = 0;
  // How many of the threads have work; 0: all. Kernels in C get no others. Elsewhere, the kernel must compare
  // its number with the count, which is one of its arguments.
  std::int64_t items = 0;
  Stream stream{};  // where it runs; the device's default stream unless it is given

  Launch on(Stream other) const {
    Launch launch = *this;
    launch.stream = std::move(other);
    return launch;
  }

  // A thread for each of `count` items, in groups of `threads`: the last group may have more threads.
  template <std::integral N>
  static Launch over(N count, std::int64_t threads = 256) {
    const auto n = static_cast<std::int64_t>(count);
    const std::int64_t groups = threads > 0 ? n / threads + (n % threads != 0) : n;
    return {.grid = groups, .block = threads, .shared_bytes = 0, .items = n, .stream = {}};
  }
};

// Memory of a group of threads, for a parameter `__local T*`: LocalArray<float>{256}.
template <class T>
struct LocalArray {
  std::int64_t count = 0;
};

// A kernel's source by language; a device takes its own, or else the portable one, which is written in the
// words of docs/kernels.md.
struct KernelSources {
  std::string portable{}, opencl{}, cuda{}, c{};
};

// Flags for the compiler of each language. A device takes those of its own and ignores the others.
struct CompilerFlags {
  std::vector<std::string> opencl{}, cuda{}, c{};
};

struct SourceOptions {
  std::vector<std::pair<std::string, std::string>> defines{};  // #define first second
  CompilerFlags flags{};
  std::string source_name{};  // for errors: "blur.cl"; empty: "kernel"
};

}  // namespace systole
