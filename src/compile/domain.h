#pragma once

// The points a kernel visits. A row kernel visits a grid of which some axes are reduced: a value is `full`
// (one element per point) or a `row` (one per point of the other axes). Axes of size 1 are left out and
// neighbours of one kind joined, so that equal domains compare equal whatever shapes they came from.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "systole/ir/graph.h"

namespace systole::lower {

struct Domain {
  struct Axis {
    std::int64_t size = 1;
    bool reduced = false;
    bool operator==(const Axis&) const = default;
  };
  std::vector<Axis> axes;

  std::int64_t full_count() const;
  std::int64_t row_count() const;
  std::string to_string() const;  // "[64, *10]": 64 rows of 10 reduced points
  bool operator==(const Domain&) const = default;
};

Domain domain_of_reduction(const Shape& operand, const Ints& axes);
// What a broadcast repeats its operand over; nothing when it repeats nothing and only reshapes.
std::optional<Domain> domain_of_broadcast(const Shape& operand, const ir::BroadcastAttrs& attrs);

// Into how many parts the rows of the domain are cut, at most, for a device with thousands of threads or for
// tens of cores: one, unless few rows have very many points.
std::int64_t row_chunks(const Domain& domain, bool for_cores = false);

// By node of a region over rows: the pass over the points, from 1, in which it is known. A reduction ends a
// pass for those who read it.
std::vector<int> stages(const ir::Graph& region);

}  // namespace systole::lower
