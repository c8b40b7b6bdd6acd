#pragma once

// What the current device can do at most, as far as this library's own programs reach: how fast memory is
// read and written, how fast matrices are multiplied, and where kernels lie under the roof that the two make.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench/kernels.h"
#include "cli/bench/timing.h"
#include "cli/bench/workloads.h"

namespace systole::cli::bench {

struct Roofline {
  struct Copied {
    std::int64_t elements = 0;                 // f32
    double in_place_gb_s = 0, fresh_gb_s = 0;  // read and written
  };
  struct Multiplied {
    std::int64_t side = 0;  // of square matrices
    double tflop_s = 0;
  };
  struct Placed {
    Workload work;
    Cost least;
    double seconds = 0;  // of a call
  };
  std::string dtype;  // of the products
  std::vector<Copied> copies;
  std::vector<Multiplied> products;
  std::vector<Placed> kernels;

  double gb_s() const;     // the best copy
  double tflop_s() const;  // the best product
  double ridge() const;    // operations per byte, below which memory bounds
  // Seconds that the roof allows for this work.
  double least_seconds(const Cost& cost) const;
  double share(const Placed& placed) const { return least_seconds(placed.least) / placed.seconds; }
  bool memory_bound(const Cost& cost) const { return cost.intensity() < ridge(); }
};

// Elements of the largest array to copy, so that the smallest is four times as large as the last cache of
// `last_cache` bytes (0: unknown), but at most 1 GiB.
std::int64_t elements_beyond(std::int64_t last_cache);

// A kernel's workload with arrays of this many elements, or of the largest square below.
Workload resized(Workload kernel, std::int64_t elements);

// Copies arrays of `elements`, a half and a quarter of them, multiplies matrices of the side that `product`
// has, a half and a quarter of it, and places the kernels.
Roofline measure_roofline(std::int64_t elements, const Workload& product,
                          const std::vector<Workload>& kernels, const Effort& effort);

nlohmann::ordered_json to_json(const Roofline& roof);
std::string to_text(const Roofline& roof);

}  // namespace systole::cli::bench
