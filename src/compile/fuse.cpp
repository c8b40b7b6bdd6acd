// Groups grow by merging. A consumer joins the group of what it reads at its own point; groups that read the
// same rows join side by side; cheap work read in another order is inlined; libraries are asked, and what
// follows a contraction element by element becomes part of it, even if sums had it before, and what is true
// of all its elements; updates that nothing else reads share one kernel. Inside a group everything is read at
// the point, or at its row: what is read elsewhere is stored.

#include "compile/fuse.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "compile/groups.h"
#include "compile/links.h"
#include "compile/product_work.h"
#include "systole/base/error.h"

namespace systole::lower {

namespace {

using ir::Op;

constexpr std::size_t kMostFollowers = 16;   // of an anchor that are offered with it
constexpr std::size_t kMostNeighbours = 64;  // readers of an array that are compared with it or each other

enum class Level { flat, full, row };  // a flat value has one element per point of a map

class Fuser {
 public:
  Fuser(const ir::Graph& graph, const Target& target, const std::set<std::int32_t>& repeated)
      : graph_(graph),
        target_(target),
        repeated_(repeated),
        limits_(target.limits()),
        groups_(graph, target),
        levels_(at(graph.size()), Level::flat),
        inlined_cost_(at(graph.size()), 0) {}

  Fusion run() {
    find_rows();
    for (const Link::Reads reads : {Link::Reads::same, Link::Reads::row}) merge_along(reads);
    // What is repeated is with its readers now; whatever else they can share, they do.
    if (!repeated_.empty())
      for (const Link::Reads reads : {Link::Reads::same, Link::Reads::row}) merge_along(reads);
    merge_side_by_side();
    inline_cheap();
    for (std::int32_t g = 0; g < groups_.count(); ++g) settle(g);
    share_updates();
    return finished();
  }

 private:
  using Part = Groups::Part;

  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::string_view op_name(std::int32_t node) const { return ir::name(graph_.node(node).op); }

  // Why two nodes that could share a kernel do not; told when they end up apart.
  void apart(std::int32_t source, std::int32_t reader, std::string reason) {
    apart_.try_emplace({source, reader}, std::move(reason));
  }

  void find_rows() {
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      const ir::Node& node = graph_.node(i);
      if (node.op != Op::reduce || groups_.role(i) != Role::member) continue;
      Part& part = groups_[groups_.of(i)];
      part.kind = GroupKind::rows;
      part.domain = domain_of_reduction(graph_.type(node.operands[0]).shape, node.as<ir::ReduceAttrs>().axes);
      levels_[at(i)] = Level::row;
    }
  }

  bool is_generated(std::int32_t group) const {
    return groups_[group].kind == GroupKind::map || groups_[group].kind == GroupKind::rows;
  }

  void set_level(std::int32_t group, Level level) {
    for (const std::int32_t node : groups_[group].nodes) levels_[at(node)] = level;
  }

  // Empty when one kernel may do the work of both.
  std::string too_large(std::int32_t a, std::int32_t b) const {
    if (groups_[a].nodes.size() + groups_[b].nodes.size() > static_cast<std::size_t>(limits_.nodes))
      return fmt::format("a kernel of both would have more than {} ops", limits_.nodes);
    if (groups_.buffers(a, b) > static_cast<std::size_t>(limits_.buffers))
      return fmt::format("a kernel of both would have more than {} buffers", limits_.buffers);
    return {};
  }

  // The level the source of a link must have for a reader, and the domain they share.
  struct Meeting {
    Domain domain;
    Level source, reader;
  };
  std::optional<Meeting> meeting(std::int32_t source, std::int32_t reader, const Link& link) {
    const std::optional<Domain>&mine = groups_[groups_.of(source)].domain,
          &its = groups_[groups_.of(reader)].domain;
    if (link.reads == Link::Reads::row) return Meeting{*link.domain, Level::row, Level::full};
    const bool reduces = graph_.node(reader).op == Op::reduce && groups_.role(reader) == Role::member;
    if (reduces) return Meeting{*its, Level::full, Level::row};
    if (mine) return Meeting{*mine, levels_[at(source)], levels_[at(source)]};
    if (its) return Meeting{*its, levels_[at(reader)], levels_[at(reader)]};
    return std::nullopt;
  }

  // Whether the group can take part in a kernel over the domain with `node` at this level.
  bool agrees(std::int32_t group, const Domain& domain, std::int32_t node, Level level) {
    const std::optional<Domain>& own = groups_[group].domain;
    return own ? *own == domain && levels_[at(node)] == level : true;
  }

