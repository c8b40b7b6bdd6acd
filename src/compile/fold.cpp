// Constant folding: a node whose operands are known is evaluated by eval/, the same code the reference
// backend runs.
//
// Broadcasts and iotas of known values are known to the nodes that use them but are not made into constants
// themselves: they cost nothing in a kernel and bytes in a constant. A result whose elements are all equal
// becomes a scalar broadcast for the same reason. A node that fails to evaluate stays; running it will say
// why.

#include <set>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "compile/match.h"
#include "compile/verifying.h"
#include "compile/work.h"
#include "eval/eval.h"
#include "systole/compile/passes.h"
#include "systole/ir/rewriter.h"

namespace systole::passes {

namespace {

constexpr std::int64_t kMaxBytes = 64 * 1024;  // of a node's results
constexpr std::int64_t kMaxWork = 1 << 20;     // elementary operations of a node

bool is_expander(Op op) { return op == Op::broadcast || op == Op::iota; }

bool all_static(std::span<const Type> types) {
  for (const Type& t : types)
    if (!t.shape.is_static()) return false;
  return true;
}

bool small(std::span<const Type> types) {
  std::int64_t bytes = 0;
  for (const Type& t : types)
    if (__builtin_add_overflow(bytes, t.bytes(), &bytes) || bytes > kMaxBytes) return false;
  return true;
}

// What folding may still add: all constants of its size are counted, whoever made them, so that what it made
// in an earlier round counts too.
class Room {
 public:
  explicit Room(const ir::Graph& graph) { count(graph); }

  bool take(std::span<const Type> types) {
    std::int64_t bytes = 0;
    for (const Type& t : types) bytes += t.bytes();  // small, so they do not wrap
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  void count(const ir::Graph& graph) {
    if (!seen_.insert(&graph).second) return;
    for (const ir::Node& node : graph.nodes()) {
      if (node.op == Op::constant && small(node.types)) take(node.types);
      for (const ir::GraphRef& g : node.graphs) count(*g);
    }
  }

  std::set<const ir::Graph*> seen_;
  std::int64_t left_ = kMaxFoldedBytes;
};

// A constant, an iota, or either of them broadcast; simplify leaves no longer chains.
bool is_known(Value v) {
  if (constant(v) != nullptr) return true;
  const auto cheap = [](Value x) {
    const ir::Node& node = maker(x);
    return is_expander(node.op) && node.shardings.empty() && all_static(node.types) && small(node.types);
  };
  if (!cheap(v)) return false;
  if (maker(v).op == Op::iota) return true;
  const Value x = operand(v);
  return constant(x) != nullptr || (maker(x).op == Op::iota && cheap(x));
}

Literal value_of(Value v) {
  if (const Literal* literal = constant(v)) return *literal;
  std::vector<Literal> operands;
  if (maker(v).op == Op::broadcast) operands.push_back(value_of(operand(v)));
  return eval::evaluate(maker(v), operands)[0];
}

// An elementwise op on values that are each the same everywhere: one element tells all, at any size.
Value fold_splats(const ir::Rewrite& rewrite) {
  Graph scratch;
  Values scalars;
  std::vector<Literal> elements;
  for (Value v : rewrite.operands) {
    std::optional<Literal> element = splat(v);
    if (!element) return {};
    scalars.push_back(scratch.constant(*element));
    elements.push_back(std::move(*element));
  }
  const Value result = scratch.add(rewrite.node.op, scalars, rewrite.node.attrs);
  return filled(rewrite.graph, eval::evaluate(maker(result), elements)[0], rewrite.node.types[0].shape);
}

// Reading a constant under another shape shares its storage, so size does not matter.
Value fold_reshape(const ir::Rewrite& rewrite) {
  const Literal* literal = constant(rewrite.operands[0]);
  return literal == nullptr ? Value()
                            : compact_constant(rewrite.graph, literal->reshaped(rewrite.node.types[0].shape));
}

Values fold_known(const ir::Rewrite& rewrite, Room& room) {
  const ir::Node& node = rewrite.node;
  if (!small(node.types)) return {};
  std::vector<Type> types;
  for (Value v : rewrite.operands) {
    if (!is_known(v)) return {};
    types.push_back(v.type());
  }
  if (!within_work(node, types, kMaxWork) || !room.take(node.types)) return {};
  std::vector<Literal> operands;
  for (Value v : rewrite.operands) operands.push_back(value_of(v));
  Values results;
  for (const Literal& value : eval::evaluate(node, operands))
    results.push_back(compact_constant(rewrite.graph, value));
  return results;
}

std::optional<Values> fold_node(const ir::Rewrite& rewrite, Room& room) {
  const ir::Node& node = rewrite.node;
  const bool skipped = node.op == Op::constant || is_expander(node.op) || !node.shardings.empty();
  if (skipped || !all_static(node.types)) return std::nullopt;
  try {
    Replacement result;
    if (info(node.op).op_class == ir::OpClass::elementwise) result = fold_splats(rewrite);
    if (node.op == Op::reshape) result = fold_reshape(rewrite);
    if (result.values.empty()) result = fold_known(rewrite, room);
    if (result.values.empty()) return std::nullopt;
    return std::move(result.values);
  } catch (const Error& error) {
    if (log_enabled(LogLevel::debug))
      log(LogLevel::debug, fmt::format("fold: {} left as it is: {}", ir::name(node.op), error.what()));
    return std::nullopt;
  }
}

}  // namespace

ir::Graph fold(const ir::Graph& graph) {
  Room room(graph);
  return ir::rewrite(graph, [&](const ir::Rewrite& rewrite) { return fold_node(rewrite, room); });
}

}  // namespace systole::passes
