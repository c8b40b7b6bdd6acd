#pragma once

// What elementwise work computes, found by trying: nodes are evaluated on sample points, in f64 and without
// the roundings between, and compared with the functions that libraries have. A gradient comes in as many
// forms as there are ways to derive and simplify it; its numbers are always the same. What is cut off or bent
// anywhere that f32 reaches, however far out or close to 0, must not be taken for the function without.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::patterns {

enum class Pointwise {
  identity,
  relu,
  gelu,           // by tanh
  gelu_erf,       // what no library does in a product
  gelu_gradient,  // of the tanh form, at the second variable, times the first
  other
};
std::string_view name(Pointwise function);

// The number that fills a value: a constant, moved, broadcast or converted in any way.
std::optional<double> splat_number(const ir::Graph& graph, ir::ValueId v);

// Nodes as functions of at most two values of one shape, at fixed points.
class Samples {
 public:
  // `nodes` in the graph's order; what they read is among them, a variable, or a number.
  Samples(const ir::Graph& graph, std::span<const ir::ValueId> variables,
          std::span<const std::int32_t> nodes);

  // `other` also for a node that is no such function.
  Pointwise function(std::int32_t node) const;

  // Whether the node is the same function of `inner`'s value as of the only variable: what reads a relu's
  // operand may read its result.
  bool is_same_of(std::int32_t node, std::int32_t inner) const;

 private:
  using Numbers = std::vector<double>;
  std::vector<std::optional<Numbers>> at(std::span<const Numbers> variables) const;
  const std::optional<Numbers>* values_of(std::int32_t node) const;

  const ir::Graph& graph_;
  const std::vector<ir::ValueId> variables_;
  const std::vector<std::int32_t> nodes_;
  std::vector<Numbers> points_;                 // by variable
  std::vector<std::optional<Numbers>> values_;  // by place in nodes_
};

}  // namespace systole::patterns