  void merge_along(Link::Reads reads) {
    for (std::int32_t i = 0; i < graph_.size(); ++i) {
      if (groups_.role(i) != Role::member) continue;
      for (const Link& link : groups_.sources(i)) {
        if (link.reads != reads || groups_.role(link.source) != Role::member) continue;
        if (std::string reason = merge(link.source, i, link); !reason.empty())
          apart(link.source, i, std::move(reason));
      }
    }
  }

  // Whether the group is work that is repeated, without those it is repeated for.
  bool is_repeated(std::int32_t group) const {
    const std::vector<std::int32_t>& nodes = groups_[group].nodes;
    return !repeated_.empty() &&
           std::all_of(nodes.begin(), nodes.end(), [&](std::int32_t i) { return repeated_.contains(i); });
  }

  // Empty when they are in one group now, or have no reason to be.
  std::string merge(std::int32_t source, std::int32_t reader, const Link& link) {
    const std::int32_t a = groups_.of(source), b = groups_.of(reader);
    if (a == b || !is_generated(a) || !is_generated(b)) return {};
    if (!repeated_.contains(source) && is_repeated(b)) return {};
    const std::optional<Meeting> meet = meeting(source, reader, link);
    // Without a reduction, repeating a row is no reason to wait for it.
    if (meet && !groups_[a].domain && !groups_[b].domain) return {};
    if (std::string reason = too_large(a, b); !reason.empty()) return reason;
    if (meet &&
        (!agrees(a, meet->domain, source, meet->source) || !agrees(b, meet->domain, reader, meet->reader)))
      return "their rows are not the same";
    if (reads_elsewhere(a, b, meet ? &meet->domain : nullptr)) return "it is read at other places too";
    if (groups_.path_around(a, b)) return "other work stands between them";
    if (meet) {
      if (!groups_[a].domain) set_level(a, meet->source);
      if (!groups_[b].domain) set_level(b, meet->reader);
      std::vector<std::int32_t> nodes = groups_[a].nodes;
      nodes.insert(nodes.end(), groups_[b].nodes.begin(), groups_[b].nodes.end());
      if (stages(nodes) > limits_.stages) {
        if (!groups_[a].domain) set_level(a, Level::flat);
        if (!groups_[b].domain) set_level(b, Level::flat);
        return fmt::format("a kernel of both would pass over a row more than {} times", limits_.stages);
      }
      groups_[a].domain = meet->domain;
      groups_[a].kind = GroupKind::rows;
    }
    groups_.absorb(a, b);
    return {};
  }

