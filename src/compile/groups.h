#pragma once

// The groups of a graph's nodes while they grow, and who waits for whom. Every group has a place in an order
// in which all could run; merging keeps it, so that a search for a path ends at the place it is for.

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "compile/fuse.h"
#include "compile/links.h"

namespace systole::lower {

class Groups {
 public:
  struct Part {
    GroupKind kind = GroupKind::map;
    std::vector<std::int32_t> nodes;  // in the graph's order; none: the group is no more
    std::optional<Domain> domain;
    std::int32_t anchor = -1;
    Claim claim;
    std::vector<std::string> declined;  // reasons of those that did not claim it
    std::set<std::int32_t> readers;     // nodes outside
  };

  // A group for every node that is computed.
  Groups(const ir::Graph& graph, const Target& target);

  Role role(std::int32_t node) const { return links_.roles[at(node)]; }
  const std::vector<Link>& sources(std::int32_t node) const { return links_.sources[at(node)]; }
  bool is_computed(std::int32_t node) const {
    return role(node) == Role::member || role(node) == Role::alone;
  }
  bool is_output(std::int32_t node) const { return is_output_[at(node)]; }

  std::int32_t count() const { return static_cast<std::int32_t>(parts_.size()); }
  std::int32_t of(std::int32_t node) const { return group_of_[at(node)]; }  // -1: inlined or a source
  Part& operator[](std::int32_t group) { return parts_[at(group)]; }
  const Part& operator[](std::int32_t group) const { return parts_[at(group)]; }
  std::set<std::int32_t> next(std::int32_t group) const;  // groups that read it

  // Whether some other group stands between: merging would make a circle.
  bool path_around(std::int32_t from, std::int32_t to);
  bool depends(std::int32_t on, std::int32_t group);  // directly or not

  void absorb(std::int32_t into, std::int32_t group);
  // The group's nodes become inlined: whoever read them reads what they read.
  void dissolve(std::int32_t group);
  // Nodes that read nothing of the group's others leave it and are a map, which it waits for.
  std::int32_t split(std::int32_t group, std::vector<std::int32_t> nodes);

  // What one kernel of these two groups (or of one, twice) reads and writes.
  std::size_t buffers(std::int32_t a, std::int32_t b) const;

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  void mark_reached(std::int32_t from, std::int32_t last, std::int32_t without);
  bool is_marked(std::int32_t group) const { return marks_[at(group)] == mark_; }
  void look_through(std::int32_t reader, std::int32_t node);

  Links links_;
  std::vector<bool> is_output_;
  std::vector<std::int32_t> group_of_;  // by node
  std::vector<Part> parts_;
  std::vector<std::int32_t> order_, place_;  // groups by place, places by group
  std::vector<int> marks_;                   // by group
  int mark_ = 0;
};

}  // namespace systole::lower
