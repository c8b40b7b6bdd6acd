#include "compile/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compile/links.h"
#include "systole/ir/rewriter.h"

namespace systole::lower {

namespace {

using ir::Op;
using ir::ValueId;

constexpr std::int64_t kLeastElements = std::int64_t{1} << 16;  // of a value that is worth it

class Recompute {
 public:
  Recompute(const ir::Graph& graph, const Fusion& fusion, int most_cost)
      : graph_(graph),
        most_cost_(most_cost),
        kinds_(at(graph.size())),
        group_of_(at(graph.size()), -1),
        inlined_(at(graph.size()), false),
        readers_(at(graph.size())) {
    for (std::size_t g = 0; g < fusion.groups.size(); ++g) {
      domains_.push_back(fusion.groups[g].domain);
      for (const std::int32_t i : fusion.groups[g].nodes) {
        group_of_[at(i)] = static_cast<std::int32_t>(g);
        kinds_[at(i)] = fusion.groups[g].kind;
      }
      for (const std::int32_t i : fusion.groups[g].inlined) inlined_[at(i)] = true;
    }
  }

  std::optional<Recomputed> run() {
    find();
    if (chosen_.empty()) return std::nullopt;
    ir::Graph made = ir::rewrite(graph_,
                                 [&](const ir::Rewrite& r) -> std::optional<ir::Values> {
                                   for (std::size_t k = 0; k < r.operands.size(); ++k)
                                     known_.try_emplace(key(r.node.operands[k]), r.operands[k]);
                                   ir::Values operands = r.operands;
                                   for (std::size_t k = 0; k < operands.size(); ++k)
                                     if (is_read_elsewhere(r.node.operands[k].node, r.index) &&
                                         chosen_.contains(r.node.operands[k].node))
                                       operands[k] = copy(r, r.node.operands[k], group_of_[at(r.index)]);
                                   ir::Values results =
                                       ir::copy_node(r.graph, r.node, operands, r.node.graphs);
                                   for (std::size_t i = 0; i < results.size(); ++i)
                                     known_[{r.index, static_cast<std::int32_t>(i)}] = results[i];
                                   return results;
                                 },
                                 {.subgraphs = false});
    return Recomputed{std::move(made), std::move(repeated_)};
  }

 private:
  using Key = std::pair<std::int32_t, std::int32_t>;
  static Key key(ValueId v) { return {v.node, v.index}; }
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  bool is_generated(std::int32_t node) const {
    return group_of_[at(node)] >= 0 &&
           (kinds_[at(node)] == GroupKind::map || kinds_[at(node)] == GroupKind::rows);
  }
  bool is_read_elsewhere(std::int32_t value, std::int32_t reader) const {
    return group_of_[at(value)] >= 0 && group_of_[at(reader)] >= 0 &&
           group_of_[at(value)] != group_of_[at(reader)];
  }
  std::int64_t count(std::int32_t node) const { return graph_.node(node).types[0].shape.count(); }

  void find() {
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      for (const ValueId v : graph_.node(i).operands) readers_[at(v.node)].push_back(i);
    for (const ir::Output& output : graph_.outputs()) outputs_.insert(output.value.node);
    for (std::int32_t v = 0; v < graph_.size(); ++v) {
      if (!is_generated(v) || outputs_.contains(v) || count(v) < kLeastElements) continue;
      if (ir::info(graph_.node(v).op).op_class != ir::OpClass::elementwise) continue;
      std::set<std::int32_t> groups;  // that read it
      bool possible = true;
      for (const std::int32_t reader : readers_[at(v)]) {
        if (group_of_[at(reader)] == group_of_[at(v)]) continue;
        groups.insert(group_of_[at(reader)]);
        possible = possible && is_generated(reader);
      }
      if (groups.empty() || !possible) continue;
      if (is_cheap(v, groups)) chosen_.insert(v);
    }
  }

  // Whether what is stored anyway makes the value cheaply for the groups that read it, and they read no more
  // for that than the value itself; or less than they and the store of the value would move, of arrays that
  // others read in passes over the same rows, which then serve both.
  bool is_cheap(std::int32_t v, const std::set<std::int32_t>& groups) const {
    std::set<std::int32_t> seen;
    std::map<std::int32_t, std::int32_t> leaves;
    std::vector<std::pair<std::int32_t, std::int32_t>> stack{{v, v}};  // nodes, and what they are made for
    int cost = 0;
    while (!stack.empty()) {
      const auto [i, whole] = stack.back();
      stack.pop_back();
      if (!seen.insert(i).second) continue;
      if (is_leaf(i, whole)) {
        leaves[i] = whole;
        continue;
      }
      cost += element_cost(graph_.node(i));
      if (cost > most_cost_) return false;
      for (const ValueId operand : graph_.node(i).operands) stack.emplace_back(operand.node, part(i, whole));
    }
    std::int64_t bytes = 0;
    bool are_there = true;
    for (const auto& [leaf, whole] : leaves) {
      if (count(leaf) < count(v) || graph_.node(leaf).op == Op::constant) continue;
      // Of a larger array, one that is gathered from, as many elements are read.
      bytes += count(v) * static_cast<std::int64_t>(size_of(graph_.node(leaf).types[0].dtype));
      are_there = are_there && is_by_readers({leaf, whole}, groups, v);
    }
    const std::int64_t own = graph_.node(v).types[0].bytes(), times = std::ssize(groups);
    return bytes <= own || (are_there && bytes * times < own * (times + 1));
  }