  // Whether the reading group also reads the other at another point than its own, or at the row of other
  // axes: a kernel over rows knows the sums of its own row only.
  bool reads_elsewhere(std::int32_t from, std::int32_t reading, const Domain* domain) const {
    for (const std::int32_t i : groups_[reading].nodes)
      for (const Link& link : groups_.sources(i)) {
        if (groups_.of(link.source) != from || link.reads == Link::Reads::same) continue;
        if (link.reads == Link::Reads::anywhere || domain == nullptr || *link.domain != *domain) return true;
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
      for (const Link& link : groups_.sources(i))
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
      if (groups_.role(i) == Role::member && groups_[groups_.of(i)].domain &&
          level_of_operands(i) == Level::full)
        for (const Link& link : groups_.sources(i))
          if (link.reads == Link::Reads::same) readers[link.source].push_back(i);
    for (const auto& [source, nodes] : readers)
      for (std::size_t j = 0; j < nodes.size(); ++j)
        for (std::size_t k = j + 1; k < std::min(nodes.size(), j + kMostNeighbours); ++k) {
          const std::int32_t a = groups_.of(nodes[j]), b = groups_.of(nodes[k]);
          if (a == b || groups_[a].domain != groups_[b].domain || !too_large(a, b).empty()) continue;
          if (groups_.depends(a, b) || groups_.depends(b, a)) continue;
          groups_.absorb(std::min(a, b), std::max(a, b));
        }
  }

  Level level_of_operands(std::int32_t i) const {
    return graph_.node(i).op == Op::reduce ? Level::full : levels_[at(i)];
  }

  // Work that all its readers could do again where they read it.
  void inline_cheap() {
    for (std::int32_t g = 0; g < groups_.count(); ++g) {
      const Part& part = groups_[g];
      if (part.nodes.empty() || part.kind != GroupKind::map || part.readers.empty()) continue;
      std::int64_t largest = 0, own = 0, cost = 0;
      bool possible = true;
      for (const std::int32_t i : part.nodes) {
        cost += element_cost(graph_.node(i)) + inlined_cost_[at(i)];
        own = std::max(own, graph_.node(i).types[0].shape.count());
        // Movement that is a member was too long to be inlined.
        const bool moves = ir::info(graph_.node(i).op).op_class == ir::OpClass::movement;
        possible = possible && !moves && !groups_.is_output(i);
      }
      std::map<std::int32_t, std::int64_t> times;  // that a point computes it, by reading group
      for (const std::int32_t reader : part.readers) {
        const std::int32_t group = groups_.of(reader);
        possible = possible && is_generated(group);
        times[group] += times_read(reader, g);
        const ir::Node& node = graph_.node(reader);
        largest = std::max(largest, node.op == Op::reduce ? graph_.type(node.operands[0]).shape.count()
                                                          : node.types[0].shape.count());
      }
      if (!possible) continue;
      std::int64_t most = 1;
      for (const auto& [group, count] : times) most = std::max(most, count);
      const bool once = times.size() == 1 && most == 1 && largest <= own;
      constexpr std::int64_t kMany = std::int64_t{1} << 20;
      const std::int64_t allowed = once               ? 8 * limits_.inlined_cost
                                   : largest >= kMany ? limits_.inlined_cost_of_many
                                                      : limits_.inlined_cost;
      const std::size_t more = groups_.buffers(g, g);
      const bool fits = std::all_of(times.begin(), times.end(), [&](const auto& reading) {
        return groups_.buffers(reading.first, reading.first) + more <=
               static_cast<std::size_t>(limits_.buffers);
      });
      if (cost * most > allowed || !fits) {
        for (const std::int32_t reader : part.readers)
          for (const Link& link : groups_.sources(reader))
            if (groups_.of(link.source) == g)
              apart(link.source, reader,
                    fits ? "to compute it where it is read costs more than to store it"
                         : fmt::format("a kernel of both would have more than {} buffers", limits_.buffers));
        continue;
      }
      for (const std::int32_t reader : part.readers)
        inlined_cost_[at(reader)] += cost * times_read(reader, g);
      groups_.dissolve(g);
    }
  }

  // How many elements of the group an element of the node reads.
  std::int64_t times_read(std::int32_t node, std::int32_t group) const {
    std::int64_t elsewhere = 0;
    bool here = false;
    for (const Link& link : groups_.sources(node)) {
      if (groups_.of(link.source) != group) continue;
      if (link.reads == Link::Reads::anywhere)
        elsewhere += link.places;
      else
        here = true;
    }
    return elsewhere + (here ? 1 : 0);
  }

  // How what stands alone runs: the Target is offered it with the work on its result first, then bare; what
  // it declines is generated, again with that work if it can be.
  void settle(std::int32_t g) {
    Part& part = groups_[g];
    if (part.nodes.empty() || part.anchor < 0 || part.kind == GroupKind::control) return;
    std::vector<std::int32_t> followers;
    // Each costs an offer, and those after the first few are rarely better.
    std::size_t tried = 0;
    for (const std::int32_t next : groups_.next(g)) {
      if (followers.size() == kMostFollowers || ++tried > kMostNeighbours) break;
      if (follows_at_the_point(g, next)) followers.push_back(next);
    }
    for (const std::int32_t next : followers) {
      std::vector<std::int32_t> nodes;
      std::merge(part.nodes.begin(), part.nodes.end(), groups_[next].nodes.begin(), groups_[next].nodes.end(),
                 std::back_inserter(nodes));
      if (!claim(part, std::move(nodes))) continue;
      groups_.absorb(g, next);
      return;
    }
    if (claim(part, part.nodes)) return;
    if (graph_.node(part.anchor).op == Op::composite)
      throw Error(ErrorKind::kInternal, std::string(target_.name()),
                  "declined a composite that it claimed before", {},
                  graph_.node(part.anchor).as<ir::CompositeAttrs>().name);
    if (part.kind != GroupKind::contraction) return;
    if (std::string reason = target_.epilogue_refusal(graph_, part.anchor); !reason.empty()) {
      if (!followers.empty()) refusals_.push_back({std::string(op_name(part.anchor)), std::move(reason)});
      return;
    }
    if (!followers.empty()) groups_.absorb(g, followers[0]);
    for (const std::int32_t next : groups_.next(g))
      if (groups_[next].kind == GroupKind::rows) take_from_rows(g, next);
    if (!limits_.judges || graph_.node(groups_[g].anchor).op != Op::dot_general) return;
    for (const std::int32_t next : groups_.next(g))
      if (groups_[next].kind == GroupKind::rows) take_judgement(g, next);
  }

  void take_from_rows(std::int32_t g, std::int32_t rows) {
    std::vector<std::int32_t> nodes = work_on_product(graph_, groups_, g, rows);
    if (nodes.empty()) return;
    const std::int32_t made = groups_.split(rows, std::move(nodes));
    groups_.absorb(too_large(g, made).empty() ? g : rows, made);
  }

  void take_judgement(std::int32_t g, std::int32_t rows) {
    std::vector<std::int32_t> nodes = judgement_of_product(graph_, groups_, g, rows);
    if (nodes.empty()) return;
    const std::int32_t made = groups_.split(rows, std::move(nodes));
    if (!too_large(g, made).empty()) return groups_.absorb(rows, made);
    groups_.absorb(g, made);
    groups_[rows].kind = GroupKind::map;
    groups_[rows].domain.reset();
    set_level(rows, Level::flat);
    std::vector<std::int32_t> numbers;  // what is made of the judgement, and for others there
    for (const std::int32_t i : groups_[rows].nodes)
      if (graph_.node(i).types[0].shape.count() == 1) numbers.push_back(i);
    if (numbers.empty()) return;
    const bool is_all = numbers.size() == groups_[rows].nodes.size();
    const std::int32_t late = is_all ? rows : groups_.split(rows, std::move(numbers));
    part_from_late(g, late);
    inline_numbers(late);
  }

  // Numbers that do not wait for the product are made apart from those that do.
  void part_from_late(std::int32_t product, std::int32_t numbers) {
    std::set<std::int32_t> late;
    std::vector<std::int32_t> early;
    for (const std::int32_t i : groups_[numbers].nodes) {
      const std::vector<Link>& sources = groups_.sources(i);
      const bool waits = std::any_of(sources.begin(), sources.end(), [&](const Link& link) {
        return groups_.of(link.source) == product || late.contains(link.source);
      });
      waits ? void(late.insert(i)) : early.push_back(i);
    }
    if (!late.empty() && !early.empty()) inline_numbers(groups_.split(numbers, std::move(early)));
  }

  // Numbers that other kernels read are made again there, with what makes them: a kernel for a few of them
  // takes as long as one for thousands.
  void inline_numbers(std::int32_t g) {
    std::set<std::int32_t> made;
    std::vector<std::int32_t> stack;
    const auto add_sources = [&](std::int32_t reader) {
      for (const Link& link : groups_.sources(reader))
        if (groups_.of(link.source) == g && made.insert(link.source).second) stack.push_back(link.source);
    };
    std::set<std::int32_t> reading;  // groups
    for (const std::int32_t reader : groups_[g].readers) {
      add_sources(reader);
      reading.insert(groups_.of(reader));
    }
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      add_sources(i);
    }
    std::int64_t cost = 0;
    for (const std::int32_t i : made) {
      cost += element_cost(graph_.node(i)) + inlined_cost_[at(i)];
      if (groups_.is_output(i) || ir::info(graph_.node(i).op).op_class == ir::OpClass::movement) return;
    }
    const std::size_t more = groups_.buffers(g, g);
    const bool fits = std::all_of(reading.begin(), reading.end(), [&](std::int32_t group) {
      return is_generated(group) &&
             groups_.buffers(group, group) + more <= static_cast<std::size_t>(limits_.buffers);
    });
    if (made.empty() || cost > limits_.inlined_cost || !fits) return;
    const bool is_whole = made.size() == groups_[g].nodes.size();
    groups_.dissolve(is_whole ? g : groups_.split(g, {made.begin(), made.end()}));
  }

