// Groups grow by merging. A consumer joins the group of what it reads at its own point; groups that read the
// same rows join side by side; cheap work read in another order is inlined; what follows a contraction
// element by element becomes part of it; updates that nothing else reads share one kernel. No merge may make
// two groups wait for each other.

#include "compile/fuse.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "compile/links.h"
#include "systole/ir/rewriter.h"

namespace systole::lower {

namespace {

using ir::Op;

enum class Level { flat, full, row };  // a flat value has one element per point of a map

class Fuser {
 public:
  Fuser(const ir::Graph& graph, const Target& target)
      : graph_(graph),
        target_(target),
        limits_(target.limits()),
        links_(find_links(graph)),
        group_of_(count(), -1),
        levels_(count(), Level::flat),
        visited_(count(), 0),
        is_output_(count(), false) {
    for (const ir::Output& output : graph.outputs()) is_output_[at(output.value.node)] = true;
  }

  Fusion run() {
    start();
    for (const Link::Reads reads : {Link::Reads::same, Link::Reads::row}) merge_along(reads);
    merge_side_by_side();
    inline_cheap();
    claim();
    add_epilogues();
    share_updates();
    return finished();
  }

 private:
  struct Part {
    GroupKind kind = GroupKind::map;
    std::vector<std::int32_t> nodes;
    std::optional<Domain> domain;
    std::int32_t anchor = -1;
    Claim claim;
    std::set<std::int32_t> readers;  // groups' first nodes at the time; looked up through group_of_
  };

  std::size_t count() const { return static_cast<std::size_t>(graph_.size()); }
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  Role role(std::int32_t i) const { return links_.roles[at(i)]; }
  const std::vector<Link>& sources(std::int32_t i) const { return links_.sources[at(i)]; }
  bool computed(std::int32_t i) const { return role(i) == Role::member || role(i) == Role::alone; }
  Part& part(std::int32_t group) { return parts_[at(group)]; }

  void start() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      if (!computed(i)) continue;
      group_of_[at(i)] = static_cast<std::int32_t>(parts_.size());
      Part& made = parts_.emplace_back();
      made.nodes = {i};
      const ir::Node& node = graph_.node(i);
      if (node.op == Op::reduce && role(i) == Role::member) {
        made.kind = GroupKind::rows;
        made.domain =
            domain_of_reduction(graph_.type(node.operands[0]).shape, node.as<ir::ReduceAttrs>().axes);
        levels_[at(i)] = Level::row;
      } else if (role(i) == Role::alone) {
        made.anchor = i;
        made.kind = node.op == Op::dot_general || node.op == Op::convolution ? GroupKind::contraction
                    : ir::info(node.op).op_class == ir::OpClass::control     ? GroupKind::control
                                                                             : GroupKind::special;
      }
    }
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (computed(i))
        for (const Link& link : sources(i))
          if (computed(link.source)) part(group_of_[at(link.source)]).readers.insert(i);
  }

  // Whether some other group stands between: merging would make a circle.
  bool path_around(std::int32_t from, std::int32_t to) {
    ++stamp_;
    const std::int32_t last = part(to).nodes.back();
    std::vector<std::int32_t> stack;
    const auto push = [&](std::int32_t group, bool direct) {
      for (const std::int32_t reader : part(group).readers) {
        const std::int32_t next = group_of_[at(reader)];
        if (next == from || (direct && next == to) || part(next).nodes.front() > last) continue;
        if (visited_[at(next)] == stamp_) continue;
        visited_[at(next)] = stamp_;
        stack.push_back(next);
      }
    };
    push(from, true);
    while (!stack.empty()) {
      const std::int32_t group = stack.back();
      stack.pop_back();
      if (group == to) return true;
      push(group, false);
    }
    return false;
  }

  bool depends(std::int32_t on, std::int32_t group) {  // directly or not
    for (const std::int32_t reader : part(on).readers)
      if (group_of_[at(reader)] == group) return true;
    return path_around(on, group);
  }

  bool generated(std::int32_t group) {
    return part(group).kind == GroupKind::map || part(group).kind == GroupKind::rows;
  }