  // Whether for each of the groups another one over the same rows reads one of the arrays, but for the group
  // that makes the value v.
  bool is_by_readers(const std::set<std::int32_t>& arrays, const std::set<std::int32_t>& groups,
                     std::int32_t v) const {
    std::set<std::int32_t> reading;
    for (const std::int32_t array : arrays)
      if (array != v) add_readers(array, reading);
    return std::all_of(groups.begin(), groups.end(), [&](std::int32_t group) {
      return std::any_of(reading.begin(), reading.end(), [&](std::int32_t other) {
        return other != group && other != group_of_[at(v)] && domains_[at(other)] &&
               domains_[at(other)] == domains_[at(group)];
      });
    });
  }
  // The groups that read the node, themselves or where they repeat what reads it.
  void add_readers(std::int32_t i, std::set<std::int32_t>& groups) const {
    for (const std::int32_t r : readers_[at(i)]) {
      if (group_of_[at(r)] >= 0) groups.insert(group_of_[at(r)]);
      if (inlined_[at(r)] || chosen_.contains(r)) add_readers(r, groups);
    }
  }

  // Whether other groups find the node in memory.
  bool is_stored(std::int32_t i) const {
    if (chosen_.contains(i)) return false;
    return outputs_.contains(i) || std::any_of(readers_[at(i)].begin(), readers_[at(i)].end(),
                                               [&](std::int32_t r) { return is_read_elsewhere(i, r); });
  }

  // Where repeating ends: what is stored, sums, and values of rows.
  bool is_leaf(std::int32_t i, std::int32_t whole) const {
    if (inlined_[at(i)]) return false;
    if (group_of_[at(i)] != group_of_[at(whole)]) return !chosen_.contains(i);
    if (i != whole && is_stored(i)) return true;
    return graph_.node(i).op == Op::reduce || count(i) < count(whole);
  }
  // What the operands of the node are made for: itself where it is repeated as another group's.
  std::int32_t part(std::int32_t i, std::int32_t whole) const { return chosen_.contains(i) ? i : whole; }

  ir::Value copy(const ir::Rewrite& r, ValueId v, std::int32_t group) {
    std::map<Key, ir::Value>& own = copies_[group];
    if (const auto found = own.find(key(v)); found != own.end()) return found->second;
    return own[key(v)] = copied(r, v, v.node, own);
  }
  ir::Value copied(const ir::Rewrite& r, ValueId v, std::int32_t whole, std::map<Key, ir::Value>& own) {
    if (const auto found = own.find(key(v)); found != own.end()) return found->second;
    if (is_leaf(v.node, whole)) return known_.at(key(v));
    ir::Values operands;
    for (const ValueId operand : graph_.node(v.node).operands)
      operands.push_back(copied(r, operand, part(v.node, whole), own));
    const ir::Values results =
        ir::copy_node(r.graph, graph_.node(v.node), operands, graph_.node(v.node).graphs);
    repeated_.insert(results[0].id().node);
    return own[key(v)] = results[at(v.index)];
  }

  const ir::Graph& graph_;
  const int most_cost_;                         // of one element, in additions
  std::vector<GroupKind> kinds_;                // by node
  std::vector<std::int32_t> group_of_;          // by node; -1: none
  std::vector<std::optional<Domain>> domains_;  // by group
  std::vector<bool> inlined_;
  std::vector<std::vector<std::int32_t>> readers_;  // by node
  std::set<std::int32_t> outputs_;                  // of the graph
  std::set<std::int32_t> chosen_;                   // values that are made again
  std::map<Key, ir::Value> known_;
  std::map<std::int32_t, std::map<Key, ir::Value>> copies_;  // by reading group
  std::set<std::int32_t> repeated_;                          // nodes of the new graph
};

}  // namespace

std::optional<Recomputed> recomputed(const ir::Graph& graph, const Fusion& fusion, const Target& target) {
  return Recompute(graph, fusion, target.limits().repeated_cost).run();
}

}  // namespace systole::lower