  bool follows_at_the_point(std::int32_t g, std::int32_t next) {
    if (groups_[next].kind != GroupKind::map || groups_[next].nodes.empty()) return false;
    const std::int32_t anchor = groups_[g].anchor;
    std::string reason = too_large(g, next);
    if (reason.empty() && reads_elsewhere(g, next, nullptr)) reason = "it is read at other places too";
    if (reason.empty() && groups_.path_around(g, next)) reason = "other work stands between them";
    if (reason.empty()) return true;
    apart(anchor, groups_[next].nodes.front(), std::move(reason));
    return false;
  }

  bool claim(Part& part, std::vector<std::int32_t> nodes) {
    Group offered;
    offered.inlined = inlined_by(nodes);
    offered.nodes = std::move(nodes);
    offered.anchor = part.anchor;
    const std::set<std::int32_t> wanted = read_outside(offered);
    const GroupRegion region = region_of(graph_, offered, [&](std::int32_t i) { return wanted.contains(i); });
    std::vector<Claim> claims = target_.offers(region.region);
    std::stable_sort(claims.begin(), claims.end(),
                     [](const Claim& a, const Claim& b) { return a.rank < b.rank; });
    for (Claim& each : claims) {
      if (each) {
        part.kind = GroupKind::library;
        part.claim = std::move(each);
        return true;
      }
      if (std::find(part.declined.begin(), part.declined.end(), each.reason) == part.declined.end())
        part.declined.push_back(each.reason);
      refusals_.push_back({std::string(op_name(part.anchor)), std::move(each.reason)});
    }
    return false;
  }

