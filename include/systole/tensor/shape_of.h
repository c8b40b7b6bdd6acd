#pragma once

// Shapes given as a vector, array or span of numbers, where a Shape itself is not at hand.

#include <concepts>
#include <iterator>
#include <type_traits>

#include "systole/base/shape.h"

namespace systole {

template <class R>
concept SizeRange = requires(const R& sizes) {
  std::begin(sizes);
  std::end(sizes);
  requires std::integral<std::remove_cvref_t<decltype(*std::begin(sizes))>>;
  requires !std::same_as<std::remove_cvref_t<decltype(*std::begin(sizes))>, bool>;
};

template <SizeRange R>
Shape shape_of(const R& sizes) {
  Shape shape;
  for (const auto size : sizes) shape.push_back(size);
  return shape;
}

}  // namespace systole
