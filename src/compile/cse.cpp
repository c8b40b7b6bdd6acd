// Common subexpressions: of nodes with equal op, operands, attributes, sub-graphs and shardings the first
// stays. Ops are pure, random_bits too, as its key is an operand. Collectives are meetings of devices, and
// barriers are there to keep equal work apart; both stay, and so do kernels.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

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

bool equal(const ir::Node& a, const ir::Node& b) {
  if (a.op != b.op || a.types != b.types || a.shardings != b.shardings ||
      a.graphs.size() != b.graphs.size() || operand_key(a) != operand_key(b) || a.attrs != b.attrs)
    return false;
  for (std::size_t i = 0; i < a.graphs.size(); ++i)
    if (!a.graphs[i]->same_structure(*b.graphs[i])) return false;
  return true;
}

bool merges(Op op) {
  const ir::OpClass op_class = info(op).op_class;
  return op_class != ir::OpClass::collective && op_class != ir::OpClass::opaque;
}

// What cse asks of a sub-graph, answered once for each, however often it is used.
class Facts {
 public:
  bool mergeable(const ir::Node& node) {
    return merges(node.op) && std::all_of(node.graphs.begin(), node.graphs.end(),
                                          [&](const ir::GraphRef& g) { return of(*g).mergeable; });
  }

  // Of all that equal() compares; `operands` stands for the node's operands.
  std::uint64_t hash(const ir::Node& node, const std::vector<std::uint64_t>& operands) {
    ir::Hasher hasher;
    hasher.add(static_cast<std::uint64_t>(node.op));
    for (std::uint64_t v : operands) hasher.add(v);
    hasher.add(ir::hash_attrs(node.attrs));
    for (const Type& type : node.types) ir::add_type(hasher, type);
    for (const ir::GraphRef& g : node.graphs) hasher.add(of(*g).hash);
    for (const std::optional<ir::Sharding>& sharding : node.shardings) {
      hasher.add(sharding.has_value());
      if (!sharding) continue;
      for (const ir::MeshAxisNames& names : sharding->dims) {
        hasher.add(names.size());
        for (const std::string& name : names) hasher.add(std::string_view(name));
      }
    }
    return hasher.result();
  }

 private:
  struct Fact {
    bool mergeable = true;
    std::uint64_t hash = 0;
  };

  const Fact& of(const ir::Graph& graph) {
    const auto found = facts_.find(&graph);
    return found != facts_.end() ? found->second : facts_.emplace(&graph, look_at(graph)).first->second;
  }

  // A value's hash is that of the work that makes it and a graph's adds up those of its nodes, so where the
  // inputs stand among the nodes does not matter, as it does not to same_structure.
  Fact look_at(const ir::Graph& graph) {
    Fact fact;
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(graph.size()));
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      hashes[static_cast<std::size_t>(graph.inputs()[i])] = hash(graph.node(graph.inputs()[i]), {i});
    const auto of_value = [&](ir::ValueId v) {
      return hashes[static_cast<std::size_t>(v.node)] + static_cast<std::uint64_t>(v.index);
    };
    std::uint64_t sum = 0;
    for (std::int32_t i = 0; i < graph.size(); ++i) {
      const ir::Node& node = graph.node(i);
      fact.mergeable = fact.mergeable && mergeable(node);
      if (node.op != Op::input) {
        std::vector<std::uint64_t> operands;
        for (ir::ValueId v : node.operands) operands.push_back(of_value(v));
        hashes[static_cast<std::size_t>(i)] = hash(node, operands);
      }
      sum += hashes[static_cast<std::size_t>(i)];
    }
    ir::Hasher hasher;
    hasher.add(sum);
    for (const ir::Output& output : graph.outputs()) {
      hasher.add(of_value(output.value));
      hasher.add(std::string_view(output.name));
    }
    fact.hash = hasher.result();
    return fact;
  }

  std::unordered_map<const ir::Graph*, Fact> facts_;
};

struct Merger {
  Subgraphs subgraphs;  // keeps the graphs that facts are about alive
  Facts facts;
};

ir::Graph merged(const ir::Graph& graph, Merger& merger) {
  std::unordered_multimap<std::uint64_t, std::int32_t> seen;  // hash → node of the new graph
  const auto rule = [&](const ir::Rewrite& r) -> std::optional<Values> {
    const std::int32_t fresh = r.graph.size();
    std::vector<ir::GraphRef> graphs =
        merger.subgraphs.turned(r.node, [&](const ir::Graph& g) { return merged(g, merger); });
    ir::Node candidate = r.node;
    candidate.graphs = graphs;
    candidate.operands.clear();
    for (Value v : r.operands) candidate.operands.push_back(v.id());
    const bool may_merge = merger.facts.mergeable(candidate);
    const std::uint64_t hash = may_merge ? merger.facts.hash(candidate, operand_key(candidate)) : 0;
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
  Merger merger;
  return merged(graph, merger);
}

}  // namespace systole::passes