  // Of the group's nodes those that others read or that leave the graph.
  std::set<std::int32_t> read_outside(const Group& group) const {
    std::set<std::int32_t> wanted, readers;
    for (const std::int32_t i : group.nodes) {
      if (groups_.is_output(i)) wanted.insert(i);
      const std::set<std::int32_t>& all = groups_[groups_.of(i)].readers;
      readers.insert(all.begin(), all.end());
    }
    for (const std::int32_t reader : readers)
      if (!std::binary_search(group.nodes.begin(), group.nodes.end(), reader))
        for (const Link& link : groups_.sources(reader)) wanted.insert(link.source);
    return wanted;
  }

  // Maps whose results only leave the graph share kernels: an optimiser's updates of many tensors.
  void share_updates() {
    std::int32_t into = -1;
    std::size_t buffers = 0;  // of `into`
    for (std::int32_t g = 0; g < groups_.count(); ++g) {
      const Part& part = groups_[g];
      if (part.nodes.empty() || part.kind != GroupKind::map || !part.readers.empty()) continue;
      const std::size_t own = groups_.buffers(g, g);
      if (into >= 0 && buffers + own <= static_cast<std::size_t>(limits_.buffers)) {
        buffers += own;
        groups_.absorb(into, g);
        continue;
      }
      into = g;
      buffers = own;
    }
  }

  Fusion finished() {
    std::vector<std::int32_t> waiting(static_cast<std::size_t>(groups_.count()), 0);
    for (std::int32_t g = 0; g < groups_.count(); ++g)
      for (const std::int32_t next : groups_.next(g)) ++waiting[at(next)];
    // The group whose first node comes first in the graph runs first.
    std::set<std::pair<std::int32_t, std::int32_t>> ready;
    std::size_t left = 0;
    for (std::int32_t g = 0; g < groups_.count(); ++g) {
      if (groups_[g].nodes.empty()) continue;
      ++left;
      if (waiting[at(g)] == 0) ready.insert({groups_[g].nodes.front(), g});
    }
    Fusion fusion;
    for (; !ready.empty(); --left) {
      const std::int32_t g = ready.begin()->second;
      ready.erase(ready.begin());
      for (const std::int32_t next : groups_.next(g))
        if (--waiting[at(next)] == 0) ready.insert({groups_[next].nodes.front(), next});
      Part& part = groups_[g];
      fusion.groups.push_back({part.kind, part.nodes, inlined_by(part.nodes), part.domain, part.anchor,
                               std::move(part.claim), std::move(part.declined)});
    }
    if (left > 0) throw Error(ErrorKind::kInternal, "fuse", "groups wait for each other", {}, graph_.name());
    fusion.refusals = std::move(refusals_);
    for (auto& [nodes, reason] : apart_) {
      const std::int32_t source = groups_.of(nodes.first), reader = groups_.of(nodes.second);
      if (source >= 0 && reader >= 0 && source != reader)
        fusion.refusals.push_back({std::string(op_name(nodes.second)),
                                   fmt::format("not with {}: {}", op_name(nodes.first), reason)});
    }
    return fusion;
  }

  std::vector<std::int32_t> inlined_by(const std::vector<std::int32_t>& nodes) const {
    std::set<std::int32_t> found;
    std::vector<std::int32_t> stack = nodes;
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      for (const ir::ValueId v : graph_.node(i).operands)
        if (groups_.role(v.node) == Role::inlined && found.insert(v.node).second) stack.push_back(v.node);
    }
    return {found.begin(), found.end()};
  }

  const ir::Graph& graph_;
  const Target& target_;
  const std::set<std::int32_t>& repeated_;
  const KernelLimits limits_;
  Groups groups_;
  std::vector<Level> levels_;               // by node
  std::vector<std::int64_t> inlined_cost_;  // by node: of what an element computes of dissolved groups
  std::map<std::pair<std::int32_t, std::int32_t>, std::string> apart_;  // by source and reader
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

Fusion fuse(const ir::Graph& graph, const Target& target, const std::set<std::int32_t>& repeated) {
  return Fuser(graph, target, repeated).run();
}

}  // namespace systole::lower
