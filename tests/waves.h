#pragma once

// Test data by formula, the same in a Python script: wave() fills an array with numbers in (-1.3, 1.3), and
// checksum() reduces an array to one number that depends on every element and its place.

#include <cmath>
#include <vector>

#include "systole/tensor/creation.h"
#include "systole/tensor/tensor.h"

namespace systole {

inline Tensor wave(Shape shape, double phase, double scale = 1) {
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<double>(i);
    values[i] = scale * (std::sin(0.7 * x + phase) + 0.3 * std::cos(2.3 * x + phase));
  }
  return tensor(values, std::move(shape));
}

inline double checksum(const Tensor& x) {
  const std::vector<double> values = x.literal().to_doubles();
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) total += values[i] * std::cos(0.3 * static_cast<double>(i));
  return total;
}

}  // namespace systole
