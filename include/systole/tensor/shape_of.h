#pragma once

// Shapes given as a vector, array or span of numbers, where a Shape itself is not at hand.

#include <concepts>
#include <ranges>

#include "systole/base/shape.h"

namespace systole {

template <class R>
concept SizeRange = std::ranges::input_range<const R&> && std::integral<std::ranges::range_value_t<R>> &&
                    !std::same_as<std::ranges::range_value_t<R>, bool>;

template <SizeRange R>
Shape shape_of(const R& sizes) {
  Shape shape;
  for (const auto size : sizes) shape.push_back(size);
  return shape;
}

}  // namespace systole
