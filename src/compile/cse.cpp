// Common subexpressions: of nodes with equal op, operands, attributes, sub-graphs and shardings the first
// stays. Ops are pure, random_bits too, as its key is an operand. Collectives are meetings of devices, and
// barriers are there to keep equal work apart; both stay, and so do kernels.

#include <algorithm>
#include <unordered_map>

#include "compile/match.h"
#include "compile/subgraphs.h"
#include "ir/hash.h"
#include "systole/compile/passes.h"
#include "systole/ir/rewriter.h"

namespace systole::passes {

namespace {

// Operands may change places: floats add and multiply alike both ways, and of two zeros max and min may give
// either.
bool commutes(Op op) {
  switch (op) {
    case Op::add:
    case Op::mul:
    case Op::max:
    case Op::min:
    case Op::bitwise_and:
    case Op::bitwise_or:
    case Op::bitwise_xor:
    case Op::equal:
    case Op::not_equal: return true;
    default: return false;
  }
}

std::uint64_t packed(ir::ValueId v) {
  return static_cast<std::uint64_t>(v.node) << 32 | static_cast<std::uint32_t>(v.index);
}

std::vector<std::uint64_t> operand_key(const ir::Node& node) {
  std::vector<std::uint64_t> key;
  for (ir::ValueId v : node.operands) key.push_back(packed(v));
  if (commutes(node.op)) std::sort(key.begin(), key.end());
  return key;
}

std::uint64_t hash_of(const ir::Node& node) {
  ir::Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(node.op));
  for (std::uint64_t v : operand_key(node)) hasher.add(v);
  hasher.add(ir::hash_attrs(node.attrs));
  return hasher.result();
}

bool equal(const ir::Node& a, const ir::Node& b) {
  if (a.op != b.op || a.types != b.types || a.shardings != b.shardings ||
      a.graphs.size() != b.graphs.size() || operand_key(a) != operand_key(b) || a.attrs != b.attrs)
    return false;
  for (std::size_t i = 0; i < a.graphs.size(); ++i)
    if (!a.graphs[i]->same_structure(*b.graphs[i])) return false;
  return true;
}

bool mergeable(const ir::Node& node) {
  const ir::OpClass op_class = info(node.op).op_class;
  return op_class != ir::OpClass::collective && op_class != ir::OpClass::opaque &&
         std::all_of(node.graphs.begin(), node.graphs.end(), [](const ir::GraphRef& g) {
           return std::all_of(g->nodes().begin(), g->nodes().end(), mergeable);
         });
}

ir::Graph merged(const ir::Graph& graph, Subgraphs& subgraphs) {
  std::unordered_multimap<std::uint64_t, std::int32_t> seen;  // hash → node of the new graph
  const auto rule = [&](const ir::Rewrite& r) -> std::optional<Values> {
    const std::int32_t fresh = r.graph.size();
    std::vector<ir::GraphRef> graphs =
        subgraphs.turned(r.node, [&](const ir::Graph& g) { return merged(g, subgraphs); });
    ir::Node candidate = r.node;
    candidate.graphs = graphs;
    candidate.operands.clear();
    for (Value v : r.operands) candidate.operands.push_back(v.id());
    const bool may_merge = mergeable(candidate);
    const std::uint64_t hash = may_merge ? hash_of(candidate) : 0;
    if (may_merge) {
      const auto [first, last] = seen.equal_range(hash);
      for (auto it = first; it != last; ++it) {
        if (!equal(r.graph.node(it->second), candidate)) continue;
        Values results;
        for (std::size_t i = 0; i < candidate.types.size(); ++i)
          results.push_back(r.graph.value({it->second, static_cast<std::int32_t>(i)}));
        return results;
      }
    }
    Values results = ir::copy_node(r.graph, r.node, r.operands, std::move(graphs));
    if (may_merge) seen.emplace(hash, fresh);
    return results;
  };
  return ir::rewrite(graph, rule, {.subgraphs = false});
}

}  // namespace

ir::Graph cse(const ir::Graph& graph) {
  Subgraphs subgraphs;
  return merged(graph, subgraphs);
}

}  // namespace systole::passes