  void absorb(std::int32_t into, std::int32_t group) {
    Part &a = part(into), &b = part(group);
    for (const std::int32_t node : b.nodes) group_of_[at(node)] = into;
    std::vector<std::int32_t> nodes;
    std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), std::back_inserter(nodes));
    a.nodes = std::move(nodes);
    a.readers.merge(b.readers);
    for (auto reader = a.readers.begin(); reader != a.readers.end();)
      reader = group_of_[at(*reader)] == into ? a.readers.erase(reader) : std::next(reader);
    b = {};
  }

  void set_level(std::int32_t group, Level level) {
    for (const std::int32_t node : part(group).nodes) levels_[at(node)] = level;
  }

  bool too_large(std::int32_t a, std::int32_t b) {
    return part(a).nodes.size() + part(b).nodes.size() > static_cast<std::size_t>(limits_.nodes) ||
           buffers_of(a, b) > static_cast<std::size_t>(limits_.buffers);
  }

  // What one kernel of these two groups (or of one, twice) reads and writes.
  std::size_t buffers_of(std::int32_t a, std::int32_t b) {
    const auto inside = [&](std::int32_t node) {
      return group_of_[at(node)] == a || group_of_[at(node)] == b;
    };
    std::set<std::int32_t> touched;
    for (const std::int32_t group : {a, b}) {
      for (const std::int32_t i : part(group).nodes) {
        if (is_output_[at(i)]) touched.insert(i);
        for (const Link& link : sources(i))
          if (!inside(link.source)) touched.insert(link.source);
      }
      for (const std::int32_t reader : part(group).readers)
        if (!inside(reader))
          for (const Link& link : sources(reader))
            if (inside(link.source)) touched.insert(link.source);
    }
    return touched.size();
  }

  // The level the source of a link must have for a reader, and the domain they share.
  struct Meeting {
    Domain domain;
    Level source, reader;
  };
  std::optional<Meeting> meeting(std::int32_t source, std::int32_t reader, const Link& link) {
    const std::optional<Domain>&mine = part(group_of_[at(source)]).domain,
          &its = part(group_of_[at(reader)]).domain;
    if (link.reads == Link::Reads::row) return Meeting{*link.domain, Level::row, Level::full};
    const bool reduces = graph_.node(reader).op == Op::reduce && role(reader) == Role::member;
    if (reduces) return Meeting{*its, Level::full, Level::row};
    if (mine) return Meeting{*mine, levels_[at(source)], levels_[at(source)]};
    if (its) return Meeting{*its, levels_[at(reader)], levels_[at(reader)]};
    return std::nullopt;
  }

  // Whether the group can take part in a kernel over the domain with `node` at this level.
  bool agrees(std::int32_t group, const Domain& domain, std::int32_t node, Level level) {
    const std::optional<Domain>& own = part(group).domain;
    return own ? *own == domain && levels_[at(node)] == level : true;
  }

  void merge_along(Link::Reads reads) {
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      if (role(i) != Role::member) continue;
      for (const Link& link : sources(i))
        if (link.reads == reads && role(link.source) == Role::member) merge(link.source, i, link);
    }
  }

  void merge(std::int32_t source, std::int32_t reader, const Link& link) {
    const std::int32_t a = group_of_[at(source)], b = group_of_[at(reader)];
    if (a == b || !generated(a) || !generated(b) || too_large(a, b)) return;
    const std::optional<Meeting> meet = meeting(source, reader, link);
    if (meet) {
      // Without a reduction, repeating a row is no reason to wait for it.
      if (!part(a).domain && !part(b).domain) return;
      if (!agrees(a, meet->domain, source, meet->source) || !agrees(b, meet->domain, reader, meet->reader))
        return;
      if (reads_elsewhere(a, b, meet->domain)) return;
    }
    if (path_around(a, b)) return;
    if (meet) {
      if (!part(a).domain) set_level(a, meet->source);
      if (!part(b).domain) set_level(b, meet->reader);
      std::vector<std::int32_t> nodes = part(a).nodes;
      nodes.insert(nodes.end(), part(b).nodes.begin(), part(b).nodes.end());
      if (stages(nodes) > limits_.stages) {
        if (!part(a).domain) set_level(a, Level::flat);
        if (!part(b).domain) set_level(b, Level::flat);
        return;
      }
      part(a).domain = meet->domain;
      part(a).kind = GroupKind::rows;
    }
    absorb(a, b);
  }

  // Whether the reading group also reads the other at another point than its own, or at the row of other
  // axes: a kernel over rows knows the sums of its own row only.
  bool reads_elsewhere(std::int32_t from, std::int32_t reading, const Domain& domain) {
    for (const std::int32_t i : part(reading).nodes)
      for (const Link& link : sources(i)) {
        if (!computed(link.source) || group_of_[at(link.source)] != from) continue;
        if (link.reads == Link::Reads::anywhere) return true;
        if (link.reads == Link::Reads::row && *link.domain != domain) return true;
      }
    return false;
  }

  // Passes over the points: a reduction ends one for those who read it.
  int stages(std::vector<std::int32_t>& nodes) {
    std::sort(nodes.begin(), nodes.end());
    std::map<std::int32_t, int> stage;
    int most = 1;
    for (const std::int32_t i : nodes) {
      int own = 1;
      for (const Link& link : sources(i))
        if (const auto found = stage.find(link.source); found != stage.end())
          own = std::max(own, found->second + (graph_.node(link.source).op == Op::reduce ? 1 : 0));
      stage[i] = own;
      most = std::max(most, own);
    }
    return most;
  }

  // Reductions over equal domains that read one array in full: one pass serves both.
  void merge_side_by_side() {
    std::map<std::int32_t, std::vector<std::int32_t>> readers;  // nodes, by what they read at the point
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      if (role(i) == Role::member && part(group_of_[at(i)]).domain && levels_at_operand(i) == Level::full)
        for (const Link& link : sources(i))
          if (link.reads == Link::Reads::same) readers[link.source].push_back(i);
    for (const auto& [source, nodes] : readers)
      for (std::size_t j = 0; j < nodes.size(); ++j)
        for (std::size_t k = j + 1; k < nodes.size(); ++k) {
          const std::int32_t a = group_of_[at(nodes[j])], b = group_of_[at(nodes[k])];
          if (a == b || part(a).domain != part(b).domain || too_large(a, b)) continue;
          if (depends(a, b) || depends(b, a)) continue;
          absorb(std::min(a, b), std::max(a, b));
        }
  }

  Level levels_at_operand(std::int32_t i) const {
    return graph_.node(i).op == Op::reduce ? Level::full : levels_[at(i)];
  }

  // Work that all its readers could do again where they read it.
  void inline_cheap() {
    for (std::int32_t g = 0; g < static_cast<std::int32_t>(parts_.size()); ++g) {
      Part& p = parts_[at(g)];
      if (p.nodes.empty() || p.kind != GroupKind::map || p.readers.empty()) continue;
      std::set<std::int32_t> groups;
      std::int64_t largest = 0, own = 0;
      bool possible = true;
      int cost = 0;
      for (const std::int32_t i : p.nodes) {
        cost += element_cost(graph_.node(i));
        own = std::max(own, graph_.node(i).types[0].shape.count());
        possible = possible && !is_output_[at(i)];
      }
      for (const std::int32_t reader : p.readers) {
        groups.insert(group_of_[at(reader)]);
        possible = possible && generated(group_of_[at(reader)]);
        const ir::Node& node = graph_.node(reader);
        largest = std::max(largest, node.op == Op::reduce ? graph_.type(node.operands[0]).shape.count()
                                                          : node.types[0].shape.count());
      }
      if (!possible) continue;
      const bool once = groups.size() == 1 && largest <= own;
      if (cost > (once ? 8 * limits_.inlined_cost : limits_.inlined_cost)) continue;
      const std::size_t more = buffers_of(g, g);
      const bool fits = std::all_of(groups.begin(), groups.end(), [&](std::int32_t group) {
        return buffers_of(group, group) + more <= static_cast<std::size_t>(limits_.buffers);
      });
      if (fits) dissolve(g);
    }
  }

  // The group's nodes become inlined ones: whoever read them reads what they read.
  void dissolve(std::int32_t group) {
    const std::vector<std::int32_t> nodes = part(group).nodes;
    const std::set<std::int32_t> readers = part(group).readers;
    for (auto i = nodes.rbegin(); i != nodes.rend(); ++i) {
      links_.roles[at(*i)] = Role::inlined;
      group_of_[at(*i)] = -1;
      for (const std::int32_t reader : nodes) look_through(reader, *i);
      for (const std::int32_t reader : readers) look_through(reader, *i);
      for (const Link& link : sources(*i)) {
        if (!computed(link.source) || group_of_[at(link.source)] < 0) continue;
        Part& source = part(group_of_[at(link.source)]);
        source.readers.erase(*i);
        if (group_of_[at(link.source)] != group) source.readers.insert(readers.begin(), readers.end());
      }
    }
    part(group) = {};
  }

  // `reader` reads what node i reads, where it read i.
  void look_through(std::int32_t reader, std::int32_t i) {
    std::vector<Link>& links = links_.sources[at(reader)];
    std::vector<Link> kept;
    for (Link& link : links) {
      if (link.source != i) {
        kept.push_back(std::move(link));
        continue;
      }
      for (const Link& further : sources(i)) {
        if (link.reads == Link::Reads::same)
          kept.push_back(further);
        else if (further.reads == Link::Reads::same)
          kept.push_back({further.source, link.reads, link.domain});
        else
          kept.push_back({further.source, Link::Reads::anywhere, std::nullopt});
      }
    }
    links = std::move(kept);
  }

  // Libraries are asked about every node that is no generated work.
  void claim() {
    for (Part& p : parts_) {
      if (p.nodes.empty() || p.anchor < 0 || p.kind == GroupKind::control) continue;
      Group alone;
      alone.nodes = p.nodes;
      alone.anchor = p.anchor;
      take(p, target_.offers(region_of(graph_, alone, everything()).region));
    }
  }

  bool take(Part& p, std::vector<Claim> claims) {
    std::stable_sort(claims.begin(), claims.end(),
                     [](const Claim& a, const Claim& b) { return a.rank < b.rank; });
    for (const Claim& claim : claims) {
      if (claim) {
        p.kind = GroupKind::library;
        p.claim = claim;
        return true;
      }
      refusals_.push_back({p.anchor, claim.reason});
    }
    return false;
  }

  std::vector<bool> everything() const { return std::vector<bool>(count(), true); }

  void add_epilogues() {
    for (std::int32_t g = 0; g < static_cast<std::int32_t>(parts_.size()); ++g) {
      Part& p = parts_[at(g)];
      if (p.nodes.empty()) continue;
      const std::int32_t anchor = p.anchor;
      if (p.kind != GroupKind::contraction && p.kind != GroupKind::library) continue;
      std::set<std::int32_t> next;
      for (const std::int32_t reader : p.readers) next.insert(group_of_[at(reader)]);
      for (const std::int32_t b : next) {
        if (part(b).kind != GroupKind::map || too_large(g, b)) continue;
        const bool at_the_point =
            std::all_of(part(b).nodes.begin(), part(b).nodes.end(), [&](std::int32_t i) {
              return std::all_of(sources(i).begin(), sources(i).end(), [&](const Link& link) {
                return link.source != anchor || link.reads == Link::Reads::same;
              });
            });
        if (!at_the_point || path_around(g, b)) continue;
        if (p.kind == GroupKind::library) {
          Group both;
          both.nodes = p.nodes;
          both.nodes.insert(both.nodes.end(), part(b).nodes.begin(), part(b).nodes.end());
          std::sort(both.nodes.begin(), both.nodes.end());
          both.anchor = anchor;
          if (!take(p, target_.offers(region_of(graph_, both, everything()).region))) continue;
        } else if (const std::string reason = target_.epilogue_refusal(graph_, anchor); !reason.empty()) {
          refusals_.push_back({anchor, reason});
          continue;
        }
        absorb(g, b);
        break;
      }
    }
  }

  // Maps whose results only leave the graph share kernels: an optimiser's updates of many tensors.
  void share_updates() {
    std::int32_t into = -1;
    std::size_t buffers = 0;  // of `into`
    for (std::int32_t g = 0; g < static_cast<std::int32_t>(parts_.size()); ++g) {
      Part& p = parts_[at(g)];
      if (p.nodes.empty() || p.kind != GroupKind::map || !p.readers.empty()) continue;
      const std::size_t own = buffers_of(g, g);
      if (into >= 0 && buffers + own <= static_cast<std::size_t>(limits_.buffers)) {
        buffers += own;
        absorb(into, g);
        continue;
      }
      into = g;
      buffers = own;
    }
  }

  Fusion finished() {
    std::vector<std::int32_t> order, waiting(parts_.size(), 0);
    for (std::int32_t g = 0; g < static_cast<std::int32_t>(parts_.size()); ++g)
      for (const std::int32_t next : next_groups(g)) ++waiting[at(next)];
    // The group whose first node comes first in the graph runs first.
    std::set<std::pair<std::int32_t, std::int32_t>> ready;
    for (std::int32_t g = 0; g < static_cast<std::int32_t>(parts_.size()); ++g)
      if (!parts_[at(g)].nodes.empty() && waiting[at(g)] == 0) ready.insert({part(g).nodes.front(), g});
    Fusion fusion;
    while (!ready.empty()) {
      const std::int32_t g = ready.begin()->second;
      ready.erase(ready.begin());
      for (const std::int32_t next : next_groups(g))
        if (--waiting[at(next)] == 0) ready.insert({part(next).nodes.front(), next});
      Part& p = part(g);
      fusion.groups.push_back({p.kind, p.nodes, inlined_by(p.nodes), p.domain, p.anchor, p.claim});
    }
    fusion.refusals = std::move(refusals_);
    return fusion;
  }

  std::set<std::int32_t> next_groups(std::int32_t g) {
    std::set<std::int32_t> next;
    for (const std::int32_t reader : part(g).readers)
      if (group_of_[at(reader)] != g) next.insert(group_of_[at(reader)]);
    return next;
  }

  std::vector<std::int32_t> inlined_by(const std::vector<std::int32_t>& nodes) const {
    std::set<std::int32_t> found;
    std::vector<std::int32_t> stack = nodes;
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      for (const ir::ValueId v : graph_.node(i).operands)
        if (role(v.node) == Role::inlined && found.insert(v.node).second) stack.push_back(v.node);
    }
    return {found.begin(), found.end()};
  }

  const ir::Graph& graph_;
  const Target& target_;
  const KernelLimits limits_;
  Links links_;
  std::vector<std::int32_t> group_of_;
  std::vector<Level> levels_;
  std::vector<int> visited_;  // by group
  std::vector<bool> is_output_;
  int stamp_ = 0;
  std::vector<Part> parts_;
  std::vector<Refusal> refusals_;
};

}  // namespace

