#pragma once

// Which nodes run together. Every group becomes one step: a generated kernel, a library call, or a step of
// its own kind (a loop, a sort).
//
// A generated kernel visits the points of a domain. Its members are elementwise work and reductions whose
// operands are read at the point that is being computed, so each is computed once per point. Movement
// (transpose, slice, gather, …), constants and cheap work that is read in another order are inlined: computed
// again by every group that reads them and never stored, unless an output of the graph or a step of another
// kind wants them.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compile/domain.h"
#include "compile/target.h"
#include "systole/ir/graph.h"

namespace systole::lower {

enum class GroupKind {
  map,          // elementwise over flat points; several parts may share a kernel
  rows,         // elementwise and reductions over the points of a domain
  contraction,  // a dot or convolution of our own, with work on its result
  library,      // what the Target claimed
  special,      // a primitive with a kernel of its own: sort, scatter, cumulative, …
  control       // loops and branches
};
std::string_view name(GroupKind kind);

struct Group {
  GroupKind kind = GroupKind::map;
  std::vector<std::int32_t> nodes;    // members, in the graph's order
  std::vector<std::int32_t> inlined;  // of what they read, in the graph's order
  std::optional<Domain> domain;       // of rows
  std::int32_t anchor = -1;           // of contraction, library, special and control
  Claim claim;                        // of library
  std::vector<std::string> declined;  // why others did not claim it
};

// Why a library does not run an op, or why it shares no kernel with what it reads, for --explain.
struct Refusal {
  std::string op, reason;
};

struct Fusion {
  std::vector<Group> groups;  // in an order in which they can run
  std::vector<Refusal> refusals;
};

// The graph is static and has no composite that the Target does not claim. Work that is `repeated` for its
// readers stays with them rather than with what it reads, where its result would be stored again.
Fusion fuse(const ir::Graph& graph, const Target& target, const std::set<std::int32_t>& repeated = {});

// The group as a graph: its inputs are what it reads from outside, in order of first use, its outputs what
// others read, in order of nodes.
struct GroupRegion {
  Region region;
  std::vector<ir::ValueId> inputs, outputs;  // in the whole graph
};
GroupRegion region_of(const ir::Graph& graph, const Group& group,
                      const std::function<bool(std::int32_t)>& is_wanted);

}  // namespace systole::lower
