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
        inlined_(at(graph.size()), false) {
    for (std::size_t g = 0; g < fusion.groups.size(); ++g) {
      for (const std::int32_t i : fusion.groups[g].nodes) {
        group_of_[at(i)] = static_cast<std::int32_t>(g);
        kinds_[at(i)] = fusion.groups[g].kind;
      }
      for (const std::int32_t i : fusion.groups[g].inlined) inlined_[at(i)] = true;
    }
  }

  std::optional<ir::Graph> run() {
    find();
    if (chosen_.empty()) return std::nullopt;
    return ir::rewrite(graph_,
                       [&](const ir::Rewrite& r) -> std::optional<ir::Values> {
                         for (std::size_t k = 0; k < r.operands.size(); ++k)
                           known_.try_emplace(key(r.node.operands[k]), r.operands[k]);
                         ir::Values operands = r.operands;
                         for (std::size_t k = 0; k < operands.size(); ++k)
                           if (is_read_elsewhere(r.node.operands[k].node, r.index) &&
                               chosen_.contains(r.node.operands[k].node))
                             operands[k] = copy(r, r.node.operands[k], group_of_[at(r.index)]);
                         ir::Values results = ir::copy_node(r.graph, r.node, operands, r.node.graphs);
                         for (std::size_t i = 0; i < results.size(); ++i)
                           known_[{r.index, static_cast<std::int32_t>(i)}] = results[i];
                         return results;
                       },
                       {.subgraphs = false});
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
    std::vector<std::vector<std::int32_t>> readers(at(graph_.size()));
    for (std::int32_t i = 0; i < graph_.size(); ++i)
      for (const ValueId v : graph_.node(i).operands) readers[at(v.node)].push_back(i);
    std::set<std::int32_t> outputs;
    for (const ir::Output& output : graph_.outputs()) outputs.insert(output.value.node);
    for (std::int32_t v = 0; v < graph_.size(); ++v) {
      if (!is_generated(v) || outputs.contains(v) || count(v) < kLeastElements) continue;
      if (ir::info(graph_.node(v).op).op_class != ir::OpClass::elementwise) continue;
      bool crosses = false, possible = true;
      for (const std::int32_t reader : readers[at(v)]) {
        if (group_of_[at(reader)] == group_of_[at(v)]) continue;
        crosses = true;
        possible = possible && is_generated(reader);
      }
      if (crosses && possible && is_cheap(v)) chosen_.insert(v);
    }
  }

  // Whether what is stored anyway makes the value cheaply, and reading that is no more than reading the
  // value.
  bool is_cheap(std::int32_t v) const {
    std::set<std::int32_t> seen, leaves;
    std::vector<std::int32_t> stack = {v};
    int cost = 0;
    while (!stack.empty()) {
      const std::int32_t i = stack.back();
      stack.pop_back();
      if (!seen.insert(i).second) continue;
      if (is_leaf(i, v)) {
        leaves.insert(i);
        continue;
      }
      cost += element_cost(graph_.node(i));
      if (cost > most_cost_) return false;
      for (const ValueId operand : graph_.node(i).operands) stack.push_back(operand.node);
    }
    std::int64_t bytes = 0;
    for (const std::int32_t leaf : leaves)
      if (count(leaf) == count(v) && graph_.node(leaf).op != Op::constant)
        bytes += graph_.node(leaf).types[0].bytes();
    return bytes <= graph_.node(v).types[0].bytes();
  }

  // Where repeating ends: what is stored, sums, and values of rows.
  bool is_leaf(std::int32_t i, std::int32_t v) const {
    if (inlined_[at(i)]) return false;
    if (group_of_[at(i)] != group_of_[at(v)]) return true;
    return graph_.node(i).op == Op::reduce || count(i) < count(v);
  }

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
      operands.push_back(copied(r, operand, whole, own));
    const ir::Values results =
        ir::copy_node(r.graph, graph_.node(v.node), operands, graph_.node(v.node).graphs);
    return own[key(v)] = results[at(v.index)];
  }

  const ir::Graph& graph_;
  const int most_cost_;                 // of one element, in additions
  std::vector<GroupKind> kinds_;        // by node
  std::vector<std::int32_t> group_of_;  // by node; -1: none
  std::vector<bool> inlined_;
  std::set<std::int32_t> chosen_;  // values that are made again
  std::map<Key, ir::Value> known_;
  std::map<std::int32_t, std::map<Key, ir::Value>> copies_;  // by reading group
};

}  // namespace

std::optional<ir::Graph> recomputed(const ir::Graph& graph, const Fusion& fusion, const Target& target) {
  return Recompute(graph, fusion, target.limits().repeated_cost).run();
}

}  // namespace systole::lower
