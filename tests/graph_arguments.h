#pragma once

// Arguments for a graph in tests: normal numbers, the same in every run.

#include <cstdint>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "systole/base/literal.h"
#include "systole/ir/graph.h"

namespace systole {

inline std::vector<Literal> random_arguments(const ir::Graph& graph, std::uint32_t seed, double spread) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<Literal> arguments;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    Literal value = Literal::uninitialized(graph.input_type(i));
    visit_dtype(value.dtype(), [&]<class T>() {
      if constexpr (!std::is_same_v<T, bool>)
        for (T& x : value.mutable_values<T>()) x = static_cast<T>(normal(random));
    });
    arguments.push_back(std::move(value));
  }
  return arguments;
}

}  // namespace systole