std::string_view name(GroupKind kind) {
  switch (kind) {
    case GroupKind::map: return "map";
    case GroupKind::rows: return "rows";
    case GroupKind::contraction: return "contraction";
    case GroupKind::library: return "library";
    case GroupKind::special: return "special";
    case GroupKind::control: return "control";
  }
  return "?";
}

Fusion fuse(const ir::Graph& graph, const Target& target) { return Fuser(graph, target).run(); }

GroupRegion region_of(const ir::Graph& graph, const Group& group, const std::vector<bool>& wanted) {
  GroupRegion out;
  ir::Graph& region = out.region.graph;
  std::map<std::pair<std::int32_t, std::int32_t>, ir::Value> known;
  std::vector<std::int32_t> nodes;
  std::merge(group.nodes.begin(), group.nodes.end(), group.inlined.begin(), group.inlined.end(),
             std::back_inserter(nodes));
  const std::set<std::int32_t> inside(nodes.begin(), nodes.end());
  for (const std::int32_t i : nodes)
    for (const ir::ValueId v : graph.node(i).operands)
      if (!inside.contains(v.node) && !known.contains({v.node, v.index})) {
        known[{v.node, v.index}] = region.input(fmt::format("i{}", out.inputs.size()), graph.type(v));
        out.inputs.push_back(v);
      }
  for (const std::int32_t i : nodes) {
    const ir::Node& node = graph.node(i);
    ir::Values operands;
    for (const ir::ValueId v : node.operands) operands.push_back(known.at({v.node, v.index}));
    const ir::Values results = ir::copy_node(region, node, operands, node.graphs);
    for (std::size_t r = 0; r < results.size(); ++r) known[{i, static_cast<std::int32_t>(r)}] = results[r];
    if (i == group.anchor) out.region.anchor = results[0].id().node;
  }
  for (const std::int32_t i : group.nodes)
    for (std::int32_t r = 0;
         wanted[static_cast<std::size_t>(i)] && r < static_cast<std::int32_t>(graph.node(i).types.size());
         ++r) {
      region.output(known.at({i, r}));
      out.outputs.push_back({i, r});
    }
  return out;
}

}  // namespace systole::lower
