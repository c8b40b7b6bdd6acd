#pragma once

// How the nodes of a graph read each other once movement is looked through: a node reads a source at the very
// point it computes, at the row of that point, or anywhere.

#include <cstdint>
#include <optional>
#include <vector>

#include "compile/domain.h"
#include "compile/target.h"
#include "systole/ir/graph.h"

namespace systole::lower {

enum class Role {
  source,   // inputs and constants that are stored: nobody computes them
  inlined,  // movement and numbers, computed where they are read
  member,   // work of a generated kernel, one element per point or row
  alone     // everything else
};

struct Link {
  enum class Reads { same, row, anywhere };
  std::int32_t source = -1;  // a node that is not inlined
  Reads reads = Reads::same;
  std::optional<Domain> domain;  // of Reads::row: what the source is repeated over
  int places = 1;                // of Reads::anywhere: how many elements an element reads at most
};

// A link like another is that one, with the places of both.
void add_link(std::vector<Link>& links, Link link);

struct Links {
  std::vector<Role> roles;  // by node
  std::vector<std::vector<Link>>
      sources;  // by node that is not inlined: what it reads, no source twice alike
};

Links find_links(const ir::Graph& graph, const Target& target);

// Work of one element, in additions.
int element_cost(const ir::Node& node);
bool is_stored_constant(const ir::Node& node);  // too large to stand in a kernel's text

}  // namespace systole::lower
