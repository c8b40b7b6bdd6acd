#include "compile/groups.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace systole::lower {

namespace {

GroupKind first_kind(const ir::Node& node) {
  if (node.op == ir::Op::dot_general || node.op == ir::Op::convolution) return GroupKind::contraction;
  if (node.op == ir::Op::composite) return GroupKind::special;
  return ir::info(node.op).op_class == ir::OpClass::control ? GroupKind::control : GroupKind::special;
}

}  // namespace

Groups::Groups(const ir::Graph& graph, const Target& target)
    : links_(find_links(graph, target)),
      is_output_(at(graph.size()), false),
      group_of_(at(graph.size()), -1) {
  for (const ir::Output& output : graph.outputs()) is_output_[at(output.value.node)] = true;
  for (std::int32_t i = 0; i < graph.size(); ++i) {
    if (!is_computed(i)) continue;
    group_of_[at(i)] = count();
    Part& made = parts_.emplace_back();
    made.nodes = {i};
    if (role(i) == Role::alone) {
      made.anchor = i;
      made.kind = first_kind(graph.node(i));
    }
    for (const Link& link : sources(i))
      if (is_computed(link.source)) parts_[at(of(link.source))].readers.insert(i);
  }
  order_.resize(parts_.size());
  std::iota(order_.begin(), order_.end(), 0);
  place_ = order_;
  marks_.resize(parts_.size(), 0);
}

std::set<std::int32_t> Groups::next(std::int32_t group) const {
  std::set<std::int32_t> found;
  for (const std::int32_t reader : parts_[at(group)].readers)
    if (of(reader) != group) found.insert(of(reader));
  return found;
}

// Marks the groups that wait for `from` and have a place up to `last`'s; `without`: not by reading `from`
// directly.
void Groups::mark_reached(std::int32_t from, std::int32_t last, std::int32_t without) {
  ++mark_;
  std::vector<std::int32_t> stack;
  const auto push = [&](std::int32_t group) {
    for (const std::int32_t reader : parts_[at(group)].readers) {
      const std::int32_t next = of(reader);
      if (next == from || (group == from && next == without)) continue;
      if (is_marked(next) || place_[at(next)] > place_[at(last)]) continue;
      marks_[at(next)] = mark_;
      stack.push_back(next);
    }
  };
  push(from);
  while (!stack.empty()) {
    const std::int32_t group = stack.back();
    stack.pop_back();
    if (group != last) push(group);
  }
}

bool Groups::path_around(std::int32_t from, std::int32_t to) {
  if (place_[at(from)] > place_[at(to)]) return false;
  mark_reached(from, to, to);
  return is_marked(to);
}

bool Groups::depends(std::int32_t on, std::int32_t group) {
  if (place_[at(on)] > place_[at(group)]) return false;
  mark_reached(on, group, -1);
  return is_marked(group);
}

void Groups::absorb(std::int32_t into, std::int32_t group) {
  // The two come to stand where the later one does, and what waits for the earlier one behind them.
  const bool is_first = place_[at(into)] < place_[at(group)];
  const std::int32_t first = is_first ? into : group, second = is_first ? group : into;
  mark_reached(first, second, second);
  std::vector<std::int32_t> before, behind;
  for (std::int32_t p = place_[at(first)] + 1; p < place_[at(second)]; ++p)
    (is_marked(order_[at(p)]) ? behind : before).push_back(order_[at(p)]);
  std::int32_t p = place_[at(first)];
  const auto put = [&](std::int32_t g) {
    order_[at(p)] = g;
    place_[at(g)] = p++;
  };
  put(group);  // it is no more
  for (const std::int32_t g : before) put(g);
  put(into);
  for (const std::int32_t g : behind) put(g);

  Part &a = parts_[at(into)], &b = parts_[at(group)];
  for (const std::int32_t node : b.nodes) group_of_[at(node)] = into;
  std::vector<std::int32_t> nodes;
  std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), std::back_inserter(nodes));
  a.nodes = std::move(nodes);
  a.readers.merge(b.readers);
  for (auto reader = a.readers.begin(); reader != a.readers.end();)
    reader = of(*reader) == into ? a.readers.erase(reader) : std::next(reader);
  b = {};
}

void Groups::dissolve(std::int32_t group) {
  const std::vector<std::int32_t> nodes = parts_[at(group)].nodes;
  const std::set<std::int32_t> readers = parts_[at(group)].readers;
  for (auto i = nodes.rbegin(); i != nodes.rend(); ++i) {
    links_.roles[at(*i)] = Role::inlined;
    group_of_[at(*i)] = -1;
    for (const std::int32_t reader : nodes) look_through(reader, *i);
    for (const std::int32_t reader : readers) look_through(reader, *i);
    for (const Link& link : sources(*i)) {
      if (!is_computed(link.source) || of(link.source) < 0) continue;
      Part& source = parts_[at(of(link.source))];
      source.readers.erase(*i);
      if (of(link.source) != group) source.readers.insert(readers.begin(), readers.end());
    }
  }
  parts_[at(group)] = {};
}

std::int32_t Groups::split(std::int32_t group, std::vector<std::int32_t> nodes) {
  const std::int32_t made = count();
  Part& part = parts_.emplace_back();
  Part& rest = parts_[at(group)];
  marks_.push_back(0);
  order_.insert(order_.begin() + place_[at(group)], made);
  place_.push_back(place_[at(group)]);
  for (std::int32_t p = place_[at(made)]; p < made + 1; ++p) place_[at(order_[at(p)])] = p;

  for (const std::int32_t i : nodes) group_of_[at(i)] = made;
  part.nodes = std::move(nodes);
  std::erase_if(rest.nodes, [&](std::int32_t i) { return of(i) == made; });
  std::set<std::int32_t> readers = std::exchange(rest.readers, {});
  readers.insert(rest.nodes.begin(), rest.nodes.end());
  for (const std::int32_t reader : readers)
    for (const Link& link : sources(reader)) {
      if (of(link.source) == made) part.readers.insert(reader);
      if (of(link.source) == group && of(reader) != group) rest.readers.insert(reader);
    }
  return made;
}

// `reader` reads what the node reads, where it read the node.
void Groups::look_through(std::int32_t reader, std::int32_t node) {
  std::vector<Link> kept;
  for (Link& link : links_.sources[at(reader)]) {
    if (link.source != node) {
      add_link(kept, std::move(link));
      continue;
    }
    for (const Link& further : sources(node)) {
      Link through = further;
      through.places *= link.places;
      if (link.reads != Link::Reads::same) {
        through.domain = further.reads == Link::Reads::same ? link.domain : std::nullopt;
        through.reads = further.reads == Link::Reads::same ? link.reads : Link::Reads::anywhere;
      }
      add_link(kept, std::move(through));
    }
  }
  links_.sources[at(reader)] = std::move(kept);
}

std::size_t Groups::buffers(std::int32_t a, std::int32_t b) const {
  const auto inside = [&](std::int32_t node) { return of(node) == a || of(node) == b; };
  std::set<std::int32_t> touched;
  for (const std::int32_t group : {a, b}) {
    for (const std::int32_t i : parts_[at(group)].nodes) {
      if (is_output(i)) touched.insert(i);
      for (const Link& link : sources(i))
        if (!inside(link.source)) touched.insert(link.source);
    }
    for (const std::int32_t reader : parts_[at(group)].readers)
      if (!inside(reader))
        for (const Link& link : sources(reader))
          if (inside(link.source)) touched.insert(link.source);
  }
  return touched.size();
}

}  // namespace systole::lower
