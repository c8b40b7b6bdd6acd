#pragma once

// What backends refuse whose programs run on one device: without that a mesh would be ignored without a
// word, and "4 devices" would be one.

#include <cstdint>
#include <string_view>

#include "systole/ir/graph.h"

namespace systole::runtime {

// Such a backend is one of these, too.
class OneDevice {
 public:
  virtual ~OneDevice() = default;
};

inline constexpr const char* kNoCollectives =
    "collectives need several devices, and a program of this backend runs on one";

// Whether a value of the graph or of one of its sub-graphs is sharded.
bool has_shardings(const ir::Graph& graph);

// kUnsupported for a mesh of more devices than one.
void refuse_mesh(std::string_view backend, std::int64_t devices);
// The same for a graph with shardings on such a mesh, or with collectives on any.
void refuse_mesh(std::string_view backend, const ir::Graph& graph);

}  // namespace systole::runtime
